"""Any file at a glance: what it is, by its content, and what it holds."""

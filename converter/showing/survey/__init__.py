"""Many nets at a glance: which convert, and what stops the others."""

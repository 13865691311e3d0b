"""Many nets at a glance: which convert, and what is in the way of the others."""

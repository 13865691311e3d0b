"""The command `batch`: its options, its display, its exit code."""

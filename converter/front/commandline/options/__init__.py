"""The options that commands share: how each is read, and what its group is for."""

"""The older forms of a net, rewritten as layers of today."""

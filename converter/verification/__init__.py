"""Several ways to compute the same net, held against each other."""

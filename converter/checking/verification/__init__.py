"""Several ways to compute the same net, compared with each other."""

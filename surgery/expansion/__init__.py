"""From layers to primitives: the checks of a net, and the loop that calls the rule of each layer."""

"""From layers to primitives: what a net must fulfil, and the walk that calls the rule of each layer."""

"""Layers of Synopsys' fork, most of them of TensorFlow."""

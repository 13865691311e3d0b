"""A program that builds the network through TensorRT's API, written from the calls that make it."""

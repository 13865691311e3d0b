"""Primitives to TensorRT's INetworkDefinition, and that to a plan."""

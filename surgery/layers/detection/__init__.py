"""Layers that find objects: what they decide depends on data, but how much they give has a fixed size."""

"""The recurrent layers of Caffe and of its forks: what they read from a net, and what they make of it."""

from prototrt.surgery.layers.recurrent import dialects, rules

__all__ = ["dialects", "rules"]

"""The recurrent layers of Caffe and its forks: how they are read from a net and expanded."""

from prototrt.surgery.layers.recurrent import dialects, rules

__all__ = ["dialects", "rules"]

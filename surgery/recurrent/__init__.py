"""Recurrent layers: cells, the function that makes a Scan of a cell, and the layer rules."""

from prototrt.surgery.recurrent import dialects, rules

__all__ = ["dialects", "rules"]

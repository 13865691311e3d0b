"""Layers that compute new numbers, of each element, of elements at the same place or of many."""

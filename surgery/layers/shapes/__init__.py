"""Layers that change the place of elements, or pick some of them."""

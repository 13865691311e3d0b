"""Layers that bring data, or only pass it on."""

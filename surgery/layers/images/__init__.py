"""Layers that read images between their elements, or make them larger or smaller."""

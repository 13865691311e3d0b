"""Layers whose windows slide over images and videos."""

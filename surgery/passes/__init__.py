"""Passes, which rewrite a graph as a graph: one file per pass. ``surgery/pipeline.py`` sets the order."""

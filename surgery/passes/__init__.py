"""Graph to graph, one file a pass; ``surgery/pipeline.py`` says in which order."""

"""The inputs of calls: from arrays, folders, images, and Python functions."""

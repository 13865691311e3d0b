"""Caffe2's files: nets of operators, and the nets that fill their weights."""

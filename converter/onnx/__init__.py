"""Primitives to ONNX, for whoever runs that, and for onnxruntime as a third opinion."""

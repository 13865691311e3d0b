"""Primitives to ONNX: to export models, and to check results with onnxruntime."""

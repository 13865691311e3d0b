"""Layers that find objects: what they decide depends on data, but how much they give has a fixed size."""

from prototrt.surgery.layers.detection import detection_output, mscnn, prior_box, proposal, yolo

__all__ = ["detection_output", "mscnn", "prior_box", "proposal", "yolo"]

"""Lowering of images of another size."""

from __future__ import annotations

from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import Resize


@lowers(Resize)
def resize(model: OnnxModel, op: Resize, x: Tensor) -> list[str]:
    sizes = model.add("Concat", model.sizes(x, [0, 1]), model.size(op.height), model.size(op.width), axis=0)
    settings = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return [model.add("Resize", x, "", "", sizes, **settings)]

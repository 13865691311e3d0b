"""Lowering of images of another size."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import Resize

_OPTIONAL_SCALES = 13
"""The first opset in which a Resize to sizes has no region and no scales."""


@lowers(Resize)
def resize(model: OnnxModel, op: Resize, x: Tensor) -> list[str]:
    sizes = model.add("Concat", model.sizes(x, [0, 1]), model.size(op.height), model.size(op.width), axis=0)
    settings = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    no_scales = "" if model.opset >= _OPTIONAL_SCALES else model.array(np.zeros(0, np.float32))
    return [model.add("Resize", x, no_scales, no_scales, sizes, **settings)]

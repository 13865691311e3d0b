"""The check on the TensorRT backend where there is no GPU: a network evaluated in numpy.

It reads back the input of TensorRT, and computes its meaning by NVIDIA's documentation. It shares
nothing with the lowering, the primitives or the reference evaluator.
"""

from __future__ import annotations

from prototrt.converter.backends.readback import (  # noqa: F401 (each registers its rules)
    activation,
    constant,
    convolution,
    counting,
    elementwise,
    linear,
    normalization,
    pooling,
    quantize,
    reduction,
    resize,
    selection,
    shape,
    suppression,
)
from prototrt.converter.backends.readback.interpreter import NetworkInterpreter

__all__ = ["NetworkInterpreter"]

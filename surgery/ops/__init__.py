"""The closed set of primitives: attributes, shape rule and NumPy meaning side by side."""

from prototrt.surgery.ops.activation import Identity, LeakyReLU, Sigmoid, TanH
from prototrt.surgery.ops.convolution import Convolution, Deconvolution, Patches
from prototrt.surgery.ops.elementwise import (
    ADD,
    DIVIDE,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    SUBTRACT,
    Binary,
    BinaryKind,
    Cast,
)
from prototrt.surgery.ops.linear import MatMul
from prototrt.surgery.ops.normalization import LRN, Affine, Softmax
from prototrt.surgery.ops.pooling import AveragePool, MaxPool, MaxPoolIndex, StochasticPool
from prototrt.surgery.ops.scan import Scan, steps_of
from prototrt.surgery.ops.shape import Axis, Concat, Gather, Pad, Reshape, Slice, Tile, Transpose

__all__ = [
    "ADD",
    "DIVIDE",
    "LRN",
    "MAXIMUM",
    "MINIMUM",
    "MULTIPLY",
    "SUBTRACT",
    "Affine",
    "AveragePool",
    "Axis",
    "Binary",
    "BinaryKind",
    "Cast",
    "Concat",
    "Convolution",
    "Deconvolution",
    "Gather",
    "Identity",
    "LeakyReLU",
    "MatMul",
    "MaxPool",
    "MaxPoolIndex",
    "Pad",
    "Patches",
    "Reshape",
    "Scan",
    "Sigmoid",
    "Slice",
    "Softmax",
    "StochasticPool",
    "TanH",
    "Tile",
    "Transpose",
    "steps_of",
]

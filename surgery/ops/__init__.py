"""The closed set of primitives: attributes, shape rule and NumPy meaning side by side."""

from prototrt.surgery.ops.activation import Identity, LeakyReLU, Sigmoid, TanH
from prototrt.surgery.ops.convolution import Convolution
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
from prototrt.surgery.ops.pooling import AveragePool, MaxPool
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
    "Gather",
    "Identity",
    "LeakyReLU",
    "MatMul",
    "MaxPool",
    "Pad",
    "Reshape",
    "Scan",
    "Sigmoid",
    "Slice",
    "Softmax",
    "TanH",
    "Tile",
    "Transpose",
    "steps_of",
]

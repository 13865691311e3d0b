"""The type in which each primitive computes when a graph uses 16 bits."""

from __future__ import annotations

import enum

from prototrt.surgery import ops
from prototrt.surgery.ir import Node, Op


class InHalf(enum.Enum):
    """What float16, or bfloat16, does to a primitive."""

    PRODUCT = "computes in 16 bits: products run faster and weights are half as large"
    FOLLOWS = (
        "computes in 16 bits if all its inputs have 16 bits, except in the bodies of Scans; else in float32"
    )
    SCALED = "makes numbers of 8 bits from whatever it reads, and numbers of 16 bits from those of 8"
    WIDE = "computes in float32: it sums, decides, counts, or needs more range than float16 has"
    AS_IT_IS = "reads whatever there is"


_PRIMITIVES = {
    InHalf.PRODUCT: "Convolution Deconvolution MatMul",
    InHalf.FOLLOWS: (
        "Affine Binary Clip Compress Concat ELU Gather HardSigmoid Identity LeakyReLU MaxPool PReLU Pad Patches "
        "Reshape Reverse ReverseSequence Scatter Select Sigmoid Slice Softsign TanH Tile Transpose Unary"
    ),
    InHalf.SCALED: "Dequantize Quantize",
    InHalf.WIDE: (
        "AveragePool LRN MaxPoolIndex NonMaxSuppression Plugin Power Reduce Resize Softmax StochasticPool TopK While"
    ),
    InHalf.AS_IT_IS: "Cast Count",
}
IN_HALF: dict[type[Op], InHalf] = {
    getattr(ops, name): half for half, names in _PRIMITIVES.items() for name in names.split()
}
"""Every primitive except Scan, because its body has its own primitives."""
NOT_IN_BFLOAT16 = (ops.Deconvolution,)
"""Products that TensorRT for RTX 1.7.1 cannot build in bfloat16."""
_WIDE_KINDS = (
    ops.BinaryKind.DIVIDE,
    ops.BinaryKind.EQUAL,
    ops.BinaryKind.GREATER,
    ops.UnaryKind.EXP,
    ops.UnaryKind.LOG,
    ops.UnaryKind.SQRT,
)


def in_half(node: Node) -> InHalf:
    """A constant table of rows counts as weights, one of single numbers may hold places. A square doubles the range."""
    op = node.op
    is_square = op == ops.MULTIPLY and node.inputs[0] is node.inputs[1]
    if is_square or (isinstance(op, (ops.Binary, ops.Unary)) and op.kind in _WIDE_KINDS):
        return InHalf.WIDE
    if isinstance(op, ops.Gather) and node.inputs[0].is_constant and len(node.inputs[0].shape) > 1:
        return InHalf.PRODUCT
    return IN_HALF[type(op)]

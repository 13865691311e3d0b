"""The type in which each primitive computes when a graph uses 16 bits, and what a graph computes in."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from prototrt.surgery import ops
from prototrt.surgery.ir import DType, Graph, Node, Op, walk
from prototrt.surgery.options import Precision


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
_EIGHT_BITS: Mapping[DType, tuple[Precision, Precision]] = {
    DType.INT8: ("int8", "int8,bf16"),
    DType.FLOAT8: ("fp8", "fp8,bf16"),
}
"""The precisions of these products, with float16 and with bfloat16 around them."""
_SIXTEEN_BITS: Mapping[DType, Precision] = {DType.FLOAT16: "fp16", DType.BFLOAT16: "bf16"}


def in_half(node: Node) -> InHalf:
    """A constant table of rows counts as weights, one of single numbers may hold places. A square doubles the range."""
    op = node.op
    is_square = op == ops.MULTIPLY and node.inputs[0] is node.inputs[1]
    if is_square or (isinstance(op, (ops.Binary, ops.Unary)) and op.kind in _WIDE_KINDS):
        return InHalf.WIDE
    if isinstance(op, ops.Gather) and node.inputs[0].is_constant and len(node.inputs[0].shape) > 1:
        return InHalf.PRODUCT
    return IN_HALF[type(op)]


def precision_of(graph: Graph) -> Precision:
    """The precision of a graph's products, as a value of the option ``precision``."""
    dtypes = {value.dtype for node in walk(graph) for value in node.outputs}
    for dtype, (in_float16, in_bfloat16) in _EIGHT_BITS.items():
        if dtype in dtypes:
            return in_bfloat16 if DType.BFLOAT16 in dtypes else in_float16
    sixteen = [name for dtype, name in _SIXTEEN_BITS.items() if dtype in dtypes]
    return sixteen[0] if sixteen else "fp32"

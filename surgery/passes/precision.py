"""In which type primitives compute where a graph is to use float16."""

from __future__ import annotations

import enum

from prototrt.surgery.ir import DType, Graph, Node, Op, walk
from prototrt.surgery.ops import (
    ELU,
    LRN,
    MULTIPLY,
    Affine,
    AveragePool,
    Binary,
    BinaryKind,
    Cast,
    Clip,
    Compress,
    Concat,
    Convolution,
    Deconvolution,
    Gather,
    HardSigmoid,
    Identity,
    LeakyReLU,
    MatMul,
    MaxPool,
    MaxPoolIndex,
    Pad,
    Patches,
    Power,
    PReLU,
    Reduce,
    Reshape,
    Reverse,
    ReverseSequence,
    Scatter,
    Select,
    Sigmoid,
    Slice,
    Softmax,
    Softsign,
    StochasticPool,
    TanH,
    Tile,
    TopK,
    Transpose,
    Unary,
    UnaryKind,
    While,
)


class Role(enum.Enum):
    """What float16 does to a primitive."""

    PRODUCT = "computes in float16: products run faster and weights are half as large"
    FOLLOWS = (
        "computes in float16 if all its inputs are float16, except in the bodies of Scans; else in float32"
    )
    WIDE = "computes in float32: it sums, decides, counts, or needs more range than float16 has"
    AS_IT_IS = "reads whatever there is"


ROLES: dict[type[Op], Role] = {
    Affine: Role.FOLLOWS,
    AveragePool: Role.WIDE,
    Binary: Role.FOLLOWS,
    Cast: Role.AS_IT_IS,
    Clip: Role.FOLLOWS,
    Compress: Role.FOLLOWS,
    Concat: Role.FOLLOWS,
    Convolution: Role.PRODUCT,
    Deconvolution: Role.PRODUCT,
    ELU: Role.FOLLOWS,
    Gather: Role.FOLLOWS,
    HardSigmoid: Role.FOLLOWS,
    Identity: Role.FOLLOWS,
    LRN: Role.WIDE,
    LeakyReLU: Role.FOLLOWS,
    MatMul: Role.PRODUCT,
    MaxPool: Role.FOLLOWS,
    MaxPoolIndex: Role.WIDE,
    PReLU: Role.FOLLOWS,
    Pad: Role.FOLLOWS,
    Patches: Role.FOLLOWS,
    Power: Role.WIDE,
    Reduce: Role.WIDE,
    Reshape: Role.FOLLOWS,
    Reverse: Role.FOLLOWS,
    ReverseSequence: Role.FOLLOWS,
    Scatter: Role.FOLLOWS,
    Select: Role.FOLLOWS,
    Sigmoid: Role.FOLLOWS,
    Slice: Role.FOLLOWS,
    Softmax: Role.WIDE,
    Softsign: Role.FOLLOWS,
    StochasticPool: Role.WIDE,
    TanH: Role.FOLLOWS,
    Tile: Role.FOLLOWS,
    TopK: Role.WIDE,
    Transpose: Role.FOLLOWS,
    Unary: Role.FOLLOWS,
    While: Role.WIDE,
}
"""Every primitive but Scan, whose body has primitives of its own."""
_WIDE_KINDS = (
    BinaryKind.DIVIDE,
    BinaryKind.EQUAL,
    BinaryKind.GREATER,
    UnaryKind.EXP,
    UnaryKind.LOG,
    UnaryKind.SQRT,
)


def role_of(node: Node) -> Role:
    """A table of constants that is looked up is weights, as those of a product are; a square has twice the range."""
    op = node.op
    is_square = op == MULTIPLY and node.inputs[0] is node.inputs[1]
    if is_square or (isinstance(op, (Binary, Unary)) and op.kind in _WIDE_KINDS):
        return Role.WIDE
    if isinstance(op, Gather) and node.inputs[0].is_constant:
        return Role.PRODUCT
    return ROLES[type(op)]


def precision_of(graph: Graph) -> str:
    """``"fp16"`` if any primitive writes float16, else ``"fp32"``."""
    dtypes = {value.dtype for node in walk(graph) for value in node.outputs}
    return "fp16" if DType.FLOAT16 in dtypes else "fp32"

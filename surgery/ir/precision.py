"""What a graph computes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prototrt.surgery.ir.graph import Graph, walk
from prototrt.surgery.ir.shapes import DType

if TYPE_CHECKING:
    from prototrt.surgery.options import Precision

_EIGHT_BITS: Mapping[DType, tuple[Precision, Precision]] = {
    DType.INT8: ("int8", "int8,bf16"),
    DType.FLOAT8: ("fp8", "fp8,bf16"),
}
"""The precisions of these products, with float16 and with bfloat16 around them."""
_SIXTEEN_BITS: Mapping[DType, Precision] = {DType.FLOAT16: "fp16", DType.BFLOAT16: "bf16"}


def precision_of(graph: Graph) -> Precision:
    """The precision of a graph's products, as a value of the option ``precision``."""
    dtypes = {value.dtype for node in walk(graph) for value in node.outputs}
    for dtype, (in_float16, in_bfloat16) in _EIGHT_BITS.items():
        if dtype in dtypes:
            return in_bfloat16 if DType.BFLOAT16 in dtypes else in_float16
    sixteen = [name for dtype, name in _SIXTEEN_BITS.items() if dtype in dtypes]
    return sixteen[0] if sixteen else "fp32"

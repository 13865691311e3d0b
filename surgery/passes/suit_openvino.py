"""Pass: say in other primitives what OpenVINO reads, but computes otherwise."""

from __future__ import annotations

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Value
from prototrt.surgery.ops import ABS, DIVIDE, MULTIPLY, Binary, Unary, UnaryKind
from prototrt.surgery.passes.respelled import respelled

_SIGN = Unary(UnaryKind.SIGN)


def suit_openvino(graph: Graph) -> Graph:
    """Divide whole numbers as C does, where OpenVINO rounds down.

    Before: ``y = Divide(a, b)`` of int32
    After:  ``y = Sign(a) * Sign(b) * Divide(Abs(a), Abs(b))``
    Left alone: everything else.
    """
    return respelled(graph, {Binary: _divide})


def _divide(build: Builder, op: Binary, a: Value, b: Value) -> Value | None:
    if op != DIVIDE or a.dtype is not DType.INT32:
        return None
    sign = build.add(MULTIPLY, build.add(_SIGN, a), build.add(_SIGN, b))
    return build.add(MULTIPLY, sign, build.add(DIVIDE, build.add(ABS, a), build.add(ABS, b)))

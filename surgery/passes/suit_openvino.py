"""Pass: say in other primitives what OpenVINO reads, but computes otherwise."""

from __future__ import annotations

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Value
from prototrt.surgery.ops import ABS, ADD, DIVIDE, MULTIPLY, Binary, Clip, HardSigmoid, Unary, UnaryKind
from prototrt.surgery.passes.rewrite_nodes import rewrite_nodes

_SIGN = Unary(UnaryKind.SIGN)


def suit_openvino(graph: Graph) -> Graph:
    """Replace what OpenVINO computes otherwise: it rounds quotients down, and takes a 0 in HardSigmoid for none.

    Before: ``y = Divide(a, b)`` of int32
    After:  ``y = Sign(a) * Sign(b) * Divide(Abs(a), Abs(b))``
    Before: ``y = HardSigmoid[alpha=0.5, beta=0](x)``
    After:  ``y = Clip[0, 1](x * 0.5)``
    Left alone: everything else.
    """
    return rewrite_nodes(graph, {Binary: _divide, HardSigmoid: _hard_sigmoid})


def _divide(build: Builder, op: Binary, a: Value, b: Value) -> Value | None:
    if op != DIVIDE or a.dtype is not DType.INT32:
        return None
    sign = build.add(MULTIPLY, build.add(_SIGN, a), build.add(_SIGN, b))
    return build.add(MULTIPLY, sign, build.add(DIVIDE, build.add(ABS, a), build.add(ABS, b)))


def _hard_sigmoid(build: Builder, op: HardSigmoid, x: Value) -> Value | None:
    if op.alpha and op.beta:
        return None
    line = build.add(MULTIPLY, x, build.scalar(op.alpha, len(x.shape), x.dtype))
    shift = build.scalar(op.beta, len(x.shape), x.dtype)
    return build.add(Clip(0, 1), build.add(ADD, line, shift) if op.beta else line)

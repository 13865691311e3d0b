"""How primitives process all steps of a sequence at once: with an additional first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Node, Op, Value, element_count
from prototrt.surgery.ops import (
    Axis,
    Binary,
    Cast,
    Concat,
    Gather,
    MatMul,
    PReLU,
    Reduce,
    Reshape,
    Reverse,
    Select,
    Slice,
    Softmax,
    Tile,
    Transpose,
)
from prototrt.surgery.ops.elementwise import Pointwise

Apply: TypeAlias = Callable[..., Value]
"""``apply(build, op, values, is_each, hint)``: the values are sequences where ``is_each`` is true."""


@dataclass(frozen=True, slots=True)
class _AllSteps:
    """``suits`` is whether the op can do so, with sequences in these places."""

    apply: Apply
    suits: Callable[[Any, Sequence[bool]], bool] = lambda op, is_each: True


def _pointwise(build: Builder, op: Op, values: Sequence[Value], is_each: Sequence[bool], hint: str) -> Value:
    return build.add(op, *values, hint=hint)


def _stretching(build: Builder, op: Op, values: Sequence[Value], is_each: Sequence[bool], hint: str) -> Value:
    """Shapes of equal rank: values that are not sequences broadcast over the steps."""
    operands = [
        value if each else build.reshape(value, (1, *value.shape), hint=f"{hint}_every")
        for value, each in zip(values, is_each, strict=True)
    ]
    return build.add(op, *operands, hint=hint)


def _matmul(build: Builder, op: MatMul, values: Sequence[Value], is_each: Sequence[bool], hint: str) -> Value:
    """One product with all steps as rows, where the second factor is one matrix for all of them."""
    a, b = values
    if is_each[1] or any(dim != 1 for dim in b.shape[:-2]):
        return _stretching(build, op, values, is_each, hint)
    rows = [dim for dim in a.shape[1:-1] if dim != 1]
    if len(rows) > 1 and not all(isinstance(dim, int) for dim in rows):
        return _stretching(build, op, values, is_each, hint)
    count = rows[0] if len(rows) == 1 else element_count(tuple(rows))
    flat = build.reshape(a, (a.shape[0], count, a.shape[-1]), hint=f"{hint}_rows")
    matrix = build.reshape(b, (1, *b.shape[-2:]), hint=f"{hint}_matrix")
    product = build.add(op, flat, matrix, hint=hint)
    return build.reshape(product, (*a.shape[:-1], product.shape[-1]), hint=f"{hint}_restored")


def _reshape(
    build: Builder, op: Reshape, values: Sequence[Value], is_each: Sequence[bool], hint: str
) -> Value:
    target = (Axis(0), *(Axis(dim.index + 1) if isinstance(dim, Axis) else dim for dim in op.target))
    return build.add(Reshape(target), *values, hint=hint)


def _transpose(
    build: Builder, op: Transpose, values: Sequence[Value], is_each: Sequence[bool], hint: str
) -> Value:
    return build.add(Transpose((0, *(axis + 1 for axis in op.order))), *values, hint=hint)


def _reduce(build: Builder, op: Reduce, values: Sequence[Value], is_each: Sequence[bool], hint: str) -> Value:
    return build.add(replace(op, axes=tuple(axis + 1 for axis in op.axes)), *values, hint=hint)


def _along(build: Builder, op: Any, values: Sequence[Value], is_each: Sequence[bool], hint: str) -> Value:
    """Primitives that work along one axis."""
    return build.add(replace(op, axis=op.axis + 1), *values, hint=hint)


_ALL_STEPS: dict[type[Op], _AllSteps] = {
    Binary: _AllSteps(_stretching),
    Cast: _AllSteps(_pointwise),
    Concat: _AllSteps(_along, lambda op, is_each: all(is_each)),
    Gather: _AllSteps(_pointwise, lambda op, is_each: not is_each[0]),
    MatMul: _AllSteps(_matmul),
    PReLU: _AllSteps(_stretching, lambda op, is_each: is_each[0]),
    Pointwise: _AllSteps(_pointwise),
    Reduce: _AllSteps(_reduce),
    Reshape: _AllSteps(_reshape),
    Reverse: _AllSteps(_along),
    Slice: _AllSteps(_along),
    Softmax: _AllSteps(_along),
    Tile: _AllSteps(_along),
    Transpose: _AllSteps(_transpose),
    Select: _AllSteps(_stretching),
}
"""Primitives that are missing here are not moved."""


@dataclass(slots=True)
class Lifted:
    """The values that replace those of other nodes: with the additional axis (``each``), or without it (``once``)."""

    each: dict[Value, Value] = field(default_factory=dict)
    once: dict[Value, Value] = field(default_factory=dict)

    def add(self, build: Builder, node: Node, values: Sequence[Value], is_each: Sequence[bool]) -> bool:
        """Add a node over other values, which have the axis where ``is_each`` is true; False if it cannot be."""
        build.origin = node.origin
        if not any(is_each):
            results = build.add_all(node.op, *values, hint=node.hint)
            self.once.update(zip(node.outputs, results, strict=True))
            return True
        how = next((how for kind, how in _ALL_STEPS.items() if isinstance(node.op, kind)), None)
        if how is None or not how.suits(node.op, is_each):
            return False
        self.each[node.outputs[0]] = how.apply(build, node.op, values, is_each, node.hint)
        return True

"""How primitives process all steps of a sequence at once: with an additional first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Dim, Op, Value
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
class AllSteps:
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
    flat = build.reshape(a, (a.shape[0], _merged(rows), a.shape[-1]), hint=f"{hint}_rows")
    matrix = build.reshape(b, (1, *b.shape[-2:]), hint=f"{hint}_matrix")
    product = build.add(op, flat, matrix, hint=hint)
    return build.reshape(product, (*a.shape[:-1], product.shape[-1]), hint=f"{hint}_restored")


def _merged(rows: Sequence[Dim]) -> Dim:
    if len(rows) == 1:
        return rows[0]
    count = 1
    for dim in rows:
        assert isinstance(dim, int)
        count *= dim
    return count


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


_ALL_STEPS: dict[type[Op], AllSteps] = {
    Binary: AllSteps(_stretching),
    Cast: AllSteps(_pointwise),
    Concat: AllSteps(_along, lambda op, is_each: all(is_each)),
    Gather: AllSteps(_pointwise, lambda op, is_each: not is_each[0]),
    MatMul: AllSteps(_matmul),
    PReLU: AllSteps(_stretching, lambda op, is_each: is_each[0]),
    Pointwise: AllSteps(_pointwise),
    Reduce: AllSteps(_reduce),
    Reshape: AllSteps(_reshape),
    Reverse: AllSteps(_along),
    Slice: AllSteps(_along),
    Softmax: AllSteps(_along),
    Tile: AllSteps(_along),
    Transpose: AllSteps(_transpose),
    Select: AllSteps(_stretching),
}
"""Primitives that are missing here are not moved."""


def all_steps_of(op: Op) -> AllSteps | None:
    """How a primitive does so, or None."""
    return next((how for kind, how in _ALL_STEPS.items() if isinstance(op, kind)), None)

"""How primitives process all steps of a sequence at once: with an additional first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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


@dataclass(frozen=True, slots=True)
class _AllSteps:
    """``lifted`` is the op with the additional axis. The operands of one that ``stretches`` have equal ranks.

    ``suits`` is whether the op can have the axis, with sequences in these places.
    """

    lifted: Callable[[Any], Op] = lambda op: op
    suits: Callable[[Any, Sequence[bool]], bool] = lambda op, is_each: True
    stretches: bool = False


def _stretched(
    build: Builder, values: Sequence[Value], is_each: Sequence[bool], hint: str
) -> Sequence[Value]:
    """Values of equal rank: those that are not sequences broadcast over the steps."""
    return [
        value if each else build.reshape(value, (1, *value.shape), hint=f"{hint}_every")
        for value, each in zip(values, is_each, strict=True)
    ]


def _product(build: Builder, op: MatMul, values: Sequence[Value], hint: str) -> Value | None:
    """One product with all steps as rows, where the second factor is one matrix for all of them; else None."""
    a, b = values
    rows = [dim for dim in a.shape[1:-1] if dim != 1]
    if any(dim != 1 for dim in b.shape[:-2]) or (
        len(rows) > 1 and not all(isinstance(dim, int) for dim in rows)
    ):
        return None
    count = rows[0] if len(rows) == 1 else element_count(tuple(rows))
    flat = build.reshape(a, (a.shape[0], count, a.shape[-1]), hint=f"{hint}_rows")
    matrix = build.reshape(b, (1, *b.shape[-2:]), hint=f"{hint}_matrix")
    product = build.add(op, flat, matrix, hint=hint)
    return build.reshape(product, (*a.shape[:-1], product.shape[-1]), hint=f"{hint}_restored")


def _lifted_reshape(op: Reshape) -> Op:
    return Reshape((Axis(0), *(Axis(dim.index + 1) if isinstance(dim, Axis) else dim for dim in op.target)))


_SAME = _AllSteps()
_ALONG = _AllSteps(lambda op: replace(op, axis=op.axis + 1))
_STRETCHING = _AllSteps(stretches=True)
_ALL_STEPS: dict[type[Op], _AllSteps] = {
    Binary: _STRETCHING,
    Cast: _SAME,
    Concat: replace(_ALONG, suits=lambda op, is_each: all(is_each)),
    Gather: replace(_SAME, suits=lambda op, is_each: not is_each[0]),
    MatMul: _STRETCHING,
    PReLU: replace(_STRETCHING, suits=lambda op, is_each: is_each[0]),
    Pointwise: _SAME,
    Reduce: _AllSteps(lambda op: replace(op, axes=tuple(axis + 1 for axis in op.axes))),
    Reshape: _AllSteps(_lifted_reshape),
    Reverse: _ALONG,
    Select: _STRETCHING,
    Slice: _ALONG,
    Softmax: _ALONG,
    Tile: _ALONG,
    Transpose: _AllSteps(lambda op: Transpose((0, *(axis + 1 for axis in op.order)))),
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
        self.each[node.outputs[0]] = _for_all_steps(build, node, how, values, is_each)
        return True


def _for_all_steps(
    build: Builder, node: Node, how: _AllSteps, values: Sequence[Value], is_each: Sequence[bool]
) -> Value:
    hint = node.hint
    if isinstance(node.op, MatMul) and not is_each[1] and (y := _product(build, node.op, values, hint)):
        return y
    operands = _stretched(build, values, is_each, hint) if how.stretches else values
    return build.add(how.lifted(node.op), *operands, hint=hint)

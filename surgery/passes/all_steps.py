"""How primitives process all steps of a sequence at once: with an additional first axis."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Node, Op, Value, element_count
from prototrt.surgery.ops import Concat, Gather, MatMul, PReLU
from prototrt.surgery.ops.elementwise import Elementwise
from prototrt.surgery.ops.quantize import ScaledOp


def _broadcast_over_steps(
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


def _suits(op: Op, is_each: Sequence[bool]) -> bool:
    """Whether the operands can have the axis in these places alone."""
    if isinstance(op, Concat):
        return all(is_each)
    if isinstance(op, Gather):
        return not is_each[0]
    if isinstance(op, ScaledOp):  # it has one scale, or one for each element of an axis, and not of two
        return not is_each[1]
    return is_each[0] or not isinstance(op, PReLU)


@dataclass(slots=True)
class LiftedValues:
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
        places = range(1, len(values[is_each.index(True)].shape))
        op = node.op.renumbered(places) if len(node.outputs) == 1 and _suits(node.op, is_each) else None
        if op is not None:
            self.each[node.outputs[0]] = _for_all_steps(build, op, values, is_each, node.hint)
        return op is not None


def _for_all_steps(
    build: Builder, op: Op, values: Sequence[Value], is_each: Sequence[bool], hint: str
) -> Value:
    if isinstance(op, MatMul) and not is_each[1] and (y := _product(build, op, values, hint)):
        return y
    broadcasts = isinstance(op, (Elementwise, MatMul))
    operands = _broadcast_over_steps(build, values, is_each, hint) if broadcasts else values
    return build.add(op, *operands, hint=hint)

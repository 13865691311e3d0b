"""Operators that normalize parts of a blob separately."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.caffe2.advice import GIVE_SHAPES_AND_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Expression, centred
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    channel_axis,
    flattened,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.ir import Shape, Value, fixed
from prototrt.surgery.ops import ABS, ADD, DIVIDE, MAXIMUM, MULTIPLY, SQRT, SUBTRACT, Reduce, ReduceKind


@operator_rule("GroupNorm", "InstanceNorm")
def group_norm(build: Builder, operator: Operator, x: Value, scale: Value, shift: Value) -> list[Value]:
    """``(x - mean) / sqrt(variance + epsilon)`` in each of ``group`` groups of channels, or in each channel,
    then scale and shift per channel.

    Becomes: Reshape, Reduce, Subtract, Multiply, Add, Sqrt, Divide.
    Inputs: x (N, C, ...), scale and shift (C,). Outputs: the result, means, and reciprocal deviations.
    """
    refuse_order(operator)
    channels = fixed(x.shape[channel_axis(operator, x)], "axis 1 (channels)")
    groups = operator.arguments.integer("group", 32) if operator.type == "GroupNorm" else channels
    if groups < 1 or channels % groups:
        raise ShapeError(
            f"{channels} channels cannot be cut into {groups} groups",
            fix="state parts that fit, or feed another size",
        )
    cut: Shape = (x.shape[0], groups, flattened((channels // groups, *x.shape[2:])))
    difference, variance, mean = centred(Expression(build, build.reshape(x, cut)), (2,))
    deviation = variance.shifted(operator.arguments.number("epsilon", 1e-5)).sqrt().named("deviation")
    y = (difference / deviation).named("normalized").reshape(*x.shape).value
    y = scaled_channels(build, operator, y, scale, shift, 1)
    inverse = (1 / deviation).named("inverse_deviation")
    return [y, *(each.reshape(x.shape[0], groups).value for each in (mean, inverse))][: len(operator.tops)]


@operator_rule("AffineChannel")
def affine_channel(build: Builder, operator: Operator, x: Value, scale: Value, shift: Value) -> list[Value]:
    """``x * scale + shift`` per channel.

    Becomes: Multiply, Add.
    """
    return [scaled_channels(build, operator, x, scale, shift, channel_axis(operator, x))]


def scaled_channels(
    build: Builder, operator: Operator, x: Value, scale: Value, shift: Value, axis: int
) -> Value:
    """``x * scale + shift``, both (C,) for the channels of ``axis``."""
    for index, factor in enumerate((scale, shift), 1):
        if factor.shape != x.shape[axis : axis + 1]:
            raise ShapeError(
                f"shape is {factor.shape}, expected {x.shape[axis : axis + 1]}",
                blob=f'input "{operator.bottom_blob(index)}"',
                fix=GIVE_SHAPES_AND_INIT_NET,
            )
    factors = [build.aligned(factor, len(x.shape), axis) for factor in (scale, shift)]
    return build.add(ADD, build.add(MULTIPLY, x, factors[0], hint="scaled"), factors[1], hint="shifted")


@operator_rule("RMSNorm")
def rms_norm(build: Builder, operator: Operator, x: Value, scale: Value, shift: Value) -> list[Value]:
    """``x / sqrt(mean of squares + eps)`` over the axes from ``axis`` on, then scale and shift.

    Becomes: Reshape, Multiply, Reduce, Sqrt, Divide, Add.
    Inputs: x, scale and shift with the sizes of those axes. Outputs: the result, and the reciprocal roots.
    """
    axis = axis_of(operator, x.shape, 1)
    rows: Shape = (flattened(x.shape[:axis]), flattened(x.shape[axis:]))
    for index, factor in enumerate((scale, shift), 1):
        if flattened(factor.shape) != rows[1]:
            blob = f'input "{operator.bottom_blob(index)}"'
            raise ShapeError(
                f"shape is {factor.shape}, expected {x.shape[axis:]}",
                blob=blob,
                fix=GIVE_SHAPES_AND_INIT_NET,
            )
    flat = build.reshape(x, rows)
    squares = build.add(Reduce(ReduceKind.MEAN, (1,)), build.add(MULTIPLY, flat, flat), hint="squares")
    root = build.add(SQRT, build.shifted(squares, operator.arguments.number("eps", 0.0)), hint="root")
    factors = [build.reshape(factor, (1, rows[1])) for factor in (scale, shift)]
    y = build.add(MULTIPLY, build.add(DIVIDE, flat, root, hint="normalized"), factors[0], hint="scaled")
    inverse = build.add(DIVIDE, build.scalar(1.0, 2), root, hint="inverse_root")
    return [build.reshape(build.add(ADD, y, factors[1]), x.shape), build.reshape(inverse, x.shape[:axis])]


@operator_rule("Normalize", "NormalizeL1")
def normalize(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` divided by its length along ``axis``, or by the sum of its absolute values.

    Becomes: Multiply or Abs, Reduce, Sqrt, Maximum, Divide.
    """
    axis, is_sum = axis_of(operator, x.shape, -1), operator.type == "NormalizeL1"
    total = build.add(
        Reduce(ReduceKind.SUM, (axis,)), build.add(ABS, x) if is_sum else build.add(MULTIPLY, x, x)
    )
    length = total if is_sum else build.add(SQRT, total)
    # Nothing but zeros has the length 0, and stays zeros.
    least = build.scalar(1e-12, len(x.shape))
    return [build.add(DIVIDE, x, build.add(MAXIMUM, length, least))]


@operator_rule("DotProduct", "SquaredL2Distance", "L1Distance", "CosineSimilarity")
def compare(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """One number for each row of two blobs (N, ...): ``a . b``, half the square of the distance, the sum of
    the absolute differences, or the cosine of the angle.

    Becomes: Subtract, Multiply or Abs, Reduce; Maximum, Sqrt, Divide for the cosine.
    """
    if a.shape != b.shape or not a.shape:
        raise ShapeError(
            f"shape is {b.shape}, expected {a.shape}",
            blob=f'input "{operator.bottom_blob(1)}"',
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    rows = [build.reshape(value, (value.shape[0], flattened(value.shape[1:]))) for value in (a, b)]
    if operator.type == "DotProduct":
        return [_summed(build, rows[0], rows[1])]
    if operator.type == "CosineSimilarity":
        return [_cosine(build, rows)]
    difference = build.add(SUBTRACT, *rows, hint="difference")
    if operator.type == "L1Distance":
        return [build.add(Reduce(ReduceKind.SUM, (1,), keep=False), build.add(ABS, difference))]
    return [build.scaled(_summed(build, difference, difference), 0.5)]


def _summed(build: Builder, a: Value, b: Value) -> Value:
    return build.add(Reduce(ReduceKind.SUM, (1,), keep=False), build.add(MULTIPLY, a, b, hint="products"))


def _cosine(build: Builder, rows: Sequence[Value]) -> Value:
    least = build.scalar(1e-12, 1)
    lengths = [
        build.add(SQRT, build.add(MAXIMUM, _summed(build, row, row), least), hint="length") for row in rows
    ]
    return build.add(DIVIDE, _summed(build, rows[0], rows[1]), build.add(MULTIPLY, *lengths, hint="lengths"))

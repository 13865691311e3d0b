"""Operators that normalize parts of a blob separately."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, centre
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    channel_axis,
    merge_sizes,
    misfit,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.ir import Shape, fixed
from prototrt.surgery.ops import Reduce, ReduceKind

_ROW_SUM = Reduce(ReduceKind.SUM, (1,), keep=False)


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
    cut: Shape = (x.shape[0], groups, merge_sizes((channels // groups, *x.shape[2:])))
    difference, variance, mean = centre(build.reshape(x, cut), (2,))
    deviation = variance.shifted(operator.arguments.number("epsilon", 1e-5)).sqrt().named("deviation")
    y = (difference / deviation).named("normalized").reshape(*x.shape)
    y = scaled_channels(build, operator, y, scale, shift, 1)
    inverse = (1 / deviation).named("inverse_deviation")
    return [y, *(each.reshape(x.shape[0], groups) for each in (mean, inverse))][: len(operator.tops)]


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
            raise misfit(operator, index, factor, x.shape[axis : axis + 1])
    factor, summand = (build.aligned(each, len(x.shape), axis) for each in (scale, shift))
    scaled = (x * factor).named("scaled")
    return (scaled + summand).named("shifted")


@operator_rule("RMSNorm")
def rms_norm(build: Builder, operator: Operator, x: Value, scale: Value, shift: Value) -> list[Value]:
    """``x / sqrt(mean of squares + eps)`` over the axes from ``axis`` on, then scale and shift.

    Becomes: Reshape, Multiply, Reduce, Sqrt, Divide, Add.
    Inputs: x, scale and shift with the sizes of those axes. Outputs: the result, and the reciprocal roots.
    """
    axis = axis_of(operator, x.shape, 1)
    rows: Shape = (merge_sizes(x.shape[:axis]), merge_sizes(x.shape[axis:]))
    for index, factor in enumerate((scale, shift), 1):
        if merge_sizes(factor.shape) != rows[1]:
            raise misfit(operator, index, factor, x.shape[axis:])
    flat = x.reshape(*rows)
    squares = (flat * flat).mean(1).named("squares")
    root = squares.shifted(operator.arguments.number("eps", 0.0)).sqrt().named("root")
    factor, summand = (build.reshape(each, (1, rows[1])) for each in (scale, shift))
    y = ((flat / root).named("normalized") * factor).named("scaled")
    inverse = (1 / root).named("inverse_root")
    return [(y + summand).reshape(*x.shape), inverse.reshape(*x.shape[:axis])]


@operator_rule("Normalize", "NormalizeL1")
def normalize(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` divided by its length along ``axis``, or by the sum of its absolute values.

    Becomes: Multiply or Abs, Reduce, Sqrt, Maximum, Divide.
    """
    axis, is_sum = axis_of(operator, x.shape, -1), operator.type == "NormalizeL1"
    length = abs(x).sum(axis) if is_sum else (x * x).sum(axis).sqrt()
    # Nothing but zeros has the length 0, and stays zeros.
    return [x / length.at_least(1e-12)]


@operator_rule("DotProduct", "SquaredL2Distance", "L1Distance", "CosineSimilarity")
def compare(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """One number for each row of two blobs (N, ...): ``a . b``, half the square of the distance, the sum of
    the absolute differences, or the cosine of the angle.

    Becomes: Subtract, Multiply or Abs, Reduce; Maximum, Sqrt, Divide for the cosine.
    """
    if a.shape != b.shape or not a.shape:
        raise misfit(operator, 1, b, a.shape)
    x, y = (each.reshape(each.shape[0], merge_sizes(each.shape[1:])) for each in (a, b))
    if operator.type == "DotProduct":
        return [_dot(x, y)]
    if operator.type == "CosineSimilarity":
        return [_cosine(x, y)]
    difference = (x - y).named("difference")
    if operator.type == "L1Distance":
        return [abs(difference).apply(_ROW_SUM)]
    return [_dot(difference, difference) * 0.5]


def _dot(x: Value, y: Value) -> Value:
    return (x * y).named("products").apply(_ROW_SUM)


def _cosine(x: Value, y: Value) -> Value:
    least = x.build.scalar(1e-12, 1)
    lengths = [_dot(row, row).at_least(least).sqrt().named("length") for row in (x, y)]
    return _dot(x, y) / (lengths[0] * lengths[1]).named("lengths")

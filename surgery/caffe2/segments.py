"""Bags: the rows of one blob, cut into segments of different lengths."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.limits import refuse_too_many
from prototrt.surgery.caffe2.operator_rule import expect_whole_numbers, misfit, operator_rule
from prototrt.surgery.ir import DType, fixed
from prototrt.surgery.ops import MULTIPLY, Cast, Gather, MatMul, Select
from prototrt.surgery.recurrent.counting import numbers


@operator_rule("LengthsSum", "LengthsMean")
def lengths_sum(build: Builder, operator: Operator, rows: Value, lengths: Value) -> list[Value]:
    """The sum, or the mean, of each segment of rows; 0 for a segment without rows.

    Becomes: Cast, Reduce, Greater, And, Select, MatMul; Divide for means.
    Inputs: rows (L, ...), lengths (N,), int32, whose sum is L. Outputs: (N, ...).
    """
    return [_sum_segments(build, operator, rows, lengths, 1)]


@operator_rule("SparseLengthsSum", "SparseLengthsMean")
def sparse_lengths_sum(
    build: Builder, operator: Operator, table: Value, index: Value, lengths: Value
) -> list[Value]:
    """The sum, or the mean, of the rows of a table at the indices of each segment.

    Becomes: Gather, and what LengthsSum becomes.
    Inputs: table (K, ...), indices (L,), lengths (N,), whose sum is L. Outputs: (N, ...).
    """
    expect_whole_numbers(operator, index, 1)
    return [_sum_segments(build, operator, build.add(Gather(), table, index, hint="picked"), lengths, 2)]


@operator_rule("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(
    build: Builder, operator: Operator, table: Value, weights: Value, index: Value, lengths: Value
) -> list[Value]:
    """The weighted sum of the rows of a table at the indices of each segment.

    Becomes: Gather, Multiply, and what LengthsSum becomes.
    Inputs: table (K, ...), weights and indices (L,), lengths (N,), whose sum is L. Outputs: (N, ...).
    """
    expect_whole_numbers(operator, index, 2)
    if weights.shape != index.shape:
        raise misfit(operator, 1, weights, index.shape)
    picked = build.add(Gather(), table, index, hint="picked")
    factors = build.aligned(weights, len(picked.shape), 0)
    return [_sum_segments(build, operator, build.add(MULTIPLY, picked, factors, hint="weighted"), lengths, 3)]


def _sum_segments(build: Builder, operator: Operator, rows: Value, lengths: Value, index: int) -> Value:
    """The sums of the segments of ``rows``, by a product with a matrix of 0 and 1 that assigns rows to segments."""
    expect_whole_numbers(operator, lengths, index)
    if len(lengths.shape) != 1 or not rows.shape:
        raise misfit(operator, index, lengths, "(N,)")
    count, size = (
        fixed(lengths.shape[0], "the number of segments N"),
        fixed(rows.shape[0], "the number of rows"),
    )
    build.expect_segments(lengths, size)
    each = build.add(Cast(DType.FLOAT32), lengths).reshape(1, count)
    belongs = _membership(each, count, size)
    width = int(np.prod([fixed(dim, "a size of a row") for dim in rows.shape[1:]]))
    total = belongs.apply(MatMul(), build.reshape(rows, (size, width))).named("total")
    if operator.type.endswith("Mean"):
        divisor = each.reshape(count, 1).at_least(1.0).named("divisor")
        total = (total / divisor).named("mean")
    return total.reshape(count, *rows.shape[1:])


def _membership(each: Value, count: int, size: int) -> Value:
    """(N, R): 1 where the row belongs to the segment, else 0, for lengths (1, N) of segments and R rows."""
    refuse_too_many(count * count, (count, count), "the segments, each with each other")
    refuse_too_many(count * size, (count, size), "the segments with all rows")
    build = each.build
    number = numbers(build, count, "segment")
    is_behind = (build.aligned(number, 2) > build.aligned(number, 2, 0)).named("is_behind")
    zero, one = build.scalar(0.0, 2), build.scalar(1.0, 2)
    until = is_behind.apply(Select(), zero, one).named("until")
    end = (until * each).sum(1).named("end")
    start = (end - each.reshape(count, 1)).named("start")
    # Halfway between whole numbers nothing is equal.
    row = build.aligned(numbers(build, size, "row"), 2)
    place = row.apply(Cast(DType.FLOAT32)).named("place") + 0.5
    inside = ((end > place) & (place > start)).named("is_inside")
    one, zero = build.scalar(1.0, 2), build.scalar(0.0, 2)
    return inside.apply(Select(), one, zero).named("belongs")

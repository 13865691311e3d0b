"""Bags: the rows of one blob, cut into segments of different lengths."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import GIVE_SHAPES_AND_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.limits import refuse_too_many
from prototrt.surgery.caffe2.operator_rule import expect_whole_numbers, operator_rule
from prototrt.surgery.ir import DType, Value, fixed
from prototrt.surgery.ops import (
    AND,
    DIVIDE,
    GREATER,
    MAXIMUM,
    MULTIPLY,
    SUBTRACT,
    Cast,
    Gather,
    MatMul,
    Reduce,
    ReduceKind,
    Select,
)
from prototrt.surgery.recurrent.counting import numbers


@operator_rule("LengthsSum", "LengthsMean")
def lengths_sum(build: Builder, operator: Operator, rows: Value, lengths: Value) -> list[Value]:
    """The sum, or the mean, of each segment of rows; 0 for a segment without rows.

    Becomes: Cast, Reduce, Greater, And, Select, MatMul; Divide for means.
    Inputs: rows (L, ...), lengths (N,), int32, whose sum is L. Outputs: (N, ...).
    """
    return [_bagged(build, operator, rows, lengths, 1)]


@operator_rule("SparseLengthsSum", "SparseLengthsMean")
def sparse_lengths_sum(
    build: Builder, operator: Operator, table: Value, index: Value, lengths: Value
) -> list[Value]:
    """The sum, or the mean, of the rows of a table at the indices of each segment.

    Becomes: Gather, and what LengthsSum becomes.
    Inputs: table (K, ...), indices (L,), lengths (N,), whose sum is L. Outputs: (N, ...).
    """
    expect_whole_numbers(operator, index, 1)
    return [_bagged(build, operator, build.add(Gather(), table, index, hint="picked"), lengths, 2)]


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
        raise ShapeError(
            f"shape is {weights.shape}, expected {index.shape}",
            blob=f'input "{operator.bottom_blob(1)}"',
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    picked = build.add(Gather(), table, index, hint="picked")
    factors = build.aligned(weights, len(picked.shape), 0)
    return [_bagged(build, operator, build.add(MULTIPLY, picked, factors, hint="weighted"), lengths, 3)]


def _bagged(build: Builder, operator: Operator, rows: Value, lengths: Value, index: int) -> Value:
    """The sums of the segments of ``rows``, by a product with a matrix of 0 and 1 that assigns rows to segments."""
    expect_whole_numbers(operator, lengths, index)
    if len(lengths.shape) != 1 or not rows.shape:
        raise ShapeError(
            f"shape is {lengths.shape}, expected (N,)",
            blob=f'input "{operator.bottom_blob(index)}"',
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    count, size = (
        fixed(lengths.shape[0], "the number of segments N"),
        fixed(rows.shape[0], "the number of rows"),
    )
    build.expect_segments(lengths, size)
    each = build.reshape(build.add(Cast(DType.FLOAT32), lengths), (1, count))
    belongs = _belonging(build, each, count, size)
    width = int(np.prod([fixed(dim, "a size of a row") for dim in rows.shape[1:]]))
    total = build.add(MatMul(), belongs, build.reshape(rows, (size, width)), hint="total")
    if operator.type.endswith("Mean"):
        divisor = build.add(MAXIMUM, build.reshape(each, (count, 1)), build.scalar(1.0, 2), hint="divisor")
        total = build.add(DIVIDE, total, divisor, hint="mean")
    return build.reshape(total, (count, *rows.shape[1:]))


def _belonging(build: Builder, each: Value, count: int, size: int) -> Value:
    """(N, R): 1 where the row belongs to the segment, else 0, for lengths (1, N) of segments and R rows."""
    refuse_too_many(count * count, (count, count), "the segments, each with each other")
    refuse_too_many(count * size, (count, size), "the segments with all rows")
    number = numbers(build, count, "segment")
    is_until = build.add(GREATER, build.aligned(number, 2), build.aligned(number, 2, 0), hint="is_behind")
    until = build.add(Select(), is_until, build.scalar(0.0, 2), build.scalar(1.0, 2), hint="until")
    end = build.add(Reduce(ReduceKind.SUM, (1,)), build.add(MULTIPLY, until, each), hint="end")
    start = build.add(SUBTRACT, end, build.reshape(each, (count, 1)), hint="start")
    # Halfway between whole numbers nothing is equal.
    place = build.shifted(
        build.add(Cast(DType.FLOAT32), build.aligned(numbers(build, size, "row"), 2), hint="place"), 0.5
    )
    inside = build.add(
        AND, build.add(GREATER, end, place), build.add(GREATER, place, start), hint="is_inside"
    )
    return build.add(Select(), inside, build.scalar(1.0, 2), build.scalar(0.0, 2), hint="belongs")

"""Sequences of different lengths in one batch."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_SHAPES_AND_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    expect_axes,
    expect_whole_numbers,
    merge_sizes,
    misfit,
    operator_rule,
)
from prototrt.surgery.ir import Dim, Shape, fixed
from prototrt.surgery.ops import GREATER, ReverseSequence, Select
from prototrt.surgery.recurrent.counting import numbers

# The places of row i that are kept: before i + 1, from i on, before i, after i.
_TRIANGLES = {"upper": (True, 1), "lower": (False, 1), "upperdiag": (True, 0), "lowerdiag": (False, 0)}
_WITH_INPUT = ("sequence", "window")


@operator_rule("SequenceMask")
def sequence_mask(build: Builder, operator: Operator, x: Value, rows_of: Value | None = None) -> list[Value]:
    """``x`` with ``fill_val`` (by default minus infinity) from the length of its row on, or at other places.

    Becomes: Greater, Select; Add and And for windows.
    Inputs: x (rows..., places...), cut at ``axis``; lengths (rows,), int32. With
    ``repeat_from_axis`` the axes from there on share a place, with ``batch`` those up to it share
    the rows. Modes "window" (``radius`` around the second input), "upper", "lower", "upperdiag"
    and "lowerdiag" mask other places.
    Source: caffe2 ``operators/boolean_mask_ops.cc``, its functors (their text says the opposite).
    """
    arguments, mode = operator.arguments, operator.arguments.text("mode", "")
    _refuse_mode(operator, mode, has_two_inputs=rows_of is not None)
    if rows_of is not None:
        expect_whole_numbers(operator, rows_of, 1)
    axis = axis_of(operator, x.shape, 1)
    shared, end = _batch_axes(operator, x.shape, axis), _repeat_axis(operator, x.shape, axis, mode)
    rows, places = (
        merge_sizes(x.shape[shared:axis]),
        fixed(merge_sizes(x.shape[axis:end]), "the number of places"),
    )
    if rows_of is not None and merge_sizes(rows_of.shape) != rows:
        raise misfit(operator, 1, rows_of, f"({rows},)")
    is_kept = _mask(build, operator, rows_of, rows, places)
    cut = build.reshape(x, (merge_sizes(x.shape[:shared]), rows, places, merge_sizes(x.shape[end:])))
    fill = 0.0 if arguments.flag("grad") else arguments.number("fill_val", -np.inf)
    return [build.reshape(build.add(Select(), is_kept, cut, build.scalar(fill, 4)), x.shape)]


def _refuse_mode(operator: Operator, mode: str, *, has_two_inputs: bool) -> None:
    """Raise for an unknown mode, ``UnsupportedLayerError``, and for inputs that it does not take, ``NetError``."""
    if mode not in (*_WITH_INPUT, *_TRIANGLES):
        modes = ", ".join((*_WITH_INPUT, *_TRIANGLES))
        raise UnsupportedLayerError(f'mode is "{mode}", expected one of {modes}', fix=CUT_BEFORE)
    if has_two_inputs != (mode in _WITH_INPUT):
        expected = "2 inputs" if mode in _WITH_INPUT else "1 input"
        raise NetError(
            f'has {len(operator.bottoms)} inputs, expected {expected} for mode "{mode}"', fix=MEND_ARGUMENTS
        )


def _mask(build: Builder, operator: Operator, rows_of: Value | None, rows: Dim, places: int) -> Value:
    """True where x is kept: (1, rows, places, 1)."""
    mode = operator.arguments.text("mode", "")
    place = numbers(build, places, "places").reshape(1, 1, places, 1)
    if rows_of is None:
        rows_of = numbers(build, fixed(rows, "the number of rows"), "row")
        row = rows_of.reshape(1, rows, 1, 1)
        return _in_triangle(row, place, mode)
    row = rows_of.reshape(1, rows, 1, 1)
    if mode == "sequence":
        return (row > place).named("is_inside")
    return _near(operator, row, place)


def _batch_axes(operator: Operator, shape: Shape, axis: int) -> int:
    """The number of leading axes that share the rows."""
    if not operator.arguments.has("batch"):
        return 0
    batch = axis_of(operator, shape, 0, "batch")
    if batch >= axis:
        raise NetError(f"batch is {batch}, expected an axis before axis {axis}", fix=MEND_ARGUMENTS)
    return batch + 1


def _repeat_axis(operator: Operator, shape: Shape, axis: int, mode: str) -> int:
    """The first axis that shares a place. Caffe2 reads it only for lengths, and then ignores ``batch``."""
    arguments = operator.arguments
    if not arguments.has("repeat_from_axis") or mode != "sequence":
        return len(shape)
    end = axis_of(operator, shape, -1, "repeat_from_axis")
    if end <= axis or arguments.has("batch"):
        raise UnsupportedLayerError(
            f"repeat_from_axis is {end}, expected an axis after axis {axis}, and no batch", fix=CUT_BEFORE
        )
    return end


def _near(operator: Operator, row: Value, place: Value) -> Value:
    """True where the place is at most ``radius`` away from the number of the row."""
    radius = operator.arguments.integer("radius", 10)
    beyond = row.build.constant(np.full((1, 1, 1, 1), radius + 1, np.int32), "beyond")
    from_below = (row + beyond > place).named("is_before_end")
    from_above = (place + beyond > row).named("is_behind_begin")
    return (from_below & from_above).named("is_near")


def _in_triangle(row: Value, place: Value, mode: str) -> Value:
    is_before, with_diagonal = _TRIANGLES[mode]
    greater, less = (row, place) if is_before else (place, row)
    one = row.build.constant(np.full((1, 1, 1, 1), with_diagonal, np.int32), "diagonal")
    return (greater + one > less).named("is_inside")


@operator_rule("ReversePackedSegs")
def reverse_packed_segments(build: Builder, operator: Operator, x: Value, lengths: Value) -> list[Value]:
    """Reverses the first ``lengths[n]`` rows of column n, and leaves the rest.

    Becomes: ReverseSequence.
    Inputs: x (T, N, D), lengths (N,), int32, from 0 to T.
    """
    expect_axes(operator, x, 3, "(T, N, D)")
    expect_whole_numbers(operator, lengths, 1)
    if lengths.shape != x.shape[1:2]:
        raise misfit(operator, 1, lengths, x.shape[1:2])
    return [build.add(ReverseSequence(), x, lengths)]


@operator_rule("VariableLengthSequencePadding")
def pad_sequences(build: Builder, operator: Operator, x: Value, lengths: Value) -> list[Value]:
    """``x`` with 0 in column n from row ``lengths[n]`` on.

    Becomes: Greater, Select.
    Inputs: x (T, N, D...), lengths (N,), int32.
    """
    rank = len(x.shape)
    expect_whole_numbers(operator, lengths, 1)
    if rank < 3 or lengths.shape != x.shape[1:2]:
        raise ShapeError(
            f"shapes are {x.shape} and {lengths.shape}, expected (T, N, D...) and (N,)",
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    step = build.aligned(numbers(build, fixed(x.shape[0], "the number of steps T"), "steps"), rank, 0)
    goes_on = build.add(GREATER, build.aligned(lengths, rank, 1), step, hint="goes_on")
    return [build.add(Select(), goes_on, x, build.scalar(0.0, rank))]

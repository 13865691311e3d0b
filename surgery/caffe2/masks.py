"""Sequences of different lengths in one batch."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import ShapeError, UnsupportedLayerError
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.operator_rule import axis_of, flattened, operator_rule
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ops import ADD, GREATER, MULTIPLY, SUBTRACT, Gather, Select


@operator_rule("SequenceMask")
def sequence_mask(build: Builder, operator: Operator, x: Value, lengths: Value | None = None) -> list[Value]:
    """``x`` with ``fill_val`` (minus infinity) in the places from its row's length on.

    Becomes: Greater, Select.
    Inputs: x (rows..., places...), cut at ``axis``; lengths (rows,), int32. With
    ``repeat_from_axis`` the axes from there on share a place. Of the modes only "sequence".
    """
    arguments = operator.arguments
    mode = arguments.text("mode", "")
    if mode != "sequence" or lengths is None:
        raise UnsupportedLayerError(f'mode is "{mode}", expected "sequence", with lengths as second input')
    axis = axis_of(operator, x.shape, 1)
    end = arguments.integer("repeat_from_axis", -1)
    end = len(x.shape) if end < 0 else end
    if not axis < end <= len(x.shape):
        raise UnsupportedLayerError(f"repeat_from_axis is {end}, expected an axis behind axis {axis}")
    places = fixed(flattened(x.shape[axis:end]), "the number of places")
    rows = (flattened(x.shape[:axis]), places, flattened(x.shape[end:]))
    if flattened(lengths.shape) != rows[0]:
        raise ShapeError(
            f"shape is {lengths.shape}, expected ({rows[0]},)", blob=f'input "{operator.bottom_blob(1)}"'
        )
    place = build.constant(np.arange(places, dtype=np.int32).reshape(1, -1, 1), "places")
    is_inside = build.add(GREATER, build.reshape(lengths, (rows[0], 1, 1)), place, hint="is_inside")
    fill = build.scalar(arguments.number("fill_val", -np.inf), 3)
    return [build.reshape(build.add(Select(), is_inside, build.reshape(x, rows), fill), x.shape)]


@operator_rule("ReversePackedSegs")
def reverse_packed_segments(build: Builder, operator: Operator, x: Value, lengths: Value) -> list[Value]:
    """The first ``lengths[n]`` rows of column n from the last to the first, the rest as it is.

    Becomes: Greater, Select, Gather.
    Inputs: x (T, N, ...), lengths (N,), int32.
    """
    if len(x.shape) < 2 or lengths.shape != x.shape[1:2]:
        raise ShapeError(
            f"shape is {lengths.shape}, expected {x.shape[1:2]}", blob=f'input "{operator.bottom_blob(1)}"'
        )
    steps, columns = fixed(x.shape[0], "the number of steps T"), fixed(x.shape[1], "the number of columns N")
    t = build.constant(np.arange(steps, dtype=np.int32).reshape(-1, 1), "steps")
    count = build.reshape(lengths, (1, columns))
    last = build.add(SUBTRACT, count, build.constant(np.ones((1, 1), np.int32), "one"), hint="last")
    mirrored = build.add(SUBTRACT, last, t, hint="mirrored")
    row = build.add(Select(), build.add(GREATER, count, t, hint="is_inside"), mirrored, t, hint="row")
    size = build.constant(np.full((1, 1), columns, np.int32), "columns")
    column = build.constant(np.arange(columns, dtype=np.int32).reshape(1, -1), "column")
    place = build.add(ADD, build.add(MULTIPLY, row, size, hint="row_start"), column, hint="place")
    flat = build.reshape(x, (steps * columns, *x.shape[2:]), hint="rows")
    return [build.add(Gather(), flat, place)]

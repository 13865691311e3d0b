"""Operators that move elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_SHAPES_AND_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.elementwise import refuse_mixed_types
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    canonical,
    channel_axis,
    constant_array,
    integers,
    misfit,
    operator_rule,
    sizes_of,
)
from prototrt.surgery.ir import AtMost, Shape, Size, computable, divide, fixed, range_of
from prototrt.surgery.ops import Concat, Slice, Tile, Transpose
from prototrt.surgery.ops.windows import larger_smallest, ranges_text


@operator_rule("Concat", "DepthConcat")
def concat(build: Builder, operator: Operator, x: Value, *others: Value) -> list[Value]:
    """The inputs joined along ``axis``, or along a new one with ``add_axis``.

    Becomes: Concat; TopK, Gather where the numbers of rows depend on the data.
    Outputs: the whole, and the sizes along the axis unless they depend on the data.
    """
    inputs = [x, *others]
    refuse_mixed_types(*inputs)
    is_new = _adds_axis(build, operator)
    axis = _axis_of_parts(operator, (1, *x.shape) if is_new else x.shape)
    if is_new:
        inputs = [build.reshape(value, (*value.shape[:axis], 1, *value.shape[axis:])) for value in inputs]
    if others and any(isinstance(size, AtMost) for value in inputs for size in value.shape[axis : axis + 1]):
        return [_join_counted(build, operator, axis, inputs)]
    whole = build.add(Concat(axis), *inputs) if others else inputs[0]
    sizes = [value.shape[axis] for value in inputs]
    return [whole] if any(isinstance(size, str) for size in sizes) else [whole, integers(build, sizes)]


def _join_counted(build: Builder, operator: Operator, axis: int, inputs: Sequence[Value]) -> Value:
    """The inputs joined along an axis of which only the first elements count."""
    from prototrt.surgery.detection.rows import concatenate_rows  # only detectors need it

    if axis:
        raise UnsupportedLayerError(
            f"the sizes along axis {axis} depend on the data",
            because="such inputs are joined along axis 0 only",
            fix=CUT_BEFORE,
        )
    Concat(axis).shape(*(value.shape for value in inputs))  # raises for rows that do not fit
    return concatenate_rows(build, operator, inputs)


@operator_rule("Split", "DepthSplit")
def split(build: Builder, operator: Operator, x: Value, sizes: Value | None = None) -> list[Value]:
    """The input cut along ``axis`` into parts of the sizes ``split``, or into equal parts.

    Becomes: Slice, one per output.
    """
    axis, count = _axis_of_parts(operator, x.shape), len(operator.tops)
    total = computable(x.shape[axis], f"axis {axis}")
    parts = sizes_of(build, operator, "split", 1, sizes)
    equal = None if parts or not count else divide(total, count)
    if equal is None and (len(parts) != count or sum(parts) != total or any(size < 1 for size in parts)):
        raise ShapeError(
            f"axis {axis} has {total} elements, which cannot be cut into {count} parts {parts or ''}".rstrip(),
            because=ranges_text(total),
            fix="state parts that fit, or feed another size",
        )
    ends = accumulate(tuple(parts) if equal is None else (equal,) * count)
    cut = [build.add(Slice(axis, start, end - start), x) for start, end in pairwise([0, *ends])]
    if _adds_axis(build, operator):
        cut = [build.reshape(part, (*part.shape[:axis], *part.shape[axis + 1 :])) for part in cut]
    return cut


@operator_rule("Slice")
def slice_operator(
    build: Builder, operator: Operator, x: Value, starts: Value | None = None, ends: Value | None = None
) -> list[Value]:
    """A part of each axis, from ``starts`` to before ``ends``; -1 means the end, and so does a larger number.

    Becomes: Slice, one per axis that is cut.
    Source: caffe2 ``operators/slice_op.h``, ``SliceImpl``.
    """
    if ends is None:
        starts = None
    first = sizes_of(build, operator, "starts", 1, starts)
    last = sizes_of(build, operator, "ends", 2, ends)
    if len(first) != len(last) or len(first) > len(x.shape):
        raise NetError(
            f"starts are {first} and ends {last}, for an input of shape {x.shape}", fix=MEND_ARGUMENTS
        )
    for axis, places in enumerate(zip(first, last, strict=True)):
        if places == (0, -1):
            continue
        size = computable(x.shape[axis], f"axis {axis}")
        start, end = (_cut_at(place, size) for place in places)
        if range_of(start).min < 0 or range_of(end - start).min < 1:
            raise ShapeError(
                f"axis {axis} is cut from {start} to {end}, but has {size} elements",
                fix=MEND_ARGUMENTS if starts is None and _are_swapped(*places) else GIVE_SHAPES_AND_INIT_NET,
            )
        if (start, end) != (0, size):
            x = build.add(Slice(axis, start, end - start), x)
    return [x]


def _are_swapped(start: int, end: int) -> bool:
    """Whether nothing lies between these places, in an axis of any size."""
    return (start < 0) == (end < 0) and end <= start


def _cut_at(place: int, size: Size) -> Size:
    """The place in an axis of this size that a number means. Raises ``ShapeError`` if it is outside at some sizes."""
    if place < 0:
        return size + (place + 1)
    span = range_of(size)
    if span.min < place < span.max:
        raise ShapeError(
            f"is cut at {place}, but the size {size} varies",
            because=ranges_text(size),
            fix=larger_smallest(size, GIVE_SHAPES_AND_INIT_NET),
        )
    return size if place >= span.max else place


@operator_rule("Transpose")
def transpose(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Axis i of the output is axis ``axes[i]`` of the input; without ``axes`` they are reversed.

    Becomes: Transpose.
    """
    axes = operator.arguments.integers("axes") or tuple(reversed(range(len(x.shape))))
    if sorted(axes) != list(range(len(x.shape))):
        raise NetError(
            f"axes are {list(axes)}, expected each axis of the input once: {x.shape}", fix=MEND_ARGUMENTS
        )
    return [build.add(Transpose(axes), x)]


@operator_rule("NCHW2NHWC", "NHWC2NCHW")
def reorder(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Moves the channels to the last axis, or back to axis 1.

    Becomes: Transpose.
    """
    rank = len(x.shape)
    if rank < 3:
        raise misfit(operator, 0, x, "(N, C, ...) or (N, ..., C)")
    last = (0, *range(2, rank), 1) if operator.type == "NCHW2NHWC" else (0, rank - 1, *range(1, rank - 1))
    return [build.add(Transpose(last), x)]


@operator_rule("Tile")
def tile(build: Builder, operator: Operator, x: Value, *counts: Value) -> list[Value]:
    """``tiles`` copies along ``axis``.

    Becomes: Tile.
    Inputs: x, and optionally the number of tiles and the axis, which are arguments otherwise.
    """
    copies, axis = (
        _number(build, operator, counts, name, index) for index, name in enumerate(("tiles", "axis"))
    )
    if copies < 1:
        raise NetError(f"tiles is {copies}, expected at least 1", fix=MEND_ARGUMENTS)
    return [build.add(Tile(canonical(axis, x.shape), copies), x)]


def _number(build: Builder, operator: Operator, inputs: Sequence[Value], name: str, index: int) -> int:
    """The whole number in an input after the first, or in the argument of this name."""
    if index >= len(inputs):
        if not operator.arguments.has(name):
            raise NetError(
                f"{name} is neither stated nor an input",
                fix=f"add the argument {name}, or a blob with it as input",
            )
        return operator.arguments.integer(name, 0)
    array = constant_array(build, operator, 1 + index, inputs[index])
    if array.size != 1:
        raise misfit(operator, 1 + index, array, "one number")
    return int(array.reshape(-1)[0])


@operator_rule("ChannelShuffle")
def channel_shuffle(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The channels of ``group`` groups, interleaved.

    Becomes: Reshape, Transpose.
    """
    axis, groups = channel_axis(operator, x), operator.arguments.integer("group", 1)
    channels = fixed(x.shape[axis], f"axis {axis} (channels)")
    if groups < 1 or channels % groups:
        raise ShapeError(
            f"{channels} channels cannot be cut into {groups} groups",
            fix="state parts that fit, or feed another size",
        )
    cut: Shape = (*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :])
    order = (*range(axis), axis + 1, axis, *range(axis + 2, len(cut)))
    return [build.reshape(build.add(Transpose(order), build.reshape(x, cut)), x.shape)]


def _adds_axis(build: Builder, operator: Operator) -> bool:
    """Whether the parts are joined along a new axis."""
    if not operator.arguments.flag("add_axis"):
        return False
    if not operator.arguments.has("axis"):
        build.warn("states add_axis without axis: add_axis is ignored, as in Caffe2")
    return operator.arguments.has("axis")


def _axis_of_parts(operator: Operator, shape: Shape) -> int:
    """The ``axis`` to cut or join; without it, the axis of the channels in ``order``."""
    arguments = operator.arguments
    if arguments.has("axis") and arguments.has("order"):
        raise NetError("states both axis and order, expected one of them", fix="remove the argument order")
    return axis_of(operator, shape, 3 if arguments.text("order", "NCHW") == "NHWC" else 1)

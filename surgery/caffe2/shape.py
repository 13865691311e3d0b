"""Operators that move elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.elementwise import refuse_mixed_types
from prototrt.surgery.caffe2.operator_rule import axis_of, expect_axes, flattened, known, operator_rule
from prototrt.surgery.ir import Dim, Shape, Value, fixed
from prototrt.surgery.layers.shape import reshaped
from prototrt.surgery.ops import Concat, Slice, Tile, Transpose


@operator_rule("Concat")
def concat(build: Builder, operator: Operator, x: Value, *others: Value) -> list[Value]:
    """The inputs one behind the other along ``axis``, or along a new one with ``add_axis``.

    Becomes: Concat.
    Outputs: the whole, and the sizes along the axis.
    """
    inputs = [x, *others]
    refuse_mixed_types(*inputs)
    if operator.arguments.flag("add_axis"):
        axis = axis_of(operator, (1, *x.shape), 1)
        inputs = [build.reshape(value, (*value.shape[:axis], 1, *value.shape[axis:])) for value in inputs]
    else:
        axis = axis_of(operator, x.shape, _channels(operator))
    whole = build.add(Concat(axis), *inputs) if others else x
    sizes = [value.shape[axis] for value in inputs]
    return [whole] if any(isinstance(size, str) for size in sizes) else [whole, _integers(build, sizes)]


@operator_rule("Split")
def split(build: Builder, operator: Operator, x: Value, sizes: Value | None = None) -> list[Value]:
    """The input cut along ``axis`` into parts of the sizes ``split``, or into equal parts.

    Becomes: Slice, one an output.
    """
    axis, count = axis_of(operator, x.shape, _channels(operator)), len(operator.tops)
    total = fixed(x.shape[axis], f"axis {axis}")
    parts = operator.arguments.integers("split")
    if sizes is not None:
        parts = tuple(int(size) for size in known(build, operator, 1, sizes).reshape(-1))
    if not parts and count and total % count == 0:
        parts = (total // count,) * count
    if len(parts) != count or sum(parts) != total or any(size < 1 for size in parts):
        raise ShapeError(
            f"axis {axis} has {total} elements, which cannot be cut into {count} parts {list(parts) or ''}".rstrip()
        )
    cuts = [0, *np.cumsum(parts).tolist()]
    cut = [build.add(Slice(axis, start, end - start), x) for start, end in pairwise(cuts)]
    if operator.arguments.flag("add_axis"):
        cut = [build.reshape(part, (*part.shape[:axis], *part.shape[axis + 1 :])) for part in cut]
    return cut


@operator_rule("Slice")
def slice_operator(
    build: Builder, operator: Operator, x: Value, starts: Value | None = None, ends: Value | None = None
) -> list[Value]:
    """A part of each axis, from ``starts`` to before ``ends``; -1 means the end, and so does what is beyond.

    Becomes: Slice, one an axis that is cut.
    Source: caffe2 ``operators/slice_op.h``, ``SliceImpl``.
    """
    first, last = operator.arguments.integers("starts"), operator.arguments.integers("ends")
    if starts is not None and ends is not None:
        first = tuple(int(place) for place in known(build, operator, 1, starts).reshape(-1))
        last = tuple(int(place) for place in known(build, operator, 2, ends).reshape(-1))
    if len(first) != len(last) or len(first) > len(x.shape):
        raise NetError(f"starts are {list(first)} and ends {list(last)}, for an input of shape {x.shape}")
    for axis, (start, end) in enumerate(zip(first, last, strict=True)):
        if (start, end) == (0, -1):
            continue
        size = fixed(x.shape[axis], f"axis {axis}")
        start, end = (min(place + size + 1 if place < 0 else place, size) for place in (start, end))
        if not 0 <= start < end <= size:
            raise ShapeError(f"axis {axis} is cut from {start} to {end}, but has {size} elements")
        if (start, end) != (0, size):
            x = build.add(Slice(axis, start, end - start), x)
    return [x]


@operator_rule("Reshape")
def reshape(build: Builder, operator: Operator, x: Value, shape: Value | None = None) -> list[Value]:
    """Another shape: 0 copies the size at the same place, one -1 takes the rest.

    Becomes: Reshape.
    Outputs: the result, and the shape before.
    """
    sizes = list(operator.arguments.integers("shape"))
    if shape is not None:
        sizes = [int(size) for size in known(build, operator, 1, shape).reshape(-1)]
    y = build.reshape(x, reshaped(x.shape, 0, len(x.shape), sizes))
    return [y, _integers(build, x.shape)] if all(isinstance(dim, int) for dim in x.shape) else [y]


@operator_rule("Flatten", "FlattenToVec")
def flatten(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Two axes: those before ``axis`` and those from it on. FlattenToVec makes one of all.

    Becomes: Reshape.
    """
    if operator.type == "FlattenToVec":
        return [build.reshape(x, (flattened(x.shape),))]
    axis = operator.arguments.integer("axis", 1)
    if not 0 <= axis <= len(x.shape):
        raise NetError(f"axis is {axis}, but the input has {len(x.shape)} axes: {x.shape}")
    return [build.reshape(x, (flattened(x.shape[:axis]), flattened(x.shape[axis:])))]


@operator_rule("Squeeze")
def squeeze(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Without the axes ``dims``, which have the size 1.

    Becomes: Reshape.
    """
    dims = operator.arguments.integers("dims")
    if any(not 0 <= axis < len(x.shape) or x.shape[axis] != 1 for axis in dims):
        raise ShapeError(f"dims are {list(dims)}, expected axes of size 1 of an input of shape {x.shape}")
    return [build.reshape(x, tuple(dim for axis, dim in enumerate(x.shape) if axis not in dims))]


@operator_rule("ExpandDims")
def expand_dims(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """With axes of size 1 at the places ``dims`` of the result.

    Becomes: Reshape.
    """
    dims = sorted(set(operator.arguments.integers("dims")))
    rank = len(x.shape) + len(dims)
    if any(not 0 <= axis < rank for axis in dims):
        raise NetError(f"dims are {dims}, expected places from 0 to {rank - 1}")
    rest = iter(x.shape)
    return [build.reshape(x, tuple(1 if axis in dims else next(rest) for axis in range(rank)))]


@operator_rule("Transpose")
def transpose(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Axis i of the output is axis ``axes[i]`` of the input; without ``axes`` they are reversed.

    Becomes: Transpose.
    """
    axes = operator.arguments.integers("axes") or tuple(reversed(range(len(x.shape))))
    if sorted(axes) != list(range(len(x.shape))):
        raise NetError(f"axes are {list(axes)}, expected each axis of the input once: {x.shape}")
    return [build.add(Transpose(axes), x)]


@operator_rule("NCHW2NHWC", "NHWC2NCHW")
def reorder(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The channels last, or first again.

    Becomes: Transpose.
    """
    expect_axes(operator, x, 4, "(N, C, H, W) or (N, H, W, C)")
    return [build.add(Transpose((0, 2, 3, 1) if operator.type == "NCHW2NHWC" else (0, 3, 1, 2)), x)]


@operator_rule("Tile")
def tile(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``tiles`` copies one behind the other along ``axis``.

    Becomes: Tile.
    """
    copies = operator.arguments.integer("tiles", 1)
    if copies < 1:
        raise NetError(f"tiles is {copies}, expected at least 1")
    return [build.add(Tile(axis_of(operator, x.shape, 0), copies), x)]


@operator_rule("ChannelShuffle")
def channel_shuffle(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The channels of ``group`` groups, dealt out in turn.

    Becomes: Reshape, Transpose.
    """
    channels, groups = fixed(x.shape[1], "axis 1 (channels)"), operator.arguments.integer("group", 1)
    if groups < 1 or channels % groups:
        raise ShapeError(f"{channels} channels cannot be cut into {groups} groups")
    cut: Shape = (x.shape[0], groups, channels // groups, *x.shape[2:])
    rest = range(3, len(cut))
    return [build.reshape(build.add(Transpose((0, 2, 1, *rest)), build.reshape(x, cut)), x.shape)]


@operator_rule("Shape")
def shape_operator(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The sizes of the input, or of its ``axes``.

    Becomes: a constant.
    """
    axes = operator.arguments.integers("axes") or range(len(x.shape))
    return [_integers(build, [fixed(x.shape[axis], f"axis {axis}") for axis in axes])]


def _channels(operator: Operator) -> int:
    return 3 if operator.arguments.text("order", "NCHW") == "NHWC" else 1


def _integers(build: Builder, sizes: Sequence[Dim]) -> Value:
    return build.constant(np.array(sizes, np.int32), "sizes")

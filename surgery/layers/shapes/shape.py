"""Layers that move elements without changing them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    layer_rule,
    misfit,
    positive_sizes,
    refuse_in_place,
)
from prototrt.surgery.ir import Shape, Size, computable, divide, fixed, range_of, rest_at
from prototrt.surgery.ops import Concat, Reverse, Slice, Tile, Transpose
from prototrt.surgery.ops.windows import larger_smallest, ranges_text


@layer_rule("Concat")
def concat(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """The bottoms joined along ``axis`` (in old files: ``concat_dim``).

    Becomes: Concat.
    Source: caffe ``src/caffe/layers/concat_layer.cpp``.
    """
    axis = _axis(layer.param, "concat_dim", x.shape)
    for index, other in enumerate(others, 1):
        if _sizes_without(axis, other.shape) != _sizes_without(axis, x.shape) or len(other.shape) != len(
            x.shape
        ):
            because = f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"'
            fix = "give the bottoms sizes that differ only in this axis, or use another axis"
            raise misfit(layer, index, other, f"{x.shape} but for axis {axis}", fix, because)
    if others:
        return [build.add(Concat(axis), x, *others)]
    build.memory.share([*layer.bottoms, *layer.tops])
    return [x]


def _sizes_without(axis: int, shape: Shape) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


@layer_rule("Slice")
def slice_layer(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The bottom cut along ``axis`` (in old files: ``slice_dim``) at ``slice_point``, or evenly.

    Becomes: Slice, one per top.
    Source: caffe ``src/caffe/layers/slice_layer.cpp``.
    """
    axis = _axis(layer.param, "slice_dim", x.shape)
    count = len(layer.tops)
    if count == 1 and not layer.param.slice_point:
        build.memory.share([*layer.bottoms, *layer.tops])
        return [x]
    refuse_in_place(layer, "the tops are parts of the bottom")
    size = computable(x.shape[axis], f"axis {axis}")
    points = list(layer.param.slice_point)
    if isinstance(size, int) and points and points[-1] >= size and points == sorted({*points}):
        raise ShapeError(
            f"slice_point is {points}, but axis {axis} of the bottom has {size} elements",
            fix=f"give the bottom more than {points[-1]} elements along this axis, or state smaller numbers",
        )
    parts = _parts(points, size, count)
    return [build.add(Slice(axis, start, part), x) for start, part in parts]


def _parts(points: list[int], size: Size, count: int) -> list[tuple[Size, Size]]:
    """The start and the size of each of ``count`` parts of ``size`` elements."""
    if not points:
        part = divide(size, count)
        if part is None:
            raise ShapeError(
                f"{size} elements cannot be cut into {count} equal parts",
                because=_odd_sizes(size, count),
                fix=_fix_for_parts(size, count),
            )
        return [(place * part, part) for place in range(count)]
    if len(points) != count - 1:
        raise NetError(
            f"has {len(points)} slice points for {count} tops, expected {count - 1}",
            fix="state one slice_point between each two tops",
        )
    if any(range_of(end - start).min < 1 for start, end in zip([0, *points], [*points, size], strict=True)):
        raise NetError(
            f"slice_point is {points}, expected increasing numbers between 0 and {size}",
            because=ranges_text(size),
            fix=larger_smallest(size, "state each slice point once, in increasing order"),
        )
    return [(start, end - start) for start, end in pairwise([0, *points, size])]


def _odd_sizes(size: Size, count: int) -> str | None:
    """Where a size that varies cannot be cut, as a reason."""
    if isinstance(size, int):
        return None
    odd = rest_at(size, count)
    if not odd:
        return ranges_text(size)
    where = " and ".join(f"{name} is {value}" for name, value in odd.items() if name != size)
    return f"{size} is {size.at(odd)} where {where}" if where else f"{size} may be {size.at(odd)}"


def _fix_for_parts(size: Size, count: int) -> str:
    if isinstance(size, int):
        return "state slice_point"
    if size in size.symbols:
        return Worded("write {}*{} for {} in {}", count, size, size, Option("shapes"))
    names = " and ".join(size.symbols)
    return Worded(
        "choose steps for {} in {}, such as {}*{}, so that {} divides {}",
        names,
        Option("shapes"),
        count,
        next(iter(size.symbols)),
        count,
        size,
    )


def _axis(param: Any, legacy: str, shape: Shape) -> int:
    """``axis``, or its old name, which counts from the front only."""
    if param.HasField(legacy):
        if param.HasField("axis"):
            raise NetError(f"states both axis and {legacy}", fix=f"remove {legacy}")
        axis = int(getattr(param, legacy))
        if axis >= len(shape):
            raise NetError(
                f"{legacy} is {axis}, but the bottom has {len(shape)} axes: {shape}",
                fix=f"use an axis from 0 to {len(shape) - 1}",
            )
        return axis
    return canonical_axis(param.axis, shape, "axis")


@layer_rule("Tile")
def tile(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``tiles`` copies of the bottom along ``axis``.

    Becomes: Tile.
    Source: caffe ``src/caffe/layers/tile_layer.cpp``.
    """
    axis = canonical_axis(layer.param.axis, x.shape, "axis")
    (copies,) = positive_sizes(layer.param, "tiles", fix="set tiles in tile_param")
    return [build.add(Tile(axis, copies), x)]


@layer_rule("Permute")
def permute(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The axes in the given order; those not listed follow as they are. From the SSD fork.

    Becomes: Transpose.
    Source: ssd ``src/caffe/layers/permute_layer.cpp``.
    """
    order = list(layer.param.order)
    rest = [axis for axis in range(len(x.shape)) if axis not in order]
    if len(set(order)) != len(order) or any(axis >= len(x.shape) for axis in order):
        raise NetError(
            f"order is {order}, expected different axes below {len(x.shape)}", fix="state each axis once"
        )
    return [build.add(Transpose((*order, *rest)), x)]


@layer_rule("Transpose")
def transpose(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The axes in the given order, all of them. From the forks for reading text.

    Becomes: Transpose.
    Source: CTPN and caffe_ocr ``src/caffe/layers/transpose_layer.cpp``.
    """
    order, rank = list(layer.param.dim), len(x.shape)
    if sorted(order) != list(range(rank)):
        raise NetError(
            f"dim is {order}, expected each of the axes from 0 to {rank - 1} once",
            because=f"the bottom has the shape {x.shape}",
            fix="state each axis once",
        )
    return [build.add(Transpose(tuple(order)), x)]


@layer_rule("Reverse", "ReverseAxis")
def reverse(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The elements of ``axis`` from the last to the first; of several axes, if several are stated.

    Becomes: Reverse, one per axis.
    Source: CTPN and caffe_ocr ``src/caffe/layers/reverse_layer.cpp``; textspotter ``reverse_axis_layer.cpp``.
    """
    axes = [canonical_axis(axis, x.shape, "axis") for axis in layer.param.axis or [0]]
    if len(set(axes)) != len(axes):
        raise NetError(
            f"axis is {list(layer.param.axis)}, expected different axes", fix="state each axis once"
        )
    for axis in axes:
        x = build.add(Reverse(axis), x)
    return [x]


@layer_rule("ShuffleChannel")
def shuffle_channel(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The first channel of each of ``group`` groups, then the second of each, and so on. From ShuffleNet.

    Becomes: Reshape, Transpose, Reshape.
    Bottoms: (N, C, ...), up to four axes, C a multiple of ``group``. Tops: one, of the same shape.
    Source: farmingyard/ShuffleNet ``shuffle_channel_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...) with up to four axes", 2, 4)
    group, channels = int(layer.param.group), fixed(x.shape[1], "axis 1 (channels)")
    if group < 1 or channels % group:
        raise NetError(
            f"group is {group}, expected a divisor of the {channels} channels",
            fix="set group in shuffle_channel_param",
        )
    rest = x.shape[2:]
    groups = build.reshape(x, (x.shape[0], group, channels // group, *rest))
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    return [build.reshape(build.add(Transpose(order), groups, hint="shuffled"), x.shape)]


@layer_rule("Reorg")
def reorg(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pixels become channels, in the order of Darknet, which differs from space-to-depth; ``reverse`` goes back.

    Becomes: Reshape, Transpose, Reshape.
    With s = ``stride``: the items (C, H, W) are read as (C / s^2, H s, W s); every s-th row and column of that, from
    each of s^2 places on, becomes a channel. The result is written as (C s^2, H / s, W / s).
    ``reverse`` takes (C, H, W) to (C / s^2, H s, W s).
    Bottoms: (N, C, H, W), C a multiple of s^2, and without ``reverse`` H and W of s.
    Source: eric612/MobileNet-YOLO ``src/caffe/layers/reorg_layer.cpp``; choasup/caffe-yolo9000, with a stride of 2
    unless it is stated.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    stride = 2
    if layer.param.HasField("stride"):
        (stride,) = positive_sizes(layer.param, "stride", fix="set stride in reorg_param")
    else:
        build.warn("stride is not stated: it is 2, as in choasup/caffe-yolo9000")
    items, *sizes = x.shape
    channels = fixed(sizes[0], "axis 1 (channels)")
    rows, columns = (computable(size, f"axis {axis}") for axis, size in enumerate(sizes[1:], 2))
    is_reverse = bool(layer.param.reverse)
    if channels % stride**2 or (not is_reverse and None in (divide(rows, stride), divide(columns, stride))):
        sides = "" if is_reverse else f", and a height and a width that {stride} divides"
        expected, fix = (
            f"channels that {stride**2} divides{sides}",
            "use another stride, or an input of another size",
        )
        raise misfit(layer, 0, x, expected, fix, f"stride is {stride}")
    few = channels // stride**2
    if is_reverse:
        y = build.reshape(x, (items, stride, stride, few, rows, columns))
        y = build.add(Transpose((0, 3, 4, 1, 5, 2)), y)
        return [build.reshape(y, (items, few, rows * stride, columns * stride))]
    y = build.reshape(x, (items, few, rows, stride, columns, stride))
    y = build.add(Transpose((0, 3, 5, 1, 2, 4)), y)
    return [build.reshape(y, (items, channels * stride**2, rows // stride, columns // stride))]

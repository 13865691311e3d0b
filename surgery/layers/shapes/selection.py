"""Layers that pick some of the elements of a bottom."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    layer_rule,
    misfit,
)
from prototrt.surgery.building.layer_rules import which_fork
from prototrt.surgery.ir import DataSize, DType, Range, Size, computable, fixed, range_of
from prototrt.surgery.ops import Cast, Compress, Convolution, Deconvolution, Gather, Slice, Transpose
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.ops.windows import ranges_clause


@layer_rule("Crop")
def crop(build: LayerBuilder, layer: Layer, x: Value, like: Value) -> list[Value]:
    """The first bottom, cut to the sizes of the second from ``axis`` on, beginning at ``offset``.

    Becomes: Slice, one per axis that is cut.
    Where it states nothing, it begins at 0; for the fork fcn, where the windows of the layers before put the second
    bottom, as in the forks of FCN and HED.
    Bottoms: x, and a blob of whose shape the axes from ``axis`` on count.
    Source: caffe and s9xie/hed ``src/caffe/layers/crop_layer.cpp``.
    """
    first = canonical_axis(layer.param.axis, x.shape, "axis")
    if len(like.shape) < len(x.shape):
        because = (
            f'"{layer.bottom_blob(0)}" has the shape {x.shape}, and is cropped to the sizes of this bottom'
        )
        fix = f"add a Reshape before this layer to give this bottom {len(x.shape)} axes"
        raise misfit(layer, 1, like, f"at least {len(x.shape)} axes", fix, because)
    offsets = _offsets(layer.param, len(x.shape) - first)
    if not layer.param.ListFields():
        offsets = _offsets_of_forks(build, layer, x, like) or offsets
    y = x
    for axis, offset in enumerate(offsets, first):
        target = like.shape[axis]
        if offset or target != x.shape[axis]:
            y = _cut(build, layer, y, axis, offset, computable(target, f"axis {axis} of the second bottom"))
    return [y]


@layer_rule("AutoCrop")
def auto_crop(build: LayerBuilder, layer: Layer, x: Value, like: Value) -> list[Value]:
    """The first bottom, cut to height and width of the second where the windows of the layers before put it. From RCF.

    Becomes: Slice, one per axis that is cut.
    Bottoms: (N, C, H, W) and (M, D, h, w). Tops: (N, C, h, w).
    Source: yun-liu/rcf ``src/caffe/layers/auto_crop_layer.cpp``.
    """
    for index, bottom in enumerate((x, like)):
        expect_axes(layer, index, bottom, "(N, C, H, W)")
    offsets = _offsets_of_places(build, x, like)
    if offsets is None:
        raise NetError(
            "nothing says where to begin",
            because="the layers before move its bottoms by parts of an element, past each other, or not from one blob",
            fix="use a Crop with an offset",
        )
    y = x
    for axis, offset in enumerate(offsets, 2):
        y = _cut(
            build, layer, y, axis, offset, computable(like.shape[axis], f"axis {axis} of the second bottom")
        )
    return [y]


def _offsets_of_forks(build: LayerBuilder, layer: Layer, x: Value, like: Value) -> list[int] | None:
    """Where forks begin that compute it, if the user names one. A warning says where that is not at 0, as in Caffe."""
    offsets = _offsets_of_places(build, x, like)
    differs = offsets is not None and any(offsets)
    return offsets if differs and which_fork(build, layer, "bvlc") == "fcn" else None


def _offsets_of_places(build: LayerBuilder, x: Value, like: Value) -> list[int] | None:
    offsets = [_offset_of_places(build, x, like, axis) for axis in range(2, len(x.shape))]
    numbers = [offset for offset in offsets if offset is not None]
    return numbers if len(numbers) == len(offsets) else None


def _offsets(param: Any, axes: int) -> list[int]:
    """Where to begin, for each of the cropped axes."""
    offsets = [int(offset) for offset in param.offset]
    if len(offsets) > 1 and len(offsets) != axes:
        raise NetError(
            f"offset is stated {len(offsets)} times, expected once or {axes} times",
            because=f"{axes} axes are cropped, those from axis {param.axis} on",
            fix="remove all but the first offset to crop all axes alike",
        )
    return offsets if len(offsets) > 1 else (offsets or [0]) * axes


def _cut(build: LayerBuilder, layer: Layer, x: Value, axis: int, offset: int, target: Size) -> Value:
    size = computable(x.shape[axis], f"axis {axis}")
    if range_of(size - offset - target).min < 0:
        raise ShapeError(
            f"axis {axis} has {size} elements, expected at least {offset + target}",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            because=f'"{layer.bottom_blob(1)}" has {target} there, and the offset is {offset}'
            + ranges_clause(size, target),
            fix="use a smaller offset, or a smaller second bottom",
        )
    return build.add(Slice(axis, offset, target), x)


@layer_rule("BatchReindex")
def batch_reindex(build: LayerBuilder, layer: Layer, x: Value, index: Value) -> list[Value]:
    """The items of the first bottom that the second one lists, as often as it lists them.

    Becomes: Cast, Gather.
    Bottoms: x (N, ...), whole numbers from 0 to N - 1 held in floats (M,). Tops: (M, ...).
    Source: caffe ``src/caffe/layers/batch_reindex_layer.cpp``.
    """
    if not x.shape:
        raise ShapeError(
            "is a single number, expected (N, ...)",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="add a Reshape before this layer to give this bottom an axis of items",
        )
    if len(index.shape) != 1:
        fix = "add a Reshape before this layer to give this bottom one axis"
        raise misfit(layer, 1, index, "one axis", fix)
    return [build.add(Gather(), x, build.add(Cast(DType.INT32), index))]


@layer_rule("Filter")
def filter_layer(build: LayerBuilder, layer: Layer, x: Value, y: Value, *others: Value) -> list[Value]:
    """The items of each bottom for which the last bottom is not 0. Not for engines: the output size depends on data.

    Becomes: Compress, one per top; on the reference evaluator only.
    Bottoms: blobs (N, ...), then the selector (N, 1, ...). Tops: one per bottom but the last, (n, ...).
    Source: caffe ``src/caffe/layers/filter_layer.cpp``.
    """
    bottoms: list[Value] = [x, y, *others]
    selector = bottoms.pop()
    items = _items(layer, selector)
    for index, bottom in enumerate(bottoms):
        if bottom.shape[:1] != (items,):
            because = f'the selector "{layer.bottom_blob(len(bottoms))}" has the shape {selector.shape}'
            fix = "give each of them an element of the selector"
            raise misfit(layer, index, bottom, f"({items}, ...)", fix, because)
    chosen = build.reshape(selector, (items,), hint="chosen")
    count = _new_size(build, layer, fixed(items, "the number of items"))
    return [build.add(Compress(count), bottom, chosen) for bottom in bottoms]


def _items(layer: Layer, selector: Value) -> int:
    """How many items a selector chooses from."""
    if not selector.shape or any(dim != 1 for dim in selector.shape[1:]):
        expected, because = (
            "(N,), optionally followed by axes of size 1",
            "the last bottom of a Filter says which items stay",
        )
        fix = "add a Reshape before this layer to give this bottom one axis"
        raise misfit(layer, len(layer.bottoms) - 1, selector, expected, fix, because)
    return fixed(selector.shape[0], "the number of items")


def _new_size(build: LayerBuilder, layer: Layer, most: int) -> DataSize:
    """A symbol that no other layer uses."""
    name = f"{layer.name}_count"
    while name in build.symbols:
        name += "_"
    build.symbols[name] = Range(0, most, most)
    return DataSize(name)


def _offset_of_places(build: Builder, x: ir.Value, like: ir.Value, axis: int) -> int | None:
    """Which element of ``x`` lies where the first one of ``like`` does, along an axis. None if nothing says it.

    The windows of layers lie around their middles; other layers leave elements where they are. Of a layer with several
    bottoms the first one counts.
    Source: s9xie/hed ``src/caffe/layers/crop_layer.cpp``, and ``coord_map`` of its layers.
    """
    ours, others = _place(build, x, axis), _place(build, like, axis)
    if ours is None or others is None or (ours[0], ours[1]) != (others[0], others[1]):
        return None
    offset = (others[2] - ours[2]) / ours[1]
    return int(offset) if offset >= 0 and offset.denominator == 1 else None


def _place(build: Builder, x: ir.Value, axis: int) -> tuple[ir.Value, Fraction, Fraction] | None:
    """What a value comes from; and the scale and shift by which its element p lies at ``scale p + shift`` there."""
    path = []
    while (node := build.writer(x)) is not None:
        source = next((value for value in node.inputs if not value.is_constant), None)
        if source is None:
            break
        path.append((node, x, source))
        x = source
    scale, shift = Fraction(1), Fraction(0)
    for node, y, source in reversed(path):
        op, before, place = node.op, source.shape, axis - 2
        if isinstance(op, Convolution | Deconvolution):
            extent = op.dilation[place] * (fixed(node.inputs[1].shape[axis], "the kernel") - 1)
            middle = Fraction(extent, 2) - op.pad[place]
            if isinstance(op, Convolution):
                scale, shift = scale * op.stride[place], shift + scale * middle
            else:
                scale /= op.stride[place]
                shift -= scale * middle
        elif isinstance(op, Windows):
            shift += scale * (Fraction(op.window[place] - 1, 2) - op.before[place])
            scale *= op.stride[place]
        elif isinstance(op, Slice) and op.axis == axis and isinstance(op.start, int):
            shift += scale * op.start
        elif isinstance(op, Transpose) or len(before) <= axis or before[axis] != y.shape[axis]:
            return None
    return x, scale, shift

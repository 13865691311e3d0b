"""Parts of images, cut out, put together and laid beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototrt.surgery.rules import (
    CUT_BEFORE_LAYER,
    Layer,
    LayerBuilder,
    NetError,
    ShapeError,
    UnsupportedLayerError,
    Value,
    computable,
    concatenate,
    expect_axes,
    fixed,
    layer_rule,
    misfit,
    ops,
    range_of,
    ranges_clause,
)


@layer_rule("MergeCrop")
def merge_crop(build: LayerBuilder, layer: Layer, x: Value, larger: Value) -> list[Value]:
    """The middle of the second bottom, as large as the first one, after its channels or added to it. From naibaf7.

    Becomes: Slice, one per axis that is cut; Concat or Add.
    Where the sizes differ by an odd number, the middle begins at half of it, rounded down.
    Bottoms: x (N, C, ...), larger (N, D, ...). Tops: (N, C + D, ...); with the operation ADD, the shape of x.
    Source: naibaf7/caffe ``src/caffe/layers/mergecrop_layer.cpp``, ``mergecrop_layer.cu``.
    """
    param = layer.param
    if not all(param.forward):
        raise UnsupportedLayerError("forward is false, which is not supported", fix=CUT_BEFORE_LAYER)
    if len(x.shape) < 3:
        fix = "add a Reshape before this layer to give this bottom an axis after its channels"
        raise misfit(layer, 0, x, "(N, C, ...), at least 3 axes", fix)
    if len(larger.shape) != len(x.shape) or larger.shape[0] != x.shape[0]:
        because = f'"{layer.bottom_blob(0)}" has the shape {x.shape}'
        fix = "change the net so that both bottoms have equal numbers of axes and items"
        raise misfit(layer, 1, larger, f"{len(x.shape)} axes and {x.shape[0]} items", fix, because)
    adds = param.operation == param.ADD
    _refuse_mixed_channels(x, larger, adds=adds)
    return [build.add(ops.ADD if adds else ops.Concat(1), x, _middle(layer, 1, larger, x))]


@layer_rule("CropHed")
def crop_hed(build: LayerBuilder, layer: Layer, x: Value, like: Value) -> list[Value]:
    """The middle of the first bottom, as large as the second. From SRN.

    Becomes: Slice, one per axis that is cut.
    Where the sizes differ by an odd number, the middle begins at half of it, rounded up.
    Bottoms: x (N, C, ...), and one with as many axes, of which the sizes behind the channels count. Tops: (N, C, ...).
    Source: KevinKecc/caffe-spn ``src/caffe/layers/crop_hed_layer.cpp``.
    """
    if len(like.shape) != len(x.shape):
        because = (
            f'"{layer.bottom_blob(0)}" has the shape {x.shape}, and is cropped to the sizes of this bottom'
        )
        fix = f"add a Reshape before this layer to give this bottom {len(x.shape)} axes"
        raise misfit(layer, 1, like, f"{len(x.shape)} axes", fix, because)
    return [_middle(layer, 0, x, like, is_late=True)]


def _middle(layer: Layer, index: int, larger: Value, x: Value, *, is_late: bool = False) -> Value:
    """The middle of bottom ``index``, as large as the other one, x, after its channels. Raises ``ShapeError``."""
    middle = larger
    for axis in range(2, len(x.shape)):
        target, size = (computable(value.shape[axis], f"axis {axis}") for value in (x, larger))
        if range_of(size - target).min < 0:
            raise ShapeError(
                f"axis {axis} has {size} elements, expected at least {target}",
                blob=f'bottom "{layer.bottom_blob(index)}"',
                because=f'"{layer.bottom_blob(1 - index)}" has {target} there, and the'
                f" {'second' if index else 'first'} bottom is cut to that size" + ranges_clause(size, target),
                fix="swap the bottoms, or change the layers that make them",
            )
        if target != size:
            middle = middle.slice(axis, (size - target + int(is_late)) // 2, target).named("middle")
    return middle


def _refuse_mixed_channels(x: Value, larger: Value, *, adds: bool) -> None:
    """The fork counts channels of all items together, so only some numbers of them end up in order."""
    first, second = (fixed(value.shape[1], "axis 1 (channels)") for value in (x, larger))
    if first == second or (not adds and x.shape[0] == 1 and first % second == 0):
        return
    if adds:
        raise NetError(
            f"adds {second} channels to {first}, expected equal numbers",
            fix="give both bottoms equal numbers of channels",
        )
    raise UnsupportedLayerError(
        f"puts {second} channels after {first}, expected equal numbers",
        because="the fork mixes up other numbers of channels, unless there is one item and the first is a multiple",
        fix=CUT_BEFORE_LAYER,
    )


@layer_rule("CropCenter")
def crop_center(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The bottom without ``crop_size`` elements at both ends of each axis. From waifu2x-caffe.

    Becomes: Slice, one per axis that is cut.
    Source: lltcggie/caffe ``src/caffe/layers/crop_center_layer.cpp``.
    """
    cuts = [int(size) for size in layer.param.crop_size]
    if len(cuts) != len(x.shape):
        raise NetError(
            f"crop_size is stated {len(cuts)} times, expected {len(x.shape)} times, once per axis",
            fix="state 0 for an axis that is not cut",
        )
    y = x
    for axis, cut in enumerate(cuts):
        if cut:
            size = computable(x.shape[axis], f"axis {axis}")
            if range_of(size).min <= 2 * cut:
                raise ShapeError(
                    f"crop_size {cut} leaves nothing of axis {axis} of {x.shape}",
                    fix="use a smaller crop_size, or a larger input",
                )
            y = y.slice(axis, cut, size - 2 * cut)
    return [y]


@layer_rule("Division")
def division(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Parts of the image, of one ``width`` and ``height``: top i from ``xcoord`` i and ``ycoord`` i on. From JAA-Net.

    Becomes: Slice, two per top.
    Bottoms: (N, C, H, W). Tops: each (N, C, height, width).
    Source: ZhiwenShao/JAANet ``src/division_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    places = _corners(layer, len(layer.tops))
    sizes = int(param.height), int(param.width)
    height, width = fixed(x.shape[2], "the height"), fixed(x.shape[3], "the width")
    if min(sizes) < 1 or any(top + sizes[0] > height or left + sizes[1] > width for top, left in places):
        raise NetError(
            f"parts of {sizes[0]} x {sizes[1]} pixels at {places} are not all inside of {height} x {width} pixels",
            fix="change width, height, xcoord or ycoord",
        )
    rows = {top: x.slice(2, top, sizes[0]) for top, _ in places}
    return [rows[top].slice(3, left, sizes[1]) for top, left in places]


@layer_rule("Combination")
def combination(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """An image of parts: bottom i begins at ``xcoord`` i and ``ycoord`` i. From JAA-Net.

    Becomes: Concat, one per row, and one for the rows.
    Bottoms: (N, C, h, w), which must fill the image without gaps, row by row. Tops: (N, C, H, W), up to where the last
    bottom ends.
    Source: ZhiwenShao/JAANet ``src/combination_layer.cpp``.
    """
    parts = [x, *others]
    for index, part in enumerate(parts):
        expect_axes(layer, index, part, "(N, C, H, W)")
    rows: dict[int, list[tuple[int, Value]]] = {}
    for (top, left), part in zip(_corners(layer, len(parts)), parts, strict=True):
        rows.setdefault(top, []).append((left, part))
    whole = [sorted(rows[top], key=lambda item: item[0]) for top in sorted(rows)]
    if not _is_filled(rows, whole):
        raise UnsupportedLayerError(
            "its bottoms overlap, or leave gaps",
            because="the fork keeps old numbers in a gap",
            fix=CUT_BEFORE_LAYER,
        )
    lines = [concatenate([part for _, part in row], 3) for row in whole]
    return [concatenate(lines, 2)]


def _corners(layer: Layer, count: int) -> list[tuple[int, int]]:
    """Where parts begin: rows and columns. Raises ``NetError``."""
    rows, columns = [int(row) for row in layer.param.ycoord], [int(column) for column in layer.param.xcoord]
    if min(len(rows), len(columns)) < count:
        raise NetError(
            f"has {len(columns)} xcoord and {len(rows)} ycoord for {count} parts",
            fix="give each part its row and its column",
        )
    return list(zip(rows, columns, strict=False))[:count]


def _is_filled(rows: Iterable[int], parts: Sequence[Sequence[tuple[int, Value]]]) -> bool:
    """Whether each part begins where the one before it ends, in rows of one height and one width."""
    below, widths = 0, set()
    for top, row in zip(sorted(rows), parts, strict=True):
        heights = {fixed(part.shape[2], "the height") for _, part in row}
        right = 0
        for left, part in row:
            if left != right:
                return False
            right += fixed(part.shape[3], "the width")
        widths.add(right)
        if top != below or len(heights) > 1 or len(widths) > 1:
            return False
        below += heights.pop()
    return True

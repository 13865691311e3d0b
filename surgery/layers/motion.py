"""Layers that compare two images, or warp one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, misfit
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.images.sampling import Tap, linear_taps, pixel_rows, sampled
from prototrt.surgery.ir import DType, Size, computable, fixed, range_of
from prototrt.surgery.ops import AveragePool, MatMul, Pad
from prototrt.surgery.ops.windows import ranges_text

Pair = tuple[int, int]
MOST_REACH = 128
"""Displacements to one side: FlowNet has 10."""
MOST_OUTPUT = 4096
"""Rows or columns of what a SpatialTransformer writes."""


@layer_rule("Correlation")
def correlation(build: LayerBuilder, layer: Layer, a: Value, b: Value) -> list[Value]:
    """How alike each window of one map is to windows around it in another. From FlowNet.

    Becomes: Pad, MatMul, Gather, AveragePool, Concat; with ``correlation_type: SUBTRACT`` Subtract, Abs and Reduce.
    Channel ``(r + i) * (2 r + 1) + r + j`` of the top compares with the window moved by (i, j) times ``stride_2``, from
    -r to r, r = ``max_displacement`` / ``stride_2``: the mean product, or the mean difference, over the channels and
    the ``kernel_size`` x ``kernel_size`` elements. Both maps are padded with ``pad`` zeros. ``do_abs`` changes nothing.
    Bottoms: two blobs (N, C, H, W). Tops: (N, (2 r + 1)^2, h, w), h = ceil((H + 2 pad - 2 border) / ``stride_1``),
    border = ``max_displacement`` + ``kernel_size`` / 2.
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/correlation_layer.cpp``, ``correlation_layer.cu``.
    """
    expect_axes(layer, 0, a, "(N, C, H, W)")
    if b.shape != a.shape:
        because = f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"'
        raise misfit(layer, 1, b, a.shape, "give both bottoms one shape", because)
    param, out = layer.param, _size_of_correlation(layer, a)
    kernel, stride, farthest = int(param.kernel_size), int(param.stride_1), int(param.max_displacement)
    reach = farthest // int(param.stride_2)
    refuse_large("max_displacement / stride_2", reach, MOST_REACH)
    moves = [step * int(param.stride_2) for step in range(-reach, reach + 1)]
    around = (0, 0, int(param.pad), int(param.pad))
    first, second = (x.apply(Pad(around, around)) for x in (a, b))
    seen = tuple((size - 1) * stride + kernel for size in out)
    first = first.slice(2, farthest, seen[0]).slice(3, farthest, seen[1])
    compare = _differences if param.correlation_type == param.SUBTRACT else _products
    planes = []
    for down in moves:
        rows = second.slice(2, farthest + down, seen[0])
        planes.append(compare(first, rows, [farthest + move for move in moves]))
    means = AveragePool((kernel, kernel), (stride, stride), (0, 0), (0, 0))
    return [concatenate(planes, 1).apply(means)]


def _size_of_correlation(layer: Layer, x: Value) -> tuple[Size, Size]:
    """The size of the top. Raises ``NetError`` and ``ShapeError`` as the layer's ``CHECK``s do."""
    param = layer.param
    _refuse_fields_of_correlation(param)
    border = param.max_displacement + (param.kernel_size - 1) // 2
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    height, width = (
        (size + 2 * param.pad - 2 * border + param.stride_1 - 1) // param.stride_1 for size in sizes
    )
    ranges = ranges_text(*sizes)
    if min(range_of(height).min, range_of(width).min) < 1:
        raise ShapeError(
            f"{sizes[0]} x {sizes[1]} elements with a pad of {param.pad} have no room for a border of {border}",
            because="border is max_displacement + kernel_size / 2" + (f", and {ranges}" if ranges else ""),
            fix=f"set pad to {border}, or feed a larger image",
        )
    return height, width


def _refuse_fields_of_correlation(param: Any) -> None:
    missing = [name for name in ("kernel_size", "max_displacement") if not param.HasField(name)]
    if missing:
        raise NetError(f"states no {missing[0]}", fix=f"set {missing[0]} in correlation_param")
    if param.kernel_size % 2 == 0:
        raise NetError(
            f"kernel_size is {param.kernel_size}, expected an odd number",
            because="a window has a middle element",
            fix=f"use {param.kernel_size + 1}",
        )
    if min(param.stride_1, param.stride_2) < 1:
        raise NetError(
            f"stride_1 is {param.stride_1} and stride_2 {param.stride_2}, expected at least 1",
            fix="set both to 1 or more",
        )


def _products(a: Value, b: Value, starts: list[int]) -> Value:
    """Mean products over the channels: (N, starts, H, W) for a (N, C, H, W) and b (N, C, H, wide).

    Every element of a row with every one of the other row, in one product; then those that belong together.
    """
    items, channels, height, width = a.shape
    wide = computable(b.shape[3], "the width")
    left, right = a.transpose(0, 2, 3, 1), b.transpose(0, 2, 1, 3)
    table = left.apply(MatMul(), right)
    size = computable(width, "the width")
    flat = table.reshape(items, height, size * wide)
    windows = a.build.gathered(flat, _pairs(a.build, size, wide, starts), 2)
    return windows.transpose(0, 2, 1, 3) / fixed(channels, "axis 1 (channels)")


def _pairs(build: Builder, size: Size, wide: Size, starts: list[int]) -> Value:
    """Where in the flattened table (size, wide) the element ``start`` further right stands: (starts, size)."""
    first = np.array(starts, np.int32)[:, np.newaxis]
    if isinstance(size, int) and isinstance(wide, int):
        return build.constant((np.arange(size) * (wide + 1) + first).astype(np.int32), "pairs")
    diagonal = build.counted_numbers(size, "diagonal", step=wide + 1).reshape(1, size)
    return diagonal + build.constant(first, "starts")


def _differences(a: Value, b: Value, starts: list[int]) -> Value:
    """Mean differences over the channels: (N, starts, H, W) for a (N, C, H, W) and b (N, C, H, wide)."""
    width, channels = computable(a.shape[3], "the width"), fixed(a.shape[1], "axis 1 (channels)")
    differences = []
    for start in starts:
        difference = a - b.slice(3, start, width)
        differences.append(difference.at_least(0 - difference).sum(1) / channels)
    return concatenate(differences, 1)


@layer_rule("FlowWarp")
def flow_warp(build: LayerBuilder, layer: Layer, image: Value, flow: Value) -> list[Value]:
    """The image read where a flow points, between its elements; outside it is 0 or NaN. From FlowNet.

    Becomes: Gather and arithmetic.
    Element (y, x) of the top is that at (y + flow[1], x + flow[0]) of the image. Between the last element and the edge,
    less than 1 further, the last element is repeated. ``fill_value`` says what stands for places outside.
    Bottoms: image (N, C, H, W), flow (N, 2, H, W). Tops: (N, C, H, W).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/flow_warp_layer.cpp``.
    """
    fill = 0.0 if layer.param.fill_value == layer.param.ZERO else math.nan
    return [_warped(build, layer, image, flow, fill, reaches_edge=True)]


@layer_rule("Warp")
def warp(build: LayerBuilder, layer: Layer, image: Value, flow: Value) -> list[Value]:
    """The image read where a flow points, between its elements; beyond the last element it is 0. From PWC-Net.

    Becomes: Gather and arithmetic.
    As FlowWarp, but for places between the last element and the edge, which are outside.
    Bottoms: image (N, C, H, W), flow (N, 2, H, W). Tops: (N, C, H, W).
    Source: NVlabs/PWC-Net ``Caffe/warping_code/warp_layer.cu``.
    """
    return [_warped(build, layer, image, flow, 0.0, reaches_edge=False)]


def _warped(
    build: LayerBuilder, layer: Layer, image: Value, flow: Value, fill: float, *, reaches_edge: bool
) -> Value:
    """Element (y, x) of the result is that at (y + flow[1], x + flow[0]) of the image, ``fill`` outside."""
    expect_axes(layer, 0, image, "(N, C, H, W)")
    items, _, height, width = image.shape
    if flow.shape != (items, 2, height, width):
        because = f'it has a place for each element of "{layer.bottom_blob(0)}"'
        raise misfit(layer, 1, flow, (items, 2, height, width), "give it two channels: x and y", because)
    count, rows, columns = computable(items), computable(height, "the height"), computable(width, "the width")
    across, down = (part.reshape(count, rows, columns) for part in exact(flow).split(1))
    xs = across + _places(build, columns, "columns").reshape(1, 1, columns)
    ys = down + _places(build, rows, "rows").reshape(1, rows, 1)
    is_inside = (xs >= 0) & (ys >= 0)
    for places, size in ((xs, columns), (ys, rows)):
        is_inside &= places < size if reaches_edge else (places < size - 1) | places.equals(size - 1)
    xs, ys = (is_inside.chosen(places, 0) for places in (xs, ys))
    taps = linear_taps(ys, rows), linear_taps(xs, columns)
    read = sampled(pixel_rows(image), _origins(build, count, rows * columns), *taps, columns)
    return is_inside.reshape(count, rows, columns, 1).chosen(read, fill).transpose(0, 3, 1, 2)


@layer_rule("SpatialTransformer")
def spatial_transformer(build: LayerBuilder, layer: Layer, image: Value, theta: Value) -> list[Value]:
    """The image read on a grid that an affine transformation moves, of daerduoCarey; a projective one, of e2e_face.

    Becomes: MatMul, Gather and arithmetic; with a projective transformation also Divide, Greater.
    Element (i, j) of the top stands at ``(2 i / output_H - 1, 2 j / output_W - 1)``; ``theta``, 2 x 3, takes it to
    (p, q), which is row ``(p + 1) / 2 * H`` and column ``(q + 1) / 2 * W`` of the image; outside it is 0. ``theta_1_1``
    to ``theta_2_3`` state numbers of theta, which the second bottom then lacks.
    Projective: ``theta``, 3 x 3 without its last number, which is 1, takes (x, y, 1) with x and y from -1 to 1 to
    (p, q, r), which is column ``(p / r + 1) / 2 * (W - 1)``, row ``(q / r + 1) / 2 * (H - 1)``, moved to the border if
    it is outside.
    Bottoms: image (N, C, H, W), theta (N, 6 minus the stated numbers) or (N, 8). Tops: (N, C, output_H, output_W).
    Source: daerduoCarey/SpatialTransformerLayer ``src/caffe/layers/st_layer.cu``;
    mikuhatsune/e2e_face ``caffe_modification/spatial_transformer_layer.cu``.
    """
    expect_axes(layer, 0, image, "(N, C, H, W)")
    param = layer.param
    for field, supported in (("transform_type", ("affine", "projective")), ("sampler_type", ("bilinear",))):
        if getattr(param, field) not in supported:
            words = " or ".join(f'"{word}"' for word in supported)
            raise NetError(
                f'{field} is "{getattr(param, field)}", expected {words}',
                fix=f'use "{supported[0]}", or leave it out',
            )
    items, rows, columns = (computable(image.shape[axis], f"axis {axis}") for axis in (0, 2, 3))
    places = _projected if param.transform_type == "projective" else _moved
    ys, xs = places(build, layer, theta, items, (rows, columns), _output_size(param, rows, columns))
    read = sampled(pixel_rows(image), _origins(build, items, rows * columns), ys, xs, columns)
    return [read.transpose(0, 3, 1, 2)]


def _moved(
    build: LayerBuilder, layer: Layer, theta: Value, items: Size, sizes: tuple[Size, Size], out: Pair
) -> tuple[list[Tap], list[Tap]]:
    """The rows and columns of the image for each element of the top, by an affine transformation."""
    points = [np.arange(size, dtype=np.float32) / np.float32(size) * 2 - 1 for size in out]
    grid = np.stack([*np.meshgrid(*points, indexing="ij"), np.ones(out, np.float32)]).reshape(1, 3, -1)
    moved = _theta(build, layer, theta, items).apply(MatMul(), build.constant(grid, "grid"))
    down, across = (
        _taps_inside((place.reshape(items, *out) + 1) / 2 * size, size)
        for place, size in zip(moved.split(1), sizes, strict=True)
    )
    return down, across


def _projected(
    build: LayerBuilder, layer: Layer, theta: Value, items: Size, sizes: tuple[Size, Size], out: Pair
) -> tuple[list[Tap], list[Tap]]:
    """The same by a projective transformation, whose grid reaches from border to border."""
    if theta.shape[0] != items or numbers_of(theta.shape, 1) != 8:
        because = "theta is 3 x 3, and its last number is 1"
        raise misfit(layer, 1, theta, (items, 8), "give it 8 numbers for each image", because)
    if min(out) < 2:
        raise NetError(
            f"output_H is {out[0]} and output_W {out[1]}, expected at least 2",
            because="the grid reaches from border to border",
            fix="set both to 2 or more",
        )
    points = [np.arange(size, dtype=np.float32) / np.float32(size - 1) * 2 - 1 for size in reversed(out)]
    grid = np.stack([*np.meshgrid(*points), np.ones(out, np.float32)]).reshape(1, 3, -1)
    numbers = exact(theta).reshape(items, 8)
    moved = numbers.slice(1, 0, 6).reshape(items, 2, 3).apply(MatMul(), build.constant(grid, "grid"))
    depth = numbers.slice(1, 6, 2).reshape(items, 1, 2).apply(MatMul(), build.constant(grid[:, :2], "grid"))
    across, down = (moved / (depth + 1)).split(1)
    places = [
        (place.reshape(items, *out) + 1) / 2 * (size - 1)
        for place, size in zip((down, across), sizes, strict=True)
    ]
    rows, columns = (
        linear_taps((place > 0).chosen(place, 0).at_most(size - 1), size)
        for place, size in zip(places, sizes, strict=True)
    )
    return rows, columns


def _output_size(param: Any, rows: Size, columns: Size) -> tuple[int, int]:
    """Height and width of the top: those of the image, unless they are stated. Raises ``NetError``."""
    out = (
        int(param.output_H)
        if param.HasField("output_H")
        else fixed(rows, "the height, which output_H may state,"),
        int(param.output_W)
        if param.HasField("output_W")
        else fixed(columns, "the width, which output_W may state,"),
    )
    if min(out) < 1:
        raise NetError(
            f"output_H is {out[0]} and output_W {out[1]}, expected at least 1", fix="set both to 1 or more"
        )
    for name, size in zip(("output_H", "output_W"), out, strict=True):
        refuse_large(name, size, MOST_OUTPUT)
    return out


def _theta(build: LayerBuilder, layer: Layer, theta: Value, items: Size) -> Value:
    """The transformations (N, 2, 3): what the fields state, and the rest from the second bottom in its order."""
    names = [f"theta_{row}_{column}" for row in (1, 2) for column in (1, 2, 3)]
    field_names = [name for name in names if layer.param.HasField(name)]
    rest = 6 - len(field_names)
    if theta.shape[0] != items or numbers_of(theta.shape, 1) != rest:
        because = f"{' and '.join(field_names)} {'is' if rest == 5 else 'are'} stated" if rest < 6 else None
        raise misfit(layer, 1, theta, (items, rest), "give it the rest of theta", because or "theta is 2 x 3")
    columns = iter(exact(theta).reshape(items, rest).split(1) if rest else ())
    count = fixed(items, "the batch of a net that states numbers of theta") if field_names else 0
    parts = [
        build.constant(np.full((count, 1), getattr(layer.param, name), np.float32), name)
        if name in field_names
        else next(columns)
        for name in names
    ]
    return concatenate(parts, 1).reshape(items, 2, 3)


def _taps_inside(place: Value, size: Size) -> list[Tap]:
    """The two neighbours of each place; those that are not on the axis count 0."""
    low = place.floor()
    taps = []
    for index, weight in ((low, low + 1 - place), (low + 1, place - low)):
        is_inside = (index >= 0) & (index < size)
        taps.append(Tap(is_inside.chosen(index, 0).cast(DType.INT32), is_inside.chosen(weight, 0)))
    return taps


def _places(build: LayerBuilder, count: Size, hint: str) -> Value:
    return build.counted_numbers(count, hint, dtype=DType.FLOAT32)


def _origins(build: LayerBuilder, items: Size, step: Size) -> Value:
    """Where each item begins in a table with ``step`` rows per item: int32 (N, 1, 1)."""
    return build.counted_numbers(items, "items", step=step).reshape(items, 1, 1)

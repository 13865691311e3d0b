"""Layers that compare two images, or warp one."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, misfit
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.images.sampling import Tap, linear_taps, sampled_images, taps_inside
from prototrt.surgery.ir import Size, computable, fixed
from prototrt.surgery.ops import MatMul

Pair = tuple[int, int]
MOST_OUTPUT = 4096
"""Rows or columns of what a SpatialTransformer writes."""


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
    places = _projective_taps if param.transform_type == "projective" else _affine_taps
    ys, xs = places(build, layer, theta, items, (rows, columns), _output_size(param, rows, columns))
    return [sampled_images(image, ys, xs).transpose(0, 3, 1, 2)]


def _affine_taps(
    build: LayerBuilder, layer: Layer, theta: Value, items: Size, sizes: tuple[Size, Size], out: Pair
) -> tuple[list[Tap], list[Tap]]:
    """The rows and columns of the image for each element of the top, by an affine transformation."""
    points = [np.arange(size, dtype=np.float32) / np.float32(size) * 2 - 1 for size in out]
    grid = np.stack([*np.meshgrid(*points, indexing="ij"), np.ones(out, np.float32)]).reshape(1, 3, -1)
    moved = _theta(build, layer, theta, items).apply(MatMul(), build.constant(grid, "grid"))
    down, across = (
        taps_inside((place.reshape(items, *out) + 1) / 2 * size, size)
        for place, size in zip(moved.split(1), sizes, strict=True)
    )
    return down, across


def _projective_taps(
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

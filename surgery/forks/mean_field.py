"""CRF-RNN: inference in a dense random field, a fixed number of mean-field steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Layer,
    LayerBuilder,
    NetError,
    Option,
    ShapeError,
    Value,
    Worded,
    expect_axes,
    fixed,
    layer_rule,
    ops,
    refuse_large,
    text_of_bytes,
)

MOST_STEPS = 100
MOST_PIXELS = 1 << 14
"""So many pixels are compared with each other in 1 GiB."""
_COLORS = 3
_LATENT = 200
"""How many numbers of detections the second top holds."""
_NOT_SUPPORTED = ("detection_potentials_enabled", "ho_potentials_enabled", "is_no_class_weights")


@layer_rule("MultiStageMeanfield")
def multi_stage_mean_field(
    build: LayerBuilder, layer: Layer, unary: Value, first: Value, image: Value, *indices: Value
) -> list[Value]:
    """CRF-RNN's mean field: ``unary - M (W_s S q + W_b B q)`` with q = softmax of the last step, again and again.

    Becomes: Softmax, MatMul, Subtract; Exp, Multiply and Reduce for B.
    S and B are Gaussian filters over places, and over places and colors, normalized at each pixel. Here they are
    exact; the fork approximates both by permutohedral lattices. B compares every pixel with every other one.
    Bottoms: unary and its copy (N, C, H, W), image (N, 3, H, W); indices, which only potentials of detections and
    superpixels read. Tops: (N, C, H, W), before the softmax; 200 zeros.
    Blobs: W_s, W_b, M (1, 1, C, C); caffe-tvg has 4 more, which only those potentials read.
    Source: torrvision/caffe-tvg ``src/caffe/layers/multi_stage_meanfield.cpp``, ``meanfield_iteration.cpp``.
    """
    param = layer.param
    _check(layer, [unary, first, image])
    batch, *sizes = unary.shape
    channels, height, width = (fixed(size, "a size of the map") for size in sizes)
    _check_pixels(build, height, width)
    of_places, of_colors = _class_weights(build, layer, channels)
    columns, rows = (_gaussian(size, param.theta_gamma) for size in (width, height))
    spread_x, spread_y = build.constant(columns, "spatial_x"), build.constant(rows[None, None], "spatial_y")
    bilateral = _bilateral_filter(build, image, param)
    q, flat = first, (batch, channels, height * width)
    for _ in range(int(param.num_iterations)):
        q = q.apply(ops.Softmax(1)).named("q")
        near = spread_y.apply(ops.MatMul(), q.product(spread_x)).named("spatial")
        alike = q.reshape(*flat).apply(ops.MatMul(), bilateral).named("bilateral")
        near, alike = (
            weights.apply(ops.MatMul(), filtered)
            for weights, filtered in ((of_places, near.reshape(*flat)), (of_colors, alike))
        )
        pairwise = (near + alike).named("pairwise").reshape(*unary.shape)
        q = (unary - pairwise).named("potentials")
    return [q, *_zeros(build, layer)]


def _check(layer: Layer, bottoms: list[Value]) -> None:
    """Refuse what the forks can say, and this rule does not compute."""
    param = layer.param
    for name in _NOT_SUPPORTED:
        if getattr(param, name):
            raise NetError(
                f"states {name}: true, which is not supported",
                because="it reads files that are not part of the model" if "potentials" in name else None,
                fix=Worded(
                    "remove it, or cut the net before this layer with {}", Option("outputs", ["BLOB"])
                ),
            )
    for name in ("theta_alpha", "theta_beta", "theta_gamma"):
        if not getattr(param, name) > 0:
            raise NetError(
                f"{name} is {getattr(param, name):g}, expected more than 0",
                fix=f"give the filter a width, as in {name}: 3",
            )
    refuse_large("num_iterations", int(param.num_iterations), MOST_STEPS)
    for index, bottom in enumerate(bottoms):
        expect_axes(layer, index, bottom, "(N, C, H, W)")
    unary, first, image = (bottom.shape for bottom in bottoms)
    for index, shape, expected in ((1, first, unary), (2, image, (unary[0], _COLORS, *unary[2:]))):
        if shape != expected:
            raise ShapeError(
                f"shape is {shape}, expected {expected}",
                blob=f'bottom "{layer.bottom_blob(index)}"',
                because=f'of bottom "{layer.bottom_blob(0)}", with the shape {unary}',
                fix="crop or resize one of them before this layer",
            )


def _check_pixels(build: LayerBuilder, height: int, width: int) -> None:
    pixels = height * width
    taken = text_of_bytes(4 * pixels * pixels)
    if pixels > MOST_PIXELS:
        raise NetError(
            f"the map has {height} x {width} pixels, expected at most {MOST_PIXELS}",
            because=f"an exact bilateral filter compares each pixel with each other one, which takes {taken}",
            fix=Worded(
                "use a smaller input; or cut the net before this layer with {}, and filter in your program",
                Option("outputs", ["BLOB"]),
            ),
        )
    build.warn(
        "its filters are exact Gaussians, which the fork approximates by permutohedral lattices:"
        f" numbers differ; the bilateral filter takes {taken}"
    )


def _class_weights(build: LayerBuilder, layer: Layer, channels: int) -> tuple[Value, Value]:
    """``M W_s`` and ``M W_b``: (1, C, C) each."""
    shape = (1, 1, channels, channels)
    spatial, bilateral, compatibility = (
        build.parameter(layer, shape, what).array[0]
        for what in ("spatial weights", "bilateral weights", "compatibility")
    )
    if layer.blobs is not None and len(layer.blobs) > 3:
        levels = int(layer.param.ho_num_layers) if layer.param.HasField("ho_num_layers") else 1
        for size in (channels, channels, levels, levels):
            build.parameter(layer, (1, 1, 1, size), "unused weights")
    products = (np.matmul(compatibility, weights) for weights in (spatial, bilateral))
    first, second = (build.constant(product, "class_weights") for product in products)
    return first, second


def _gaussian(size: int, theta: float) -> Array:
    """The filter along one axis: rows add up to 1. That over both axes is the product of two of them."""
    place = np.arange(size) / theta
    weights = np.exp(-((place[:, None] - place) ** 2) / 2)
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _bilateral_filter(build: LayerBuilder, image: Value, param: Any) -> Value:
    """The share of each pixel (rows) in each filtered one (columns): (N, P, P)."""
    batch, _, *sizes = image.shape
    height, width = (fixed(size, "a size of the image") for size in sizes)
    pixels, pairs = height * width, (batch, height, width, height, width)
    colors = (image / param.theta_beta).named("colors").reshape(batch, _COLORS, pixels)
    squares = []
    for color in colors.split(1):
        difference = (color.reshape(batch, pixels, 1) - color).named("color_difference")
        squares.append((difference * difference).named("square"))
    red, green, blue = squares
    distance = (red + green + blue).named("color_distances").reshape(*pairs)
    for axis, size in ((1, height), (2, width)):
        place = np.arange(size, dtype=np.float32) / np.float32(param.theta_alpha)
        shape = [size if other in (axis, axis + 2) else 1 for other in range(len(pairs))]
        along = build.constant(((place[:, None] - place) ** 2).reshape(shape), "place_distances")
        distance = (distance + along).named("distances")
    weights = (distance * -0.5).named("exponents").exp().named("bilateral_weights")
    flat = weights.reshape(batch, pixels, pixels)
    bilateral: Value = flat / flat.sum(1)
    return bilateral.named("bilateral_filter")


def _zeros(build: LayerBuilder, layer: Layer) -> list[Value]:
    """The second top, if there is one: nothing is detected."""
    nothing = build.constant(np.zeros((1, 1, 1, _LATENT), np.float32), "no_detections")
    return [nothing] if len(layer.tops) > 1 else []

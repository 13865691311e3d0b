"""CRF-RNN and DeepLab: inference in a dense random field, a fixed number of mean-field steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Builder,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    Option,
    Step,
    Value,
    Worded,
    best_of_rows,
    computable,
    concatenate,
    exact,
    expect_axes,
    fixed,
    layer_rule,
    misfit,
    ops,
    refuse_large,
    scan,
    text_of_bytes,
    unit_matrix,
)

MOST_STEPS = 100
MOST_PAIRS = 1 << 28
"""So many pairs of pixels are compared once, and kept: 1 GiB."""
MOST_PAIRS_OF_BLOCK = 1 << 22
"""So many are compared at once, and forgotten: 16 MiB."""
_COLORS = 3
_LATENT = 200
"""How many numbers of detections the second top holds."""
_NOT_SUPPORTED = ("detection_potentials_enabled", "ho_potentials_enabled", "is_no_class_weights")


@layer_rule("MultiStageMeanfield")
@layer_rule("MultiStageMeanfieldAU3")
def multi_stage_mean_field(
    build: LayerBuilder, layer: Layer, unary: Value, first: Value, image: Value, *indices: Value
) -> list[Value]:
    """CRF-RNN's mean field: ``unary - M (W_s S q + W_b B q)`` with q = softmax of the last step, again and again.

    Becomes: Softmax, MatMul, Subtract; Exp, Multiply and Reduce for B, of more than 128 x 128 pixels in a Scan.
    S and B are Gaussian filters over places, and over places and colors, normalized at each pixel. Here they are
    exact; the fork approximates both by permutohedral lattices. B compares every pixel with every other one: in maps
    of more than 128 x 128 pixels it does so in blocks, anew in each step.
    Bottoms: unary and its copy (N, C, H, W), image (N, 3, H, W); indices, which only potentials of detections and
    superpixels read. AU3, of ARL, has features of any number for an image. Tops: (N, C, H, W), before the softmax;
    200 zeros.
    Blobs: W_s, W_b, M (1, 1, C, C); caffe-tvg has 4 more, which only those potentials read.
    Source: torrvision/caffe-tvg ``src/caffe/layers/multi_stage_meanfield.cpp``, ``meanfield_iteration.cpp``; AU3:
    ZhiwenShao/ARL ``src/multi_stage_meanfield_au3.cpp``.
    """
    param = layer.param
    _check(layer, [unary, first, image])
    batch, *sizes = unary.shape
    channels, height, width = (fixed(size, "a size of the map") for size in sizes)
    _tell_cost(build, height * width)
    of_places, of_colors = _class_weights(build, layer, channels)
    filtered_by_place = _spatial_filter(build, (height, width), (param.theta_gamma,) * 2)
    colors = (param.theta_beta,) * fixed(image.shape[1], "the channels of the image")
    filtered_by_color = _bilateral_filter(build, image, (param.theta_alpha,) * 2, colors)
    q, flat = first, (batch, channels, height * width)
    for _ in range(int(param.num_iterations)):
        q = q.apply(ops.Softmax(1)).named("q")
        near = filtered_by_place(q)
        alike = filtered_by_color(q.reshape(*flat)).named("bilateral")
        near, alike = (
            weights.apply(ops.MatMul(), filtered)
            for weights, filtered in ((of_places, near.reshape(*flat)), (of_colors, alike))
        )
        pairwise = (near + alike).named("pairwise").reshape(*unary.shape)
        q = (unary - pairwise).named("potentials")
    return [q, *_zeros(build, layer)]


_STEPS_OF_LABELS = 10
_LEAST = float(np.finfo(np.float32).tiny)


@layer_rule("DenseCRF")
def dense_crf(
    build: LayerBuilder, layer: Layer, scores: Value, second: Value, image: Value | None = None
) -> list[Value]:
    """A dense random field's mean field: ``scores + w_s S q + w_b B q`` with q = softmax of the last step, and again.

    Becomes: Softmax, MatMul, Add; and what MultiStageMeanfield becomes, of which S and B are.
    DeepLab: several S and B; bottoms are scores (N, C, H, W), the sizes of images without padding, which are not read,
    and images (N, 3, H, W), without which there is no B. Tops: (N, C, H, W), probabilities or their logarithms.
    ccnn, with ``densecrf_param``: scores and images, from 0 to 255. Tops: labels (N, 1, H, W), after 10 steps.
    Source: foss-for-synopsys-dwc-arc-processors/synopsys-caffe and pathak22/caffe-ccnn
    ``src/caffe/layers/densecrf_layer.cpp``.
    """
    gives_labels = layer.message.HasField("densecrf_param")
    image = second if gives_labels else image
    expect_axes(layer, 0, scores, "(N, C, H, W)")
    if image is not None:
        of_image = (scores.shape[0], _COLORS, *scores.shape[2:])
        _expect_shape(layer, scores, image, 1 if gives_labels else 2, of_image)
    if not gives_labels:
        build.warn(f'bottom "{layer.bottom_blob(1)}" is not read: images must fill the map, without padding')
    filters = (_filters_of_labels if gives_labels else _filters_of_deeplab)(build, layer, scores, image)
    steps = _STEPS_OF_LABELS if gives_labels else int(layer.param.max_iter)
    refuse_large("max_iter", steps, MOST_STEPS)
    total = scores
    for _ in range(steps):
        q, total = total.apply(ops.Softmax(1)).named("q"), scores
        for weight, filtered in filters:
            total = (total + filtered(q).scaled(weight)).named("potentials")
    if gives_labels:
        _, labels = best_of_rows(total, 1, first_of_equals=True)
        return [labels.cast(DType.FLOAT32)]
    shares = total.apply(ops.Softmax(1))
    return [shares if layer.param.output_probability else shares.at_least(_LEAST).log()]


Filters: TypeAlias = list[tuple[float, Callable[[Value], Value]]]
"""Of maps (N, C, H, W), each with its weight."""


def _filters_of_deeplab(build: LayerBuilder, layer: Layer, scores: Value, image: Value | None) -> Filters:
    param, sizes = layer.param, _sizes(scores)
    for names in (("pos_w", "pos_xy_std"), ("bi_w", "bi_xy_std", "bi_rgb_std")):
        counts = {name: len(getattr(param, name)) for name in names}
        if len({*counts.values()}) > 1:
            raise NetError(
                " and ".join(f"{name} is stated {count} times" for name, count in counts.items()),
                fix="state all of them once for each filter",
            )
    filters: Filters = [
        (weight, _spatial_filter(build, sizes, (width,) * 2))
        for weight, width in zip(param.pos_w, param.pos_xy_std, strict=True)
    ]
    if image is not None:
        for weight, places, colors in zip(param.bi_w, param.bi_xy_std, param.bi_rgb_std, strict=True):
            filters.append((weight, _colored_filter(build, image, (places,) * 2, (colors,) * _COLORS)))
    return filters


def _filters_of_labels(build: LayerBuilder, layer: Layer, scores: Value, image: Value | None) -> Filters:
    assert image is not None
    param = layer.message.densecrf_param
    near = _spatial_filter(build, _sizes(scores), (param.y_gauss, param.x_gauss))
    places, colors = (
        (param.y_bilateral, param.x_bilateral),
        (param.b_bilateral, param.g_bilateral, param.r_bilateral),
    )
    alike = _colored_filter(build, exact(image).floor(), places, colors)
    return [(param.wt_gauss, near), (param.wt_bilateral, alike)]


def _colored_filter(
    build: LayerBuilder, image: Value, places: Sequence[float], colors: Sequence[float]
) -> Callable[[Value], Value]:
    """The bilateral filter of maps (N, C, H, W)."""
    height, width = _sizes(image)
    _tell_cost(build, height * width)
    filtered = _bilateral_filter(build, image, places, colors)
    return lambda q: filtered(q.reshape(*q.shape[:2], height * width)).reshape(*q.shape)


def _sizes(x: Value) -> tuple[int, int]:
    height, width = (fixed(size, "a size of the map") for size in x.shape[2:])
    return height, width


def _expect_shape(layer: Layer, scores: Value, x: Value, index: int, expected: Sequence[object]) -> None:
    if x.shape != expected:
        because = f'of bottom "{layer.bottom_blob(0)}", with the shape {scores.shape}'
        raise misfit(layer, index, x, expected, "crop or resize one of them before this layer", because)


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
    unary, first, image = bottoms
    _expect_shape(layer, unary, first, 1, unary.shape)
    colors = _COLORS if layer.type == "MultiStageMeanfield" else image.shape[1]
    _expect_shape(layer, unary, image, 2, (unary.shape[0], colors, *unary.shape[2:]))


def _tell_cost(build: LayerBuilder, pixels: int) -> None:
    block = _block(pixels)
    how = f" at a time, and compares {pixels * pixels:.2g} pairs of pixels in each step, which needs a GPU"
    build.warn(
        "its filters are exact Gaussians, which the fork approximates by permutohedral lattices:"
        f" numbers differ; the bilateral filter takes {text_of_bytes(4 * pixels * block)}"
        + (how if block < pixels else "")
    )


def _block(pixels: int) -> int:
    """How many pixels are filtered at once."""
    return pixels if pixels * pixels <= MOST_PAIRS else max(MOST_PAIRS_OF_BLOCK // pixels, 1)


def _class_weights(build: LayerBuilder, layer: Layer, channels: int) -> tuple[Value, Value]:
    """``M W_s`` and ``M W_b``: (1, C, C) each."""
    shape = (1, 1, channels, channels)
    *blobs, last = (
        build.parameter(layer, shape, what)
        for what in ("spatial weights", "bilateral weights", "compatibility")
    )
    if layer.blobs is not None and len(layer.blobs) > 3:
        levels = int(layer.param.ho_num_layers) if layer.param.HasField("ho_num_layers") else 1
        for size in (channels, channels, levels, levels):
            build.set_equivalent(build.parameter(layer, (1, 1, 1, size), "unused weights"), 0.0)
    build.set_equivalent(last, unit_matrix(channels, channels))
    products = [np.matmul(last.array[0], blob.array[0]) for blob in blobs]
    for blob, product in zip(blobs, products, strict=True):
        build.set_equivalent(blob, product)
    first, second = (build.constant(product, "class_weights") for product in products)
    return first, second


def _gaussian(size: int, theta: float) -> Array:
    """The filter along one axis: rows add up to 1. That over both axes is the product of two of them."""
    place = np.arange(size) / theta
    weights = np.exp(-((place[:, None] - place) ** 2) / 2)
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _spatial_filter(
    build: LayerBuilder, sizes: tuple[int, int], thetas: Sequence[float]
) -> Callable[[Value], Value]:
    """Each pixel of q (N, C, H, W) as the mean of all pixels, weighted by how near they are."""
    rows, columns = (_gaussian(size, theta) for size, theta in zip(sizes, thetas, strict=True))
    spread_x, spread_y = build.constant(columns, "spatial_x"), build.constant(rows[None, None], "spatial_y")
    return lambda q: spread_y.apply(ops.MatMul(), q.product(spread_x)).named("spatial")


def _bilateral_filter(
    build: LayerBuilder, image: Value, of_places: Sequence[float], of_colors: Sequence[float]
) -> Callable[[Value], Value]:
    """Each pixel of q (N, C, P) as the mean of all pixels, weighted by how near their places and colors are."""
    batch, count = computable(image.shape[0], "the batch"), len(of_colors)
    height, width = (fixed(size, "a size of the image") for size in image.shape[2:])
    pixels, block = height * width, _block(height * width)
    widths = build.constant(np.array(of_colors, np.float32).reshape(1, count, 1, 1), "color_widths")
    colors = (exact(image) / widths).named("colors").reshape(batch, count, pixels)
    places = np.indices((height, width), np.float32).reshape(1, 2, pixels)
    places /= np.array(of_places, np.float32).reshape(1, 2, 1)
    spread = build.broadcast(build.constant(places, "places"), (batch, 2, pixels))
    features = concatenate([colors, spread], 1).named("features")
    if block == pixels:
        weights = _weights(features, features)
        shares = (weights / weights.sum(1)).named("bilateral_filter")
        return lambda q: q.apply(ops.MatMul(), shares)
    steps = -(-pixels // block)
    padded = features.apply(ops.Pad((0, 0, 0), (0, 0, steps * block - pixels))).named("padded")
    blocks = padded.reshape(batch, count + 2, steps, block).transpose(2, 0, 1, 3)
    one = build.broadcast(build.constant(np.ones((1, 1, 1), np.float32), "one"), (batch, 1, pixels))

    def filtered(q: Value) -> Value:
        def step(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
            weights = _weights(body.from_outside(features), here[0])
            return Step([], [body.from_outside(numbers).apply(ops.MatMul(), weights).named("sums")])

        channels = fixed(q.shape[1], "the number of channels")
        numbers = concatenate([q, one], 1).named("numbers")
        (sums,) = scan(build, step, [blocks], [], over_places=True).outputs
        sums = sums.transpose(1, 2, 0, 3).reshape(batch, channels + 1, steps * block).slice(2, 0, pixels)
        return sums.slice(1, 0, channels) / sums.slice(1, channels)

    return filtered


def _weights(pixels: Value, others: Value) -> Value:
    """What each pixel (N, F, P) counts in each of the others (N, F, B), as numbers (N, P, B) from 0 to 1."""
    parts = []
    for mine, other in zip(pixels.split(1), others.split(1), strict=True):
        difference = mine.reshape(mine.shape[0], mine.shape[2], 1) - other
        parts.append((difference * difference).named("square"))
    distance = parts[0]
    for part in parts[1:]:
        distance = (distance + part).named("distances")
    return (distance * -0.5).named("exponents").exp().named("bilateral_weights")


def _zeros(build: LayerBuilder, layer: Layer) -> list[Value]:
    """The second top, if there is one: nothing is detected."""
    nothing = build.constant(np.zeros((1, 1, 1, _LATENT), np.float32), "no_detections")
    return [nothing] if len(layer.tops) > 1 else []

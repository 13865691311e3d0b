"""Compact bilinear pooling: products of channels, summed into few numbers by drawn hashes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Layer,
    LayerBuilder,
    ShapeError,
    Value,
    computable,
    expect_axes,
    fixed,
    layer_rule,
    ops,
    positive_sizes,
    range_of,
    refuse_too_many,
)


@layer_rule("SignedSqrt")
def signed_sqrt(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The square root of ``|x|``, with the sign of ``x``. From compact bilinear pooling.

    Becomes: Abs, Sqrt, Greater, Negative, Select.
    Source: gy20073/compact_bilinear_pooling ``src/caffe/layers/signed_sqrt_layer.cpp``.
    """
    root = abs(x).sqrt()
    return [(x < 0).chosen(-root, root)]


@layer_rule("CompactBilinear")
def compact_bilinear(build: LayerBuilder, layer: Layer, x: Value, y: Value) -> list[Value]:
    """``num_output`` times the circular convolution of two count sketches. From compact bilinear pooling.

    Becomes: MatMul, Gather, Multiply, Reduce.
    The sketches are drawn with the C library's generator, from the seed 1: they are those of glibc. The fork computes
    by Fourier transforms, whose inverse does not divide by ``num_output``.
    Bottoms: (N, C, H, W) and (N, D, H, W). Tops: (N, num_output, 1, 1), the sum over all places; with
    ``sum_pool: false`` (N, num_output, H, W).
    Source: gy20073/compact_bilinear_pooling ``src/caffe/layers/compact_bilinear_layer.cpp``.
    """
    for index, bottom in enumerate((x, y)):
        expect_axes(layer, index, bottom, "(N, C, H, W)")
    if (x.shape[0], *x.shape[2:]) != (y.shape[0], *y.shape[2:]):
        raise ShapeError(
            f"shapes are {x.shape} and {y.shape}, expected the same but for axis 1",
            fix="give both bottoms the same number of images, of one size",
        )
    (outputs,) = positive_sizes(layer.param, "num_output", fix="set it in compact_bilinear_param")
    channels = fixed(x.shape[1], "axis 1 (channels)"), fixed(y.shape[1], "axis 1 (channels)")
    refuse_too_many(channels[0] * channels[1], channels, "the products of two channels")
    items, height, width = (computable(x.shape[axis], f"axis {axis}") for axis in (0, 2, 3))
    if layer.param.sum_pool:
        one, two = (each.reshape(items, each.shape[1], height * width) for each in (x, y))
        products = one.apply(ops.MatMul(transpose_b=True), two)
        count = items
    else:
        count = items * height * width
        refuse_too_many(
            range_of(count).max * channels[0] * channels[1], x.shape, "the products at each place"
        )
        one, two = (each.transpose(0, 2, 3, 1) for each in (x, y))
        products = one.reshape(count, channels[0], 1) * two.reshape(count, 1, channels[1])
    sums = _sum_by_place(
        build, products.reshape(count, channels[0] * channels[1]), *_pairs(*channels, outputs)
    )
    if layer.param.sum_pool:
        return [sums.reshape(items, outputs, 1, 1)]
    return [sums.reshape(items, height, width, outputs).transpose(0, 3, 1, 2)]


def _sum_by_place(build: LayerBuilder, products: Value, places: Array, signs: Array) -> Value:
    """The sums (N, outputs) of signed products (N, pairs): ``places`` (outputs, most), of which the rest are a zero."""
    padded = products.apply(ops.Pad((0, 0), (0, 1))).transpose(1, 0)
    seen = padded.gathered(build.constant(places, "places"))
    signed = seen * build.constant(signs[..., None], "signs")
    return signed.sum(1).reshape(places.shape[0], products.shape[0]).transpose(1, 0)


@lru_cache(maxsize=4)
def _pairs(first: int, second: int, outputs: int) -> tuple[Array, Array]:
    """For each output, which products of channels add to it, filled up with a zero behind them, and their signs."""
    draw = _glibc_numbers(2 * (first + second))
    numbers = np.array([next(draw) for _ in range(2 * (first + second))], np.int64)
    one, one_signs = numbers[:first] % outputs, numbers[first : 2 * first] % 2 * 2 - 1
    rest = numbers[2 * first :]
    two, two_signs = rest[:second] % outputs, rest[second:] % 2 * 2 - 1
    targets = ((one[:, None] + two) % outputs).reshape(-1)
    factors = (one_signs[:, None] * two_signs).reshape(-1) * outputs
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=outputs)
    slots = np.arange(len(targets)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.full((outputs, max(1, counts.max())), first * second, np.int32)
    signs = np.zeros(places.shape, np.float32)
    places[targets[order], slots] = order
    signs[targets[order], slots] = factors[order]
    return places, signs


def _glibc_numbers(count: int) -> Iterator[int]:
    """The first numbers of ``rand()`` after ``srand(1)``, of glibc: each is a sum of two earlier ones.

    Source: the documentation of ``random_r`` in glibc: a degree of 31, a separation of 3, and 310 numbers left out.
    """
    state = [1]
    for _ in range(30):
        state.append(16807 * state[-1] % 2147483647)
    state += state[:3]
    for index in range(34, 344 + count):
        state.append((state[index - 31] + state[index - 3]) % 2**32)
    return iter(number >> 1 for number in state[344:])

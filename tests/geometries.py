"""Every primitive with any geometry: what hypothesis draws for the programs that read our models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from prototrt.surgery import ops
from prototrt.surgery.ir import Array, DType, Op

Case: TypeAlias = tuple[Op, list[Array]]
"""A primitive, and what it reads."""
Sizes: TypeAlias = tuple[int, ...]
Drawn: TypeAlias = st.SearchStrategy[Any]

SEEDS = st.integers(0, 9)
FACTORS = st.sampled_from([0.0, 0.1, 0.25, 1.0, 1.5, -0.5])


def shapes(least: int = 1, most: int = 5, largest: int = 6) -> Drawn:
    return st.lists(st.integers(1, largest), min_size=least, max_size=most).map(tuple)


def filled(shape: Sizes, seed: int, spread: float = 1.0) -> Array:
    """Numbers of both signs around 0."""
    return (spread * np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


def whole(shape: Sizes, seed: int, low: int = -4, high: int = 5) -> Array:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(np.int32)


def truths(shape: Sizes, seed: int) -> Array:
    return whole(shape, seed, 0, 2).astype(bool)


def kind_of_numbers(draw: st.DrawFn, *others: Callable[[Sizes, int], Array]) -> Callable[[Sizes, int], Array]:
    """Floats most of the time, or others."""
    chosen: Callable[[Sizes, int], Array] = draw(st.sampled_from([filled, filled, *others]))
    return chosen


def filled_of_any(draw: st.DrawFn, shape: Sizes, seed: int | None = None) -> Array:
    """Floats, whole numbers or truth values: what moves elements takes all of them."""
    kind = kind_of_numbers(draw, whole, truths)
    return kind(shape, draw(SEEDS) if seed is None else seed)


def elementwise(op: Drawn, numbers: Callable[[Array], Array] = lambda x: x) -> Drawn:
    """A primitive on one tensor of any shape; numbers are small, or large enough to saturate."""
    spreads = st.sampled_from([1.0, 30.0])
    return st.builds(
        lambda op, shape, seed, spread: (op, [numbers(filled(shape, seed, spread))]),
        op,
        shapes(),
        SEEDS,
        spreads,
    )


@st.composite
def images(draw: st.DrawFn, least: int = 1, most: int = 3) -> tuple[int, Sizes]:
    """The number of spatial axes, and the shape (N, C, ...) of an image with them."""
    count = draw(st.integers(least, most))
    spatial = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    return count, (draw(st.integers(1, 3)), draw(st.integers(1, 10)), *spatial)


def each(draw: st.DrawFn, count: int, low: int, high: int) -> Sizes:
    """A number for each axis; often the same for all."""
    one = st.integers(low, high)
    return draw(st.one_of(one.map(lambda k: (k,) * count), st.tuples(*[one] * count)))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    count, (batch, _, *sizes) = draw(images())
    group, per_group, outputs = draw(
        st.tuples(st.sampled_from([1, 1, 2, 3, 8]), st.integers(1, 4), st.integers(1, 4))
    )
    kernel, stride = each(draw, count, 1, 4), each(draw, count, 1, 3)
    pad, dilation = each(draw, count, 0, 3), each(draw, count, 1, 3)
    least = (d * (k - 1) + 1 - 2 * p for k, p, d in zip(kernel, pad, dilation, strict=True))
    sizes = [max(size, need) for size, need in zip(sizes, least, strict=True)]
    seed = draw(SEEDS)
    x, outputs = filled((batch, group * per_group, *sizes), seed), group * outputs
    return ops.Convolution(stride, pad, dilation, group), [
        x,
        *kernels((outputs, per_group, *kernel), outputs, seed),
    ]


@st.composite
def deconvolutions(draw: st.DrawFn) -> Case:
    count, (batch, _, *sizes) = draw(images())
    group, per_group, outputs = draw(
        st.tuples(st.sampled_from([1, 1, 2, 3, 8]), st.integers(1, 4), st.integers(1, 4))
    )
    kernel, stride = each(draw, count, 1, 4), each(draw, count, 1, 3)
    dilation = each(draw, count, 1, 3)
    whole_sizes = [
        s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(stride, sizes, dilation, kernel, strict=True)
    ]
    pad = tuple(draw(st.integers(0, min(3, (size - 1) // 2))) for size in whole_sizes)
    seed = draw(SEEDS)
    x = filled((batch, group * per_group, *sizes), seed)
    weights = kernels((group * per_group, outputs, *kernel), group * outputs, seed)
    return ops.Deconvolution(stride, pad, dilation, group), [x, *weights]


def kernels(shape: Sizes, outputs: int, seed: int) -> list[Array]:
    """The kernel of a layer, and its bias, which may be 0."""
    return [filled(shape, seed + 1), filled((outputs,), seed + 2, float(seed % 3 > 0))]


@st.composite
def patches(draw: st.DrawFn) -> Case:
    count, (batch, channels, *sizes) = draw(images())
    window, stride, pad, dilation = (
        each(draw, count, low, high) for low, high in ((1, 3), (1, 3), (0, 2), (1, 2))
    )
    least = (d * (k - 1) + 1 - 2 * p for k, p, d in zip(window, pad, dilation, strict=True))
    sizes = [max(size, need) for size, need in zip(sizes, least, strict=True)]
    return ops.Patches(window, stride, pad, dilation), [filled((batch, channels, *sizes), draw(SEEDS))]


@st.composite
def pools(draw: st.DrawFn, kind: Any, least: int = 1, most: int = 3, spread: float = 1.0) -> Case:
    """Windows of which none is entirely in the padding; ``after`` may be larger than ``before``, as Caffe rounds up."""
    count, shape = draw(images(least, most))
    window, stride = each(draw, count, 1, 4), each(draw, count, 1, 3)
    before = tuple(draw(st.integers(0, k - 1)) for k in window)
    after = tuple(draw(st.integers(0, k - 1)) for k in window)
    sizes = [max(size, k - b - a) for size, k, b, a in zip(shape[2:], window, before, after, strict=True)]
    after = tuple(
        next(
            a
            for a in range(end, -size, -1)
            if (size + b + a - k) // s * s < size + b  # the last window begins before the padding
        )
        for size, k, s, b, end in zip(sizes, window, stride, before, after, strict=True)
    )
    sizes = [max(size, k - b - a) for size, k, b, a in zip(sizes, window, before, after, strict=True)]
    x = filled((*shape[:2], *sizes), draw(SEEDS), spread)
    return kind(window, stride, before, tuple(max(a, 0) for a in after)), [x]


@st.composite
def broadcasting(draw: st.DrawFn, count: int, least: int = 1) -> list[Sizes]:
    """Shapes of one rank that fit together: some of their axes are 1."""
    shape = draw(shapes(least))
    masks = [
        draw(st.one_of(st.just((True,) * len(shape)), st.tuples(*[st.booleans()] * len(shape))))
        for _ in range(count)
    ]
    return [tuple(n if kept else 1 for n, kept in zip(shape, mask, strict=True)) for mask in masks]


@st.composite
def binaries(draw: st.DrawFn) -> Case:
    kind, pair, seed = draw(st.sampled_from(ops.BinaryKind)), draw(broadcasting(2)), draw(SEEDS)
    if kind in (ops.BinaryKind.AND, ops.BinaryKind.OR):
        return ops.Binary(kind), [truths(shape, seed + i) for i, shape in enumerate(pair)]
    if draw(st.booleans()):
        a, b = (whole(shape, seed + i) for i, shape in enumerate(pair))
        return ops.Binary(kind), [a, np.where(b == 0, 3, b).astype(np.int32)]
    a, b = (filled(shape, seed + i) for i, shape in enumerate(pair))
    return ops.Binary(kind), [a, np.round(b) if kind is ops.BinaryKind.EQUAL else b]


@st.composite
def unaries(draw: st.DrawFn) -> Case:
    kind, shape, seed = draw(st.sampled_from(ops.UnaryKind)), draw(shapes()), draw(SEEDS)
    if kind is ops.UnaryKind.NOT:
        return ops.Unary(kind), [truths(shape, seed)]
    if kind in (ops.UnaryKind.ABS, ops.UnaryKind.NEGATIVE, ops.UnaryKind.SIGN) and draw(st.booleans()):
        return ops.Unary(kind), [whole(shape, seed)]
    x = filled(shape, seed, 3)
    return ops.Unary(kind), [np.abs(x) if kind in (ops.UnaryKind.LOG, ops.UnaryKind.SQRT) else x]


@st.composite
def casts(draw: st.DrawFn) -> Case:
    kinds = st.sampled_from([DType.FLOAT32, DType.INT32, DType.BOOL])
    to, shape, seed = draw(kinds), draw(shapes()), draw(SEEDS)
    return ops.Cast(to), [filled(shape, seed, 3).astype(draw(kinds).numpy)]


@st.composite
def products(draw: st.DrawFn) -> Case:
    leading = draw(broadcasting(2, 0)) if draw(st.booleans()) else [(), ()]
    rows, inner, columns = (draw(st.integers(1, 9)) for _ in range(3))
    turned, seed = draw(st.booleans()), draw(SEEDS)
    b = (columns, inner) if turned else (inner, columns)
    return ops.MatMul(turned), [
        filled((*leading[0][:3], rows, inner), seed),
        filled((*leading[1][:3], *b), seed + 1),
    ]


@st.composite
def affines(draw: st.DrawFn) -> Case:
    shape, seed = draw(shapes(2)), draw(SEEDS)
    return ops.Affine(), [filled(shape, seed), filled((shape[1],), seed + 1), filled((shape[1],), seed + 2)]


@st.composite
def lrns(draw: st.DrawFn) -> Case:
    op = ops.LRN(
        draw(st.sampled_from([1, 3, 5, 7])),
        draw(st.sampled_from([1e-4, 0.5, 2.0])),
        draw(st.sampled_from([0.5, 0.75, 1.0, 2.0])),
        draw(st.sampled_from([1.0, 2.0])),
    )
    return op, [filled(draw(shapes(4, 4)), draw(SEEDS), 3)]


@st.composite
def along(draw: st.DrawFn, make: Callable[[int, int], Drawn], spread: float = 1.0) -> Case:
    """A primitive on one axis, of which ``make`` is told the place and the size."""
    shape = draw(shapes())
    axis = draw(st.integers(0, len(shape) - 1))
    x = filled(shape, draw(SEEDS), spread) if spread > 1 else filled_of_any(draw, shape)
    return draw(make(axis, shape[axis])), [x]


@st.composite
def reductions(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    kind = draw(st.sampled_from(ops.ReduceKind))
    numbers = filled if kind is ops.ReduceKind.MEAN else kind_of_numbers(draw, whole)
    return ops.Reduce(kind, tuple(sorted(axes)), draw(st.booleans())), [numbers(shape, draw(SEEDS))]


@st.composite
def largest(draw: st.DrawFn) -> Case:
    make = lambda axis, size: st.builds(ops.TopK, st.just(axis), st.integers(1, size), st.booleans())  # noqa: E731
    op, (x,) = draw(along(make, 3.0))
    return op, [np.round(x) if draw(st.booleans()) else x]


@st.composite
def resized(draw: st.DrawFn) -> Case:
    return ops.Resize(*(draw(st.integers(1, 12)) for _ in range(2))), [
        filled(draw(shapes(4, 4)), draw(SEEDS))
    ]


@st.composite
def choices(draw: st.DrawFn) -> Case:
    (condition, a, b), seed = draw(broadcasting(3)), draw(SEEDS)
    kind = kind_of_numbers(draw, whole, truths)
    return ops.Select(), [truths(condition, seed), kind(a, seed), kind(b, seed + 1)]


@st.composite
def rows(draw: st.DrawFn) -> Case:
    table, index, seed = draw(shapes(1, 3)), draw(shapes(1, 2)), draw(SEEDS)
    return ops.Gather(), [filled_of_any(draw, table, seed), whole(index, seed, 0, table[0])]


@st.composite
def scattered(draw: st.DrawFn) -> Case:
    shape, more, seed = draw(shapes(1, 4)), draw(st.integers(0, 4)), draw(SEEDS)
    size = shape[-1] + more
    places = np.random.default_rng(seed).permuted(
        np.broadcast_to(np.arange(size), (*shape[:-1], size)), axis=-1
    )
    return ops.Scatter(size), [filled(shape, seed), places[..., : shape[-1]].astype(np.int32)]


@st.composite
def reshapes(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    factors = [
        factor for size in shape for factor in ([2, size // 2] if size > 2 and size % 2 == 0 else [size])
    ]
    target = [1]
    for factor in draw(st.permutations(factors)):
        if draw(st.booleans()):
            target.append(factor)
        else:
            target[-1] *= factor
    return ops.Reshape(tuple(target[draw(st.integers(0, 1)) and target[0] == 1 and len(target) > 1 :])), [
        filled_of_any(draw, shape)
    ]


@st.composite
def transposes(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    return ops.Transpose(tuple(draw(st.permutations(range(len(shape)))))), [filled_of_any(draw, shape)]


@st.composite
def slices(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    axis = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[axis] - 1))
    return ops.Slice(axis, start, draw(st.integers(1, shape[axis] - start))), [filled_of_any(draw, shape)]


@st.composite
def concatenations(draw: st.DrawFn) -> Case:
    shape, seed = draw(shapes()), draw(SEEDS)
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    kind = kind_of_numbers(draw, whole, truths)
    return ops.Concat(axis), [
        kind((*shape[:axis], size, *shape[axis + 1 :]), seed + i) for i, size in enumerate(sizes)
    ]


@st.composite
def turned_parts(draw: st.DrawFn) -> Case:
    shape, seed = draw(shapes(2)), draw(SEEDS)
    return ops.ReverseSequence(), [
        filled_of_any(draw, shape, seed),
        whole((shape[1],), seed, 0, shape[0] + 1),
    ]


@st.composite
def paddings(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    before = tuple(draw(st.integers(-1, 3)) if n > 1 else draw(st.integers(0, 3)) for n in shape)
    after = tuple(
        draw(st.integers(max(-1, 1 - n - min(b, 0)), 3)) for n, b in zip(shape, before, strict=True)
    )
    return ops.Pad(before, after, draw(FACTORS)), [filled(shape, draw(SEEDS))]


@st.composite
def suppressions(draw: st.DrawFn) -> Case:
    lists, count, seed = draw(st.integers(1, 3)), draw(st.integers(1, 8)), draw(SEEDS)
    corners = whole((lists, count, 2), seed, 0, 5)
    sizes = whole((lists, count, 2), seed + 1, 0, 5)
    boxes = np.concatenate([corners, corners + sizes], -1).astype(np.float32)
    return ops.NonMaxSuppression(draw(st.sampled_from([0.3, 0.45, 0.7]))), [
        boxes,
        truths((lists, count), seed),
    ]


@st.composite
def slopes(draw: st.DrawFn) -> Case:
    shape, seed = draw(shapes()), draw(SEEDS)
    mask = draw(
        st.one_of(
            st.just([axis == 1 for axis in range(len(shape))]), st.tuples(*[st.booleans()] * len(shape))
        )
    )
    slope = tuple(n if kept else 1 for n, kept in zip(shape, mask, strict=True))
    return ops.PReLU(), [filled(shape, seed), filled(slope, seed + 1)]


GEOMETRIES: Mapping[str, Drawn] = {
    "Affine": affines(),
    "AveragePool": pools(ops.AveragePool),
    "Binary": binaries(),
    "Cast": casts(),
    "Clip": elementwise(
        st.builds(
            ops.Clip, st.sampled_from([-np.inf, -1.0, 0.0, 0.5]), st.sampled_from([np.inf, 0.25, 1.0, 6.0])
        )
    ),
    "Concat": concatenations(),
    "Convolution": convolutions(),
    "Deconvolution": deconvolutions(),
    "ELU": elementwise(st.builds(ops.ELU, FACTORS)),
    "Gather": rows(),
    "HardSigmoid": elementwise(st.builds(ops.HardSigmoid, FACTORS, FACTORS)),
    "Identity": elementwise(st.just(ops.Identity())),
    "LRN": lrns(),
    "LeakyReLU": elementwise(st.builds(ops.LeakyReLU, FACTORS)),
    "MatMul": products(),
    "MaxPool": pools(ops.MaxPool),
    "MaxPoolIndex": pools(ops.MaxPoolIndex, 2, 2),
    "NonMaxSuppression": suppressions(),
    "PReLU": slopes(),
    "Pad": paddings(),
    "Patches": patches(),
    "Power": elementwise(
        st.builds(ops.Power, st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0])), np.abs
    ),
    "Reduce": reductions(),
    "Reshape": reshapes(),
    "Resize": resized(),
    "Reverse": along(lambda axis, size: st.just(ops.Reverse(axis))),
    "ReverseSequence": turned_parts(),
    "Scatter": scattered(),
    "Select": choices(),
    "Sigmoid": elementwise(st.just(ops.Sigmoid())),
    "Slice": slices(),
    "Softmax": along(lambda axis, size: st.just(ops.Softmax(axis)), 9.0),
    "Softsign": elementwise(st.just(ops.Softsign())),
    "StochasticPool": pools(ops.StochasticPool, 1, 3),
    "TanH": elementwise(st.just(ops.TanH())),
    "Tile": along(lambda axis, size: st.builds(ops.Tile, st.just(axis), st.integers(1, 4))),
    "TopK": largest(),
    "Transpose": transposes(),
    "Unary": unaries(),
}
"""A strategy for each primitive that works alone."""

"""Layers that only change which axes the elements have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations, product
from math import prod

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ConversionError, NetError, ShapeError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    layer_rule,
    refuse_in_place,
)
from prototrt.surgery.building.target_shapes import reshaped
from prototrt.surgery.images.resizing import blocks_of_channels
from prototrt.surgery.ir import DataSize, Dim, OpenSize, Range, Shape, fixed, measure, open_count

_MOST_READINGS = 10_000
"""Ways to read the numbers of a Reshape; one that has more is read as it stands."""
_MOST_ONES = 2
"""Stated sizes that advice replaces by 1."""


@layer_rule("Reshape")
def reshape(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The axes from ``axis`` on, ``num_axes`` of them, in a new shape.

    Becomes: Reshape; with ``pixelshuffler`` Transpose, too.
    A size of 0 copies that of the bottom at the same place, one size of -1 takes the rest. Where sizes of the bottom
    vary, a number may stand for the one whose usual size it is.
    With ``pixelshuffler`` r, from forks for SRGAN, channels (C r r) become places in blocks of r x r; ``shape`` does
    not count then.
    Source: caffe ``src/caffe/layers/reshape_layer.cpp``; the same of AtlantixJJ/caffe.
    """
    refuse_in_place(layer, "the top has another shape than the bottom")
    param = layer.param
    if param.pixelshuffler != 1:
        return [_shuffled_pixels(layer, x)]
    rank = len(x.shape)
    first = param.axis if param.axis >= 0 else rank + param.axis + 1
    if not 0 <= first <= rank:
        raise NetError(
            f"axis is {param.axis}, but the bottom has {rank} axes: {x.shape}",
            fix=f"use an axis from {-rank - 1} to {rank}",
        )
    if param.num_axes < -1 or first + param.num_axes > rank:
        raise NetError(
            f"num_axes is {param.num_axes} from axis {first} on, but the bottom has {rank} axes: {x.shape}",
            fix=f"use a num_axes from 0 to {rank - first}, or -1 for all",
        )
    last = rank if param.num_axes == -1 else first + param.num_axes
    target = _target(build, layer, x.shape, first, last)
    _refuse_other_count(layer, x.shape, target, first, last)
    build.memory.share([*layer.bottoms, *layer.tops])
    return [build.reshape(x, target)]


def _shuffled_pixels(layer: Layer, x: Value) -> Value:
    expect_axes(layer, 0, x, "(N, C, H, W)")
    side, channels = int(layer.param.pixelshuffler), fixed(x.shape[1], "axis 1 (channels)")
    if side < 1 or channels % (side * side):
        raise NetError(
            f"pixelshuffler is {side}, but the bottom has {channels} channels",
            fix="use a number of 1 or more whose square divides the channels",
        )
    return blocks_of_channels(x, side)


def _refuse_other_count(layer: Layer, shape: Shape, target: Shape, first: int, last: int) -> None:
    if measure(shape) != measure(target):
        raise ShapeError(
            f"shape is {shape}, which cannot become {target}",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            because="the numbers of elements differ",
            fix=_fitting_shape(layer, shape, first, last),
        )


def _fitting_shape(layer: Layer, shape: Shape, first: int, last: int) -> str:
    """Advice: a shape that fits, as near as possible to the one that the layer states; or usual sizes that fit it."""
    numbers = list(layer.param.shape.dim)
    fixes = [
        Worded(
            "state a shape that fits, as in {}",
            Option("overrides", {f"{layer.name}.reshape_param.shape.dim": text}),
        )
        for text in (",".join(map(str, dims)) for dims in _near(shape, first, last, numbers))
    ]
    fixes += [
        Worded(
            "make {} the usual size: {}",
            size,
            Option("sizes", {name: (min(span.min, size), size, max(span.max, size))}),
        )
        for name, span, size in _usual_numbers(shape, first, last, numbers)
    ]
    return Worded.joined("; or ", fixes) if fixes else f"state sizes for these axes: {shape[first:last]}"


def _near(shape: Shape, first: int, last: int, numbers: Sequence[int]) -> list[list[int]]:
    """The stated shape with one size that takes the rest, and as few sizes of 1 as possible; none if none fits."""
    places = range(len(numbers))
    for ones in range(min(len(numbers), _MOST_ONES + 1)):
        for rest, flat in product(places, combinations(places, ones)):
            dims = [-1 if place == rest else 1 if place in flat else numbers[place] for place in places]
            if rest not in flat and _fits(shape, first, last, dims):
                return [dims]
    return []


def _usual_numbers(
    shape: Shape, first: int, last: int, numbers: Sequence[int]
) -> Iterator[tuple[str, Range, int]]:
    """The sizes with names of the user's, and the stated numbers that could be their usual ones."""
    for size in [dim for dim in shape if isinstance(dim, OpenSize) and dim in dim.symbols]:
        span = size.symbols[size]
        for place, number in enumerate(numbers if span.source == "sizes" else ()):
            if number > 0 and _fits(shape, first, last, [*numbers[:place], size, *numbers[place + 1 :]]):
                yield size, span, number


def _fits(shape: Shape, first: int, last: int, dims: Sequence[Dim]) -> bool:
    with suppress(ConversionError):
        return measure(reshaped(shape, first, last, dims)) == measure(shape)
    return False


def _target(build: LayerBuilder, layer: Layer, shape: Shape, first: int, last: int) -> Shape:
    """The new shape. What the net states comes first; its numbers may also be the usual sizes of what varies.

    Raises ``ShapeError`` where both make sense, unless one of them leaves more axes in their places.
    """
    dims = list(layer.param.shape.dim)
    try:
        target = reshaped(shape, first, last, dims)
        refusal = None
    except ShapeError as error:
        target, refusal = (), error
    if refusal is None and measure(shape) == measure(target):
        _refuse_second_meaning(layer, shape, target, first, last)
        return target
    meant = _fitting_shapes(shape, first, last, dims)
    if len(meant) > 1:
        raise ShapeError(
            f"shape is {shape}, which {dims} may make {' or '.join(map(str, meant))}",
            because="its numbers are usual sizes of several things that vary",
            fix=Worded("give these different usual sizes in {}, and state those here", Option("sizes")),
        )
    if meant:
        ((target, sizes),) = meant.items()
        differences = [
            f"{dim} is {size}" for dim, size in zip(dims, sizes, strict=True) if isinstance(size, OpenSize)
        ]
        build.warn(f"the net states a shape of usual sizes, which vary: {' and '.join(differences)}")
    elif refusal is not None:
        refusal.fix = _fitting_shape(layer, shape, first, last)
        raise refusal
    return target


def _refuse_second_meaning(layer: Layer, shape: Shape, target: Shape, first: int, last: int) -> None:
    """Raise ``ShapeError`` if numbers that are no sizes of the bottom are usual sizes of what varies, too.

    Not so if more axes of the bottom stay in their places as the net states it, or if both have the same sizes: then
    axes of size 1 are where the net has them.
    """
    dims = list(layer.param.shape.dim)
    meant = _fitting_shapes(shape, first, last, dims, fixed_sizes=shape)
    others = [
        other
        for other in meant
        if Counter(other) != Counter(target) and _left(shape, other) >= _left(shape, target)
    ]
    if not others:
        return
    usual = [str(size) for size in meant[others[0]] if isinstance(size, OpenSize)]
    numbers = _numbers(shape, others[0], first, len(others[0]) - len(shape) + last)
    fix = Worded("for {}, give what varies another usual size in {}", target, Option("sizes"))
    if numbers.count("-1") < 2:
        setting = Option("overrides", {f"{layer.name}.reshape_param.shape.dim": numbers})
        fix = Worded("for {}, give {}; {}", others[0], setting, fix)
    raise ShapeError(
        f"shape is {shape}, which {dims} may make {target} or {others[0]}",
        because=f"a number in it is also the usual size of {' and '.join(usual)}",
        fix=fix,
    )


def _left(shape: Shape, target: Shape) -> int:
    """How many axes stay as they are."""
    return sum(before == after for before, after in zip(shape, target, strict=False))


def _numbers(shape: Shape, target: Shape, first: int, last: int) -> str:
    """The numbers of a Reshape to ``target`` for these axes: 0 copies an axis, -1 is the rest."""
    return ",".join(
        str(size) if not isinstance(size, OpenSize) else "0" if shape[place : place + 1] == (size,) else "-1"
        for place, size in enumerate(target[first:last], first)
    )


def _fitting_shapes(
    shape: Shape, first: int, last: int, dims: Sequence[int], fixed_sizes: Shape = ()
) -> dict[Shape, Sequence[Dim]]:
    """The shapes with as many elements that the net may mean by usual sizes, and how it states them then.

    ``fixed_sizes`` are numbers that mean no usual size.
    The most numbers are usual sizes: of rows of T steps of 1 stream, ``40 1 64`` means (T, N, 64), not (T*N, 1, 64).
    The fewest axes become one: of (N, 64, W), ``1 64 40`` means (N, 64, W), not (1, 64*N, W).
    The most of them are symbols: of (24*N, 64), ``24 1 64`` means (24, N, 64), not (24*N, 1, 64).
    """
    meant: dict[Shape, Sequence[Dim]] = {}
    best = (0, 0, 0)
    varying = _usual_sizes(shape)
    choices: list[list[Dim]] = [
        [dim, *(size for size in varying if size.range.opt == dim and dim not in fixed_sizes)] for dim in dims
    ]
    if prod(map(len, choices)) > _MOST_READINGS:
        return {}
    for sizes in product(*choices):
        replaced = [size for size in sizes if isinstance(size, OpenSize)]
        symbols = sum(size in size.symbols for size in replaced)
        rank = (len(replaced), -sum(varying[size] for size in replaced), symbols)
        if rank < best:
            continue
        with suppress(ShapeError):
            target = reshaped(shape, first, last, sizes)
            if measure(target) == measure(shape):
                meant = {**(meant if rank == best else {}), target: sizes}
                best = rank
    return meant


def _usual_sizes(shape: Shape) -> dict[OpenSize, int]:
    """What a number may stand for, and how many axes of the bottom it makes one.

    That is an axis, some side by side, or the size that a symbol stands for.
    """
    usual: dict[OpenSize, int] = {}
    parts = [shape[first:last] for first, last in combinations(range(len(shape) + 1), 2)]
    for part in sorted(parts, key=len):
        size = 0 if any(isinstance(dim, DataSize) for dim in part) else open_count(part)
        if isinstance(size, OpenSize):
            usual.setdefault(size, len(part))
            for name, span in size.symbols.items():
                usual.setdefault(OpenSize.symbol(name, span), 1)
    return usual


@layer_rule("Flatten")
def flatten(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Merges the axes from ``axis`` to ``end_axis`` into one.

    Becomes: Reshape.
    Source: caffe ``src/caffe/layers/flatten_layer.cpp``.
    """
    refuse_in_place(layer, "the top has another shape than the bottom")
    first = canonical_axis(layer.param.axis, x.shape, "axis")
    last = canonical_axis(layer.param.end_axis, x.shape, "end_axis")
    # Right before axis there is nothing to flatten: Caffe inserts an axis of size 1.
    if last < first - 1:
        raise NetError(
            f"end_axis is {layer.param.end_axis}, expected axis {first} or a later one",
            fix="use a larger end_axis, or -1 for the last one",
        )
    build.memory.share([*layer.bottoms, *layer.tops])
    merged = x.shape[first] if first == last else open_count(x.shape[first : last + 1], "a flattened axis")
    return [build.reshape(x, (*x.shape[:first], merged, *x.shape[last + 1 :]))]

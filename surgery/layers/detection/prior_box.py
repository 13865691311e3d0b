"""Boxes at every place of a map, which detectors begin with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.expansion.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import Array, DType, Size, Value, computable, open_count
from prototrt.surgery.ir.expression import Expression
from prototrt.surgery.ops import Clip, Concat

_NEAR = 1e-6
"""Ratios that differ by less are one ratio."""


@layer_rule("PriorBox")
def prior_box(build: LayerBuilder, layer: Layer, feature_map: Value, image: Value) -> list[Value]:
    """The boxes of SSD and its relatives: sizes and ratios at every place of a map, and their variances.

    Becomes: a constant; with sizes that vary Count, arithmetic, Tile, Concat.
    Bottoms: a map (N, C, H, W) and the image (N, C, h, w); only their heights and widths are read.
    Tops: (1, 2, 4 H W P) corners xmin, ymin, xmax, ymax of P boxes a place, relative to the image, and
    variances. Sizes lose their fraction, as in the fork. Where sizes vary, corners are computed in float32: their last
    bit may differ from a net of fixed sizes.
    Source: weiliu89/caffe ``src/caffe/layers/prior_box_layer.cpp``.
    """
    param = layer.param
    plane, sides = _plane(layer, 0, feature_map), _sides(param)
    pixels = _stated_image(param) or _plane(layer, 1, image)
    steps = _stated_steps(param) or (None, None)
    edges = [
        _edges(build, plane[axis], pixels[axis], steps[axis], param.offset, sides[:, 1 - axis])
        for axis in range(2)
    ]
    of_place = (len(sides), 2, 1)
    down, across = (
        build.reshape(edges[0], (plane[0], 1, *of_place)),
        build.reshape(edges[1], (1, plane[1], *of_place)),
    )
    parts = [build.broadcast(each, (*plane, *of_place), "edges") for each in (across, down)]
    known = [part.data for part in parts if part.data is not None]
    if len(known) == len(parts):
        boxes = np.concatenate(known, -1)
        variances = np.broadcast_to(_variances(param), (boxes.size // 4, 4))
        numbers = boxes.clip(0, 1) if param.clip else boxes
        return [build.constant(np.stack([numbers.reshape(-1), variances.reshape(-1)])[None], "boxes")]
    count = open_count((*plane, len(sides) * 4))
    corners = build.add(Concat(4), *parts, hint="corners")
    corners = build.reshape(build.add(Clip(0, 1), corners) if param.clip else corners, (1, 1, count))
    variance = build.constant(np.broadcast_to(_variances(param), (1, 1, 4)), "variance")
    return [build.add(Concat(1), corners, build.tile(variance, 2, count // 4, "variances"))]


def _edges(
    build: LayerBuilder, places: Size, pixels: Size, step: float | None, offset: float, sides: Array
) -> Value:
    """Where the boxes (P,) begin and end at each place of an axis, relative to the image: (places, P, 2).

    The fork computes in float64 here, which no engine has.
    """
    ends = np.stack([-sides / 2, sides / 2], -1)
    if isinstance(places, int) and isinstance(pixels, int):
        distance = np.float32(pixels) / np.float32(places) if step is None else np.float32(step)
        centres = (np.arange(places, dtype=np.float32) + np.float32(offset)) * distance
        return build.constant(((centres[:, None, None] + ends) / pixels).astype(np.float32), "edges")
    counted = build.counted_numbers(places, "places", dtype=DType.FLOAT32)
    place = Expression(build, build.aligned(counted, 3, 0)) + offset
    image = Expression(build, build.scalar(pixels, 3))
    centre = place * (image / places if step is None else step)
    return ((centre + Expression(build, build.constant(ends.astype(np.float32)[None], "ends"))) / image).value


def _sides(param: Any) -> Array:
    """Width and height (P, 2) of the boxes at one place, in pixels, as float32 holds them."""
    least, most = [*param.min_size], [*param.max_size]
    if not least or not all(0 < size < np.inf for size in least):
        raise NetError(
            "min_size must be stated, and be positive",
            fix="state a positive min_size, in pixels of the image",
        )
    if most and (
        len(most) != len(least) or not all(a < b < np.inf for a, b in zip(least, most, strict=True))
    ):
        raise NetError(
            f"max_size is {_listed(most)}, expected one for each min_size ({_listed(least)}), and larger",
            fix="state one max_size for each min_size, or none",
        )
    ratios = _ratios(param)
    sides: list[tuple[float, float]] = []
    for index, size in enumerate(map(int, least)):  # the fork keeps them in an int
        sides.append((size, size))
        if most:
            sides.append((math.sqrt(size * int(most[index])),) * 2)
        sides += [
            (size * np.sqrt(ratio), size / np.sqrt(ratio)) for ratio in ratios if abs(ratio - 1) >= _NEAR
        ]
    return np.array(sides, np.float32).astype(np.float64)


def _ratios(param: Any) -> list[np.float32]:
    """1, then each ratio that is not yet there, with ``flip`` followed by its inverse."""
    ratios = [np.float32(1)]
    for stated in param.aspect_ratio:
        ratio = np.float32(stated)
        if ratio <= 0:
            raise NetError(
                f"aspect_ratio is {ratio:g}, expected a positive number", fix="state width divided by height"
            )
        if all(abs(ratio - known) >= _NEAR for known in ratios):
            ratios += [ratio, np.float32(1) / ratio] if param.flip else [ratio]
    return ratios


def _variances(param: Any) -> Array:
    stated = [*param.variance]
    if len(stated) not in (0, 1, 4) or any(variance <= 0 for variance in stated):
        raise NetError(
            f"variance is {_listed(stated)}, expected 1 or 4 positive numbers",
            fix="state one for all coordinates, or one for each",
        )
    return np.array(stated or [0.1], np.float32)


def _stated_image(param: Any) -> tuple[int, int] | None:
    """Height and width of the image, if they are stated."""
    return _pair(param, "img_size", "img_h", "img_w")


def _stated_steps(param: Any) -> tuple[float, float] | None:
    """Distance of two places along y and x in pixels of the image, if it is stated."""
    return _pair(param, "step", "step_h", "step_w")


def _pair(param: Any, both: str, first: str, second: str) -> tuple[Any, Any] | None:
    is_pair = param.HasField(first) or param.HasField(second)
    if is_pair and param.HasField(both):
        raise NetError(
            f"{both} is stated beside {first} and {second}", fix=f"remove {both}, or the other two"
        )
    if not is_pair and not param.HasField(both):
        return None
    names = (first, second) if is_pair else (both, both)
    sizes = tuple(getattr(param, name) for name in names)
    for name, size in zip(names, sizes, strict=True):
        if size <= 0:
            raise NetError(f"{name} is {size:g}, expected a positive number", fix=f"state {name} in pixels")
    return sizes[0], sizes[1]


def _plane(layer: Layer, index: int, x: Value) -> tuple[Size, Size]:
    """Height and width of a bottom."""
    if len(x.shape) != 4:
        raise ShapeError(
            f"shape is {x.shape}, expected (N, C, H, W)",
            blob=f'bottom "{layer.bottom_blob(index)}"',
            fix="give it four axes",
        )
    return computable(x.shape[2], "the height"), computable(x.shape[3], "the width")


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers) or "not stated"

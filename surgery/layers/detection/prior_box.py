"""Boxes at every place of a map, which detectors begin with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.forks import Fork
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit
from prototrt.surgery.ir import Array, DType, Size, computable, open_count
from prototrt.surgery.ops import Clip, Concat, Tile

_NEAR = 1e-6
"""Ratios that differ by less are one ratio."""
_MOST_BOXES = 10_000
"""At one place. Detectors have a few dozen."""


@layer_rule("PriorBox", "PriorBoxClustered")
def prior_box(build: LayerBuilder, layer: Layer, feature_map: Value, image: Value) -> list[Value]:
    """The boxes of SSD and its relatives: sizes and ratios at every place of a map, and their variances.

    Becomes: a constant; with sizes that vary Count, arithmetic, Tile, Concat.
    Bottoms: a map (N, C, H, W) and the image (N, C, h, w); only their heights and widths are read.
    Tops: (1, 2, 4 H W P) corners xmin, ymin, xmax, ymax of P boxes a place, relative to the image, and
    variances. Sizes lose their fraction, as in the fork. Where sizes vary, corners are computed in float32: their last
    bit may differ from a net of fixed sizes.
    ``fixed_size`` and ``density`` place boxes of one size side by side, and cut them at the ends of the image.
    The forks TextBoxes and FaceBoxes, which their nets do not show, have further boxes. ``denser_prior_boxes``, of
    TextBoxes++, puts each box again where the next place begins. Of tl_ssd, ``offset_w`` and ``offset_h`` make several
    places in each cell. PriorBoxClustered, of Intel's Caffe, states the ``width`` and ``height`` of its boxes.
    Source: weiliu89/caffe ``src/caffe/layers/prior_box_layer.cpp``; the same of zihaozhang9/FaceBoxes,
    sfzhang15/FaceBoxes, MhLiao/TextBoxes, MhLiao/TextBoxes_plusplus, julimueller/tl_ssd and
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe; opencv ``modules/dnn/src/layers/prior_box_layer.cpp``.
    """
    param = layer.param
    is_clustered = layer.type == "PriorBoxClustered"
    plane = _plane(layer, 0, feature_map)
    boxes = _boxes_of_sides(param) if is_clustered else _boxes(param, build.options.fork)
    pixels = _pair(param, "img_size", "img_h", "img_w") or _plane(layer, 1, image)
    steps = _pair(param, "step", "step_h", "step_w") or (None, None)
    offset = 0.0 if param.offset_w else param.offset
    edges = [
        _edges(build, plane[axis], pixels[axis], steps[axis], boxes.along(axis), offset) for axis in range(2)
    ]
    of_place = (len(boxes.sides), 2, 1)
    down, across = (
        build.reshape(edges[0], (plane[0], 1, *of_place)),
        build.reshape(edges[1], (1, plane[1], *of_place)),
    )
    parts = [build.broadcast(each, (*plane, *of_place), "edges") for each in (across, down)]
    data = [part.data for part in parts if part.data is not None]
    if len(data) == len(parts):
        corners = np.concatenate(data, -1)
        variances = np.broadcast_to(_variances(param), (corners.size // 4, 4))
        numbers = corners.clip(0, 1) if param.clip else corners
        return [build.constant(np.stack([numbers.reshape(-1), variances.reshape(-1)])[None], "boxes")]
    count = open_count((*plane, len(boxes.sides) * 4))
    ends = build.add(Concat(4), *parts, hint="corners")
    ends = build.reshape(build.add(Clip(0, 1), ends) if param.clip else ends, (1, 1, count))
    variance = build.constant(np.broadcast_to(_variances(param), (1, 1, 4)), "variance")
    each_variance = build.add(Tile(2, count // 4), variance, hint="variances")
    return [build.add(Concat(1), ends, each_variance)]


@dataclass(frozen=True, slots=True)
class _BoxesOfPlace:
    """The boxes at one place, (P, 2) each: width and height, and how far from the place their middles are along
    x and y, in steps and in pixels. ``is_cut`` is whether boxes end where the image ends.
    """

    sides: Array
    steps: Array
    pixels: Array
    is_cut: bool = False

    def along(self, axis: int) -> _BoxesOfPlace:
        """Only the numbers (P,) along y (axis 0) or x."""
        sides, steps, pixels = (part[:, 1 - axis] for part in (self.sides, self.steps, self.pixels))
        return _BoxesOfPlace(sides, steps, pixels, self.is_cut)


def _edges(
    build: LayerBuilder, places: Size, pixels: Size, step: float | None, boxes: _BoxesOfPlace, offset: float
) -> Value:
    """Where the boxes (P,) begin and end at each place of an axis, relative to the image: (places, P, 2).

    The fork computes in float64 here, which no engine has.
    """
    ends = np.stack([-boxes.sides / 2, boxes.sides / 2], -1)
    offsets = np.float32(offset) + boxes.steps.astype(np.float32)
    low, high = ([0, -np.inf], [np.inf, 1]) if boxes.is_cut else ([-np.inf] * 2, [np.inf] * 2)
    if isinstance(places, int) and isinstance(pixels, int):
        distance = np.float32(pixels) / np.float32(places) if step is None else np.float32(step)
        centres = (np.arange(places, dtype=np.float32)[:, None] + offsets) * distance
        middles = (centres + boxes.pixels).astype(np.float32)
        edges_of_boxes = (middles[..., None] + ends) / pixels
        return build.constant(edges_of_boxes.clip(low, high).astype(np.float32), "edges")
    counted = build.counted_numbers(places, "places", dtype=DType.FLOAT32)
    place = build.aligned(counted, 3, 0)
    image = build.scalar(pixels, 3)
    distance_of_places = image / places if step is None else step
    middle = (place + _constant(build, offsets[:, None], "offsets")) * distance_of_places
    ends_of_places = middle + _constant(build, boxes.pixels[:, None] + ends, "ends")
    edges = ends_of_places / image
    if boxes.is_cut:
        first, last = edges.slice(2, 0).at_least(0), edges.slice(2, 1).at_most(1)
        edges = concatenate([first, last], 2)
    return edges


def _constant(build: LayerBuilder, numbers: Array, hint: str) -> Value:
    return build.constant(numbers.astype(np.float32)[None], hint)


def _boxes(param: Any, fork: Fork | None) -> _BoxesOfPlace:
    """The boxes at one place, in the order of the fork."""
    _refuse_many(param)
    if param.fixed_size or param.density or param.fixed_ratio:
        return _dense_boxes(param)
    if param.offset_w or param.offset_h:
        return _boxes_of_offsets(param)
    boxes = _sparse_boxes(param)
    if fork == "textboxes" or param.denser_prior_boxes:  # each one again, half a step below
        down = 1 - param.offset if param.denser_prior_boxes else 0.5
        below = np.tile([[0, 0], [0, down]], (len(boxes.sides), 1))
        return _BoxesOfPlace(np.repeat(boxes.sides, 2, axis=0), below, np.repeat(boxes.pixels, 2, axis=0))
    return _of_faceboxes(boxes, param) if fork == "faceboxes" or param.faceboxes else boxes


def _refuse_many(param: Any) -> None:
    """Raise ``NetError`` for more boxes at a place than any detector has, before they are listed."""
    squares = sum(density * density for density in param.density)
    places = max(1, len(param.offset_w) * len(param.offset_h))
    count = (len(param.min_size) + squares) * (1 + len(param.aspect_ratio)) * places
    if count > _MOST_BOXES:
        raise NetError(
            f"asks for about {count:g} boxes at each place, expected at most {_MOST_BOXES}",
            fix="state fewer sizes and ratios, or a smaller density",
        )


def _sparse_boxes(param: Any) -> _BoxesOfPlace:
    """Boxes around the place itself."""
    least, most = [*param.min_size], [*param.max_size]
    _refuse_sizes(least, "min_size")
    if most and (
        len(most) != len(least) or not all(a < b < np.inf for a, b in zip(least, most, strict=True))
    ):
        raise NetError(
            f"max_size is {_join_numbers(most)}, expected one for each min_size ({_join_numbers(least)}), and larger",
            fix="state one max_size for each min_size, or none",
        )
    ratios = _ratios(param)
    sides: list[tuple[float, float]] = []
    for index, size in enumerate(map(int, least)):  # the fork keeps them in an int
        square = [(float(size), float(size))]
        larger = [(math.sqrt(size * int(most[index])),) * 2] if most else []
        sides += square + larger + _with_ratios(size, ratios)
    return _around_place(sides)


def _with_ratios(size: int, ratios: list[np.float32]) -> list[tuple[float, float]]:
    """Widths and heights of the boxes that are no squares."""
    return [(size * np.sqrt(ratio), size / np.sqrt(ratio)) for ratio in ratios if abs(ratio - 1) >= _NEAR]


def _boxes_of_sides(param: Any) -> _BoxesOfPlace:
    """Boxes whose sides are stated."""
    widths, heights = [*param.width], [*param.height]
    if len(widths) != len(heights):
        raise NetError(
            f"width is {_join_numbers(widths)} and height {_join_numbers(heights)}, expected as many",
            fix="give each box both sides",
        )
    for name, lengths in (("width", widths), ("height", heights)):
        _refuse_sizes(lengths, name)
    return _around_place(list(zip(widths, heights, strict=True)))


def _boxes_of_offsets(param: Any) -> _BoxesOfPlace:
    """For each pair of offsets, the boxes of each size and ratio. There are no squares, and no max_size is read."""
    across, down = [*param.offset_w], [*param.offset_h]
    if not (across and down) or not all(0 <= offset <= 1 for offset in across + down):
        raise NetError(
            f"offset_w is {_join_numbers(across)} and offset_h is {_join_numbers(down)}, expected numbers from 0 to 1",
            fix="state both: where the places are in their cell",
        )
    _refuse_sizes([*param.min_size], "min_size")
    if not param.aspect_ratio or any(abs(ratio - 1) < _NEAR for ratio in param.aspect_ratio):
        raise NetError(
            f"aspect_ratio is {_join_numbers([*param.aspect_ratio])}, expected ratios other than 1 beside offset_w",
            because="the fork makes no box of ratio 1, but counts it",
            fix="remove the ratio 1, and state the others",
        )
    sides = [side for size in map(int, param.min_size) for side in _with_ratios(size, _ratios(param))]
    steps = [(x, y) for x in across for y in down for _ in sides]
    boxes = _around_place(sides * (len(across) * len(down)))
    return replace(boxes, steps=np.array(steps))


def _around_place(sides: list[tuple[float, float]]) -> _BoxesOfPlace:
    exact = np.array(sides, np.float32).astype(np.float64)  # as the fork holds them
    return _BoxesOfPlace(exact, np.zeros_like(exact), np.zeros_like(exact))


def _of_faceboxes(boxes: _BoxesOfPlace, param: Any) -> _BoxesOfPlace:
    """Squares are one pixel smaller. Those of 32 and 64 pixels stand 8 and 16 pixels apart, 4 x 4 and 2 x 2 of them."""
    sides: list[tuple[float, float]] = []
    pixels: list[tuple[float, float]] = []
    for width, height in boxes.sides:
        is_square = width == height
        count = {32: 4, 64: 2}.get(width, 1) if is_square else 1
        of_row = [index * 32 / count - 16 for index in range(count)] if count > 1 else [0.0]
        pixels += [(across, down) for down in of_row for across in of_row]
        sides += [(width - is_square, height - is_square)] * count**2
    counted = 21 if len(param.min_size) == 3 else len(boxes.sides)
    if param.max_size or len(sides) != counted:
        raise NetError(
            f"min_size is {_join_numbers([*param.min_size])} and max_size is {_join_numbers([*param.max_size])}",
            because="FaceBoxes expects the sizes 32, 64 and 128, or one larger size, and no max_size",
            fix=Worded("leave {} out, if the net is not FaceBoxes", Option("fork", "faceboxes")),
        )
    return _BoxesOfPlace(np.array(sides), np.zeros((len(sides), 2)), np.array(pixels))


def _dense_boxes(param: Any) -> _BoxesOfPlace:
    """For each size and ratio, density x density boxes side by side around the place."""
    if param.min_size or param.max_size:
        raise NetError(
            "fixed_size is stated beside min_size or max_size",
            because="the fork then counts fewer boxes than it writes",
            fix="use one PriorBox layer for each, and join them by a Concat along axis 2",
        )
    sizes, densities, ratios = [*param.fixed_size], [*param.density], [*param.fixed_ratio]
    _refuse_sizes(sizes, "fixed_size")
    if len(densities) != len(sizes) or not all(
        density >= 1 and density == int(density) for density in densities
    ):
        raise NetError(
            f"density is {_join_numbers(densities)}, expected a whole number for each fixed_size"
            f" ({_join_numbers(sizes)})",
            fix="state how many boxes of each size stand side by side",
        )
    if len(ratios) > 1 or (ratios and param.aspect_ratio) or any(ratio <= 0 for ratio in ratios):
        raise NetError(
            f"fixed_ratio is {_join_numbers(ratios)}, expected one positive number, and no aspect_ratio beside it",
            fix="state width divided by height, or use aspect_ratio, which may have several",
        )
    sides, pixels = [], []
    for size, density in zip(sizes, map(int, densities), strict=True):
        apart = int(size / density)
        first = apart / 2 - int(size) // 2
        of_row = [first + index * apart for index in range(density)]
        for ratio in map(np.float32, ratios or _ratios(param)):
            is_plain = not ratios and abs(ratio - 1) < _NEAR  # these lose their fraction
            width, height = (int(size),) * 2 if is_plain else (size * np.sqrt(ratio), size / np.sqrt(ratio))
            pixels += [(across, down) for down in of_row for across in of_row]
            sides += [(width, height)] * density**2
    boxes = _around_place(sides)
    return _BoxesOfPlace(boxes.sides, boxes.steps, np.array(pixels), is_cut=True)


def _refuse_sizes(sizes: list[float], name: str) -> None:
    if not sizes or not all(0 < size < np.inf for size in sizes):
        raise NetError(
            f"{name} must be stated, and be positive", fix=f"state a positive {name}, in pixels of the image"
        )


def _ratios(param: Any) -> list[np.float32]:
    """1, then each ratio that is not yet there, with ``flip`` followed by its inverse."""
    ratios = [np.float32(1)]
    for ratio_field in param.aspect_ratio:
        ratio = np.float32(ratio_field)
        if ratio <= 0:
            raise NetError(
                f"aspect_ratio is {ratio:g}, expected a positive number", fix="state width divided by height"
            )
        if all(abs(ratio - other) >= _NEAR for other in ratios):
            ratios += [ratio, np.float32(1) / ratio] if param.flip else [ratio]
    return ratios


def _variances(param: Any) -> Array:
    variances = [*param.variance]
    if len(variances) not in (0, 1, 4) or any(variance <= 0 for variance in variances):
        raise NetError(
            f"variance is {_join_numbers(variances)}, expected 1 or 4 positive numbers",
            fix="state one for all coordinates, or one for each",
        )
    return np.array(variances or [0.1], np.float32)


def _pair(param: Any, both: str, first: str, second: str) -> tuple[Any, Any] | None:
    """A number of pixels along y and one along x, if they are stated."""
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
        raise misfit(layer, index, x, "(N, C, H, W)", "give it four axes")
    return computable(x.shape[2], "the height"), computable(x.shape[3], "the width")


def _join_numbers(numbers: list[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers) or "not stated"

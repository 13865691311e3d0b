"""Reading an image between its elements: weighted sums of the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import DType, Size, computable


@dataclass(frozen=True, slots=True)
class Tap:
    """What is read along one axis: the elements (int32) and what they count, in one shape."""

    index: Value
    weight: Value


def linear_taps(place: Value, size: Size) -> list[Tap]:
    """The two neighbours of each place on an axis, which is from 0 to ``size - 1``."""
    low = place.floor()
    share = place - low
    high = (low + 1).at_most(size - 1)
    return [Tap(low.cast(DType.INT32), 1 - share), Tap(high.cast(DType.INT32), share)]


def taps_inside(place: Value, size: Size) -> list[Tap]:
    """The two neighbours of each place; those that are not on the axis count 0."""
    low = place.floor()
    taps = []
    for index, weight in ((low, low + 1 - place), (low + 1, place - low)):
        is_inside = (index >= 0) & (index < size)
        taps.append(Tap(is_inside.chosen(index, 0).cast(DType.INT32), is_inside.chosen(weight, 0)))
    return taps


def pixel_rows(x: Value) -> Value:
    """x (N, C, H, W) as a table (N H W, C): one row an element, with all its channels."""
    items, channels, height, width = (computable(dim, f"axis {axis}") for axis, dim in enumerate(x.shape))
    return x.transpose(0, 2, 3, 1).reshape(items * height * width, channels)


def cross(ys: Sequence[Tap], xs: Sequence[Tap]) -> list[list[Tap]]:
    """Taps of rows (R, P) as (R, P, 1), and of columns (R, Q) as (R, 1, Q): they meet at each element of a grid."""
    return [
        [Tap(across(tap.index, axis), across(tap.weight, axis)) for tap in taps]
        for axis, taps in ((2, ys), (1, xs))
    ]


def across(x: Value, axis: int) -> Value:
    """(R, P) with an axis of size 1 before its last one, axis 1, or behind it, axis 2."""
    count, places = x.shape
    return x.reshape(count, places, 1) if axis == 2 else x.reshape(count, 1, places)


def sampled(rows: Value, origin: Value, ys: Sequence[Tap], xs: Sequence[Tap], width: Size) -> Value:
    """Sums over the taps: (..., C) for taps and origins whose shapes broadcast to (...).

    ``origin`` (int32) is the row where the image begins; one element further down is ``width`` rows further.
    """
    total: Value | None = None
    for y in ys:
        start = origin + y.index * width
        for x in xs:
            weight = y.weight * x.weight
            term = rows.gathered(start + x.index) * weight.reshape(*weight.shape, 1)
            total = term if total is None else total + term
    assert total is not None
    return total


def sampled_images(x: Value, ys: Sequence[Tap], xs: Sequence[Tap]) -> Value:
    """Each image of x (N, C, H, W) read at taps of its own, (N, P, Q) each: (N, P, Q, C)."""
    items, rows, columns = (computable(x.shape[axis], f"axis {axis}") for axis in (0, 2, 3))
    starts = x.build.counted_numbers(items, "items", step=rows * columns).reshape(items, 1, 1)
    return sampled(pixel_rows(x), starts, ys, xs, columns)

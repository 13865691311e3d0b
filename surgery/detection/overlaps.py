"""The overlap of two boxes, and which overlaps suppress. Each fork has its own formula, followed bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.expression import Value
from prototrt.surgery.detection.lists import LOWEST
from prototrt.surgery.ir import Array, DType

SMALLEST = float(np.finfo(np.float32).tiny)
"""Replaces an area of 0 as a divisor: the dividend is then also 0."""

_ALWAYS = 2.0
"""More than any threshold."""

_NEVER = -1.0
"""Less than any overlap."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Four numbers a box, each an expression of the same shape: corners, or a corner or centre and sides."""

    first: Value
    second: Value
    third: Value
    fourth: Value

    @property
    def parts(self) -> tuple[Value, Value, Value, Value]:
        return self.first, self.second, self.third, self.fourth

    def map(self, change: Callable[[Value], Value]) -> Boxes:
        return Boxes(*map(change, self.parts))


Overlap = Callable[[Boxes, Boxes], Value]
"""``overlap(a, b)``, for boxes that broadcast."""


def of_normalized_corners(a: Boxes, b: Boxes) -> Value:
    """Intersection over union of corners xmin, ymin, xmax, ymax; boxes that only touch overlap by 0.

    Source: weiliu89/caffe ``src/caffe/util/bbox_util.cpp``, ``JaccardOverlap``.
    """
    width, height = _intersection(a, b)
    area = width.at_least(0) * height.at_least(0)
    return area / (_area(a) + _area(b) - area).at_least(SMALLEST)


def of_corners(a: Boxes, b: Boxes) -> Value:
    """``of_normalized_corners``, but of two boxes without an area the later one is always dropped.

    Source: caffe2 ``operators/generate_proposals_op_util_nms.h``, ``nms_cpu_upright``: it keeps boxes whose overlap is
    at most the threshold, and divides 0 by 0 there.
    """
    width, height = _intersection(a, b)
    area = width.at_least(0) * height.at_least(0)
    union = _area(a) + _area(b) - area
    return (union > 0).chosen(area / union.at_least(SMALLEST), _ALWAYS)


def of_pixel_corners(a: Boxes, b: Boxes) -> Value:
    """Intersection over union of the corners of pixels: a box from 0 to 0 has an area of 1.

    Source: py-faster-rcnn ``lib/nms/py_cpu_nms.py``; makefile/frcnn ``get_iou`` in
    ``src/caffe/FRCNN/util/frcnn_utils.cpp``.
    """
    width, height = _intersection(a, b)
    return _of_pixels((width + 1).at_least(0) * (height + 1).at_least(0), a, b)


def of_pixel_corners_that_meet(a: Boxes, b: Boxes) -> Value:
    """``of_pixel_corners``, but 0 for boxes with less than a pixel between them.

    Source: sanghoon/caffe ``src/caffe/util/nms.cpp``, ``iou``.
    """
    width, height = _intersection(a, b)
    meet = (width >= 0) & (height >= 0)
    return _of_pixels(meet.chosen((width + 1) * (height + 1), 0), a, b)


def of_centres(a: Boxes, b: Boxes) -> Value:
    """Intersection over union of boxes with center x, y, width and height.

    Source: eric612/MobileNet-YOLO ``box_iou`` in ``src/caffe/util/bbox_util.cpp``.
    """
    width = _common(a.first, a.third, b.first, b.third)
    height = _common(a.second, a.fourth, b.second, b.fourth)
    area = width.at_least(0) * height.at_least(0)
    return area / (a.third * a.fourth + b.third * b.fourth - area).at_least(SMALLEST)


def _corners_behind_pixels(box: Boxes) -> Boxes:
    return Boxes(box.first, box.second, box.third + 1, box.fourth + 1)


def _corners_around(box: Boxes) -> Boxes:
    half_width, half_height = box.third / 2, box.fourth / 2
    return Boxes(
        box.first - half_width, box.second - half_height, box.first + half_width, box.second + half_height
    )


NATIVE: dict[Overlap, Callable[[Boxes], Boxes]] = {
    of_normalized_corners: lambda box: box,
    of_pixel_corners: _corners_behind_pixels,
    of_centres: _corners_around,
}
"""The overlaps by which a layer of a backend decides alike, up to rounding, and the corners that it gets."""


def of_corner_and_sides(mode: str) -> Overlap:
    """Overlap of boxes with x, y, width and height.

    The intersection is divided by the union (``mode`` is ``IOU``), by the smaller area (``IOMU``) or by
    the area of the first box (``IOFU``).
    Source: zhaoweicai/mscnn ``src/caffe/util/math_functions.cpp``, ``BoxIOU``.
    """

    def overlap(a: Boxes, b: Boxes) -> Value:
        width = (a.first + a.third).at_most(b.first + b.third) - a.first.at_least(b.first)
        height = (a.second + a.fourth).at_most(b.second + b.fourth) - a.second.at_least(b.second)
        area = width.at_least(0) * height.at_least(0)
        return _in_mode(mode, area, a.third * a.fourth, b.third * b.fourth)

    return overlap


def of_pixel_corners_in(mode: str) -> Overlap:
    """Overlap of boxes with the corners of pixels, in the modes of ``of_corner_and_sides``.

    Boxes that have one row of pixels in common overlap by 0.
    Source: zhaoweicai/cascade-rcnn ``src/caffe/util/bbox_util.cpp``, ``JaccardOverlap``.
    """

    def overlap(a: Boxes, b: Boxes) -> Value:
        width, height = _intersection(a, b)
        meet = (width >= 0) & (height > 0)
        area = meet.chosen((width + 1) * (height + 1), 0)
        return _in_mode(mode, area, _pixels(a), _pixels(b))

    return overlap


def _intersection(a: Boxes, b: Boxes) -> tuple[Value, Value]:
    """Width and height of the intersection of two boxes with corners; negative if they are apart."""
    width = a.third.at_most(b.third) - a.first.at_least(b.first)
    return width, a.fourth.at_most(b.fourth) - a.second.at_least(b.second)


def _area(box: Boxes) -> Value:
    return (box.third - box.first) * (box.fourth - box.second)


def _pixels(box: Boxes) -> Value:
    return (box.third - box.first + 1) * (box.fourth - box.second + 1)


def _of_pixels(area: Value, a: Boxes, b: Boxes) -> Value:
    return area / (_pixels(a) + _pixels(b) - area).at_least(SMALLEST)


def _in_mode(mode: str, area: Value, of_a: Value, of_b: Value) -> Value:
    """An intersection over the smaller area, the area of the first box, or the union."""
    if mode == "IOMU":
        return area / of_a.at_most(of_b).at_least(SMALLEST)
    whole = of_a if mode == "IOFU" else of_a + of_b - area
    return area / whole.at_least(SMALLEST)


def _common(x1: Value, side1: Value, x2: Value, side2: Value) -> Value:
    """The length of the intersection of two stretches, each with a middle and a length."""
    half1, half2 = side1 / 2, side2 / 2
    return (x1 + half1).at_most(x2 + half2) - (x1 - half1).at_least(x2 - half2)


@dataclass(frozen=True, slots=True)
class Decay:
    """Soft suppression: a box that is kept lowers the scores of the others; below ``least`` they are dropped.

    A score is multiplied by ``1 - overlap`` where that is above the threshold, or with ``sigma`` by
    ``exp(-overlap^2 / sigma)``.
    """

    least: float
    sigma: float | None = None

    def lower(self, scores: Value, overlap: Value, threshold: float) -> Value:
        if self.sigma is None:
            weight = (overlap > threshold).chosen(1 - overlap, 1)
        else:
            weight = (overlap * overlap * (-1 / self.sigma)).exp()
        lowered = scores * weight
        return ((scores > LOWEST) & (lowered >= self.least)).chosen(lowered, LOWEST)


@dataclass(frozen=True, slots=True)
class Suppression:
    """Candidates by falling score: each is kept unless it overlaps a kept one by more than ``threshold``.

    ``drops_equal``: an overlap of exactly the threshold also suppresses. ``eta`` below 1 multiplies the
    threshold after each box that is kept, as long as it is above 0.5. ``first_of_equals``: of equal
    scores the one with the smaller index comes first, else the one with the larger. ``is_native``: a layer
    of the backend does it where it decides alike, for which no box may be inside out. With ``decay`` overlaps lower
    scores, and the scores of boxes that are kept are the lowered ones.
    """

    threshold: float
    overlap: Overlap
    drops_equal: bool = False
    eta: float = 1.0
    first_of_equals: bool = True
    is_native: bool = False
    decay: Decay | None = None

    def suppresses(self, overlap: Value, threshold: Value | float) -> Value:
        return overlap >= threshold if self.drops_equal else overlap > threshold

    @property
    def native_threshold(self) -> float | None:
        """The threshold of a layer that drops above it, if such a layer decides alike."""
        if not self.is_native or self.overlap not in NATIVE or self.shrinks or self.decay is not None:
            return None
        if not self.drops_equal:
            return self.threshold
        below = float(np.nextafter(np.float32(self.threshold), np.float32(-1)))
        return below if below >= 0 else None

    @property
    def shrinks(self) -> bool:
        """Whether the threshold depends on how many boxes were kept."""
        return self.eta < 1

    def reach(self, overlap: Value) -> Value:
        """What ``is_reached`` decides by: the overlap, or 1 where it suppresses, if the threshold never shrinks."""
        if self.shrinks:
            return (overlap > _NEVER).chosen(overlap, _NEVER)  # NaN suppresses nothing
        return self.suppresses(overlap, self.threshold).cast(DType.FLOAT32)

    def is_reached(self, reach: Value, threshold: Value | float) -> Value:
        """Whether a box is suppressed whose largest reach from a kept box is this."""
        return self.suppresses(reach, threshold) if self.shrinks else reach > 0

    def shrunk(self, threshold: Value, is_kept: Value) -> Value:
        """The threshold after one more box, if it is kept."""
        return (is_kept & (threshold > 0.5)).chosen(threshold * self.eta, threshold)

    def thresholds(self, count: int) -> Array:
        """The threshold after 0 to ``count`` - 1 boxes were kept."""
        thresholds = [np.float32(self.threshold)]
        while len(thresholds) < count:
            is_large = self.shrinks and thresholds[-1] > 0.5
            thresholds.append(thresholds[-1] * np.float32(self.eta) if is_large else thresholds[-1])
        return np.array(thresholds, np.float32)


def overlap_threshold(threshold: float, field: str) -> float:
    """The overlap above which one of two boxes is dropped. Raises ``NetError`` if it is not from 0 to 1."""
    if not 0 <= threshold <= 1:
        raise NetError(
            f"{field} is {threshold:g}, expected 0 to 1",
            because="it is a ratio: intersection over union",
            fix=f"set {field} to 1 to keep boxes that overlap"
            if threshold > 1
            else f"set {field} to 0 or more",
        )
    return threshold

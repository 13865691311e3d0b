"""Operators that read regions of maps."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, as_number, concatenate
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.caffe2.boxes import positive_scale
from prototrt.surgery.caffe2.operator_rule import (
    expect_axes,
    expect_whole_numbers,
    misfit,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.detection.rows import counted_rows
from prototrt.surgery.images.region_maxima import pooled_regions
from prototrt.surgery.images.rois import MOST_BINS, Rois, read_rois
from prototrt.surgery.images.sampling import Tap, cross, linear_taps, pixel_rows, sampled
from prototrt.surgery.ir import AtMost, Size, computable
from prototrt.surgery.ops import Gather, Transpose, While

_MOST_SAMPLES = 16
"""Along one axis of a bin, if ``sampling_ratio`` states it: nets have 1 to 4. Each pair of samples is a few nodes."""


@operator_rule("RoIAlign")
def roi_align(build: Builder, operator: Operator, x: Value, rois: Value) -> list[Value]:
    """The mean of samples in each bin of each region, read between the elements of the map.

    Becomes: Gather and arithmetic, in a While where ``sampling_ratio`` is 0.
    A bin has ``sampling_ratio`` samples along each axis; without it, one for each element that it covers, rounded up.
    A region is at least one element wide and high, unless ``aligned`` is 1: then it is moved by half an element.
    Inputs: maps (N, C, H, W), or (N, H, W, C) with ``order`` NHWC; regions (R, 4) or (R, 5). Outputs: (R, C,
    ``pooled_h``, ``pooled_w``), or the channels last.
    Source: caffe2 ``operators/roi_align_op.cc``, ``RunOnDeviceWithOrderNCHW``.
    """
    is_last = operator.arguments.text("order", "NCHW") == "NHWC"
    if is_last:
        expect_axes(operator, x, 4, "(N, H, W, C)")
        x = build.add(Transpose((0, 3, 1, 2)), x, hint="channels_first")
    else:
        refuse_order(operator)
    regions = _read_regions(build, operator, x, rois)
    scale, shift = positive_scale(operator, 1.0), 0.5 if operator.arguments.flag("aligned") else 0.0
    tall, wide = _pooled_size(operator)
    ys = _SampledBins.of(operator, regions.top * scale, regions.bottom * scale, shift, tall, regions.height)
    xs = _SampledBins.of(operator, regions.left * scale, regions.right * scale, shift, wide, regions.width)
    samples = operator.arguments.integer("sampling_ratio", -1)
    if samples > 0:
        refuse_large("sampling_ratio", samples, _MOST_SAMPLES)
        means = _with_samples(build, x, regions, ys, xs, samples)
    else:
        means = _with_samples_of_size(build, x, regions, ys, xs)
    result = means if is_last else means.transpose(0, 3, 1, 2)
    return [counted_rows(build, result, rois)]


@dataclass(frozen=True, slots=True)
class _SampledBins:
    """Bins of each region along one axis: where the first one starts and how long each is, (R, 1)."""

    start: Value
    length: Value
    count: int
    size: Size

    @classmethod
    def of(
        cls, operator: Operator, start: Value, end: Value, shift: float, count: int, size: Size
    ) -> _SampledBins:
        extent = end - start
        if not operator.arguments.flag("aligned"):
            extent = extent.at_least(1)
        return cls(start.shifted(-shift), extent / count, count, size)

    def taps(self, share: Value) -> list[Tap]:
        """What is read at this share of the length of each bin (R, bins). Outside of the map it counts nothing."""
        build = self.start.build
        bins = build.constant(np.arange(self.count, dtype=np.float32)[None], "bins")
        places = bins * self.length + self.start + share * self.length
        is_outside = (places < -1) | (places > as_number(build, self.size, 2))
        taps = linear_taps(places.at_least(0).at_most(self.size - 1), self.size)
        return [Tap(tap.index, is_outside.chosen(0, tap.weight)) for tap in taps]


def _with_samples(
    build: Builder, x: Value, regions: Rois, ys: _SampledBins, xs: _SampledBins, samples: int
) -> Value:
    """The mean of as many samples along each axis of each bin: (R, ys, xs, C)."""
    shares = [build.scalar((sample + 0.5) / samples, 2) for sample in range(samples)]
    rows, columns = (
        [Tap(tap.index, tap.weight.scaled(1 / samples)) for share in shares for tap in bins.taps(share)]
        for bins in (ys, xs)
    )
    origin = regions.origins(regions.height * regions.width)
    return _read(pixel_rows(x), origin, rows, columns, regions.width)


def _read(table: Value, origin: Value, rows: list[Tap], columns: list[Tap], width: Size) -> Value:
    """Sums over the taps of rows (R, P) and columns (R, Q): (R, P, Q, C)."""
    ys, xs = cross(rows, columns)
    return sampled(table, origin.reshape(origin.shape[0], 1, 1), ys, xs, width)


def _with_samples_of_size(
    build: Builder, x: Value, regions: Rois, ys: _SampledBins, xs: _SampledBins
) -> Value:
    """The mean of as many samples as a bin covers elements, rounded up: (R, ys, xs, C).

    Each round reads one sample of every bin, as often as the largest bin has samples. An empty region gives 0.
    """
    table = pixel_rows(x)
    grids = [bins.length.ceil() for bins in (ys, xs)]
    count, channels = computable(grids[0].shape[0], "the regions"), table.shape[1]
    shape = (count, ys.count, xs.count, computable(channels, "axis 1 (channels)"))
    states = [
        build.constant(np.zeros((1, 1), np.float32), "sample"),
        build.broadcast(build.constant(np.zeros((1, 1, 1, 1), np.float32), "sums"), shape, "sums"),
    ]
    origin = regions.origins(regions.height * regions.width)
    most = (grids[0] * grids[1]).largest(0)
    read = [table, origin, ys.start, ys.length, xs.start, xs.length, *grids, most]

    inner = build.body()
    hints = ("sample", "sums", "rows", "origin", "top", "tall", "left", "wide", "high", "broad", "most")
    outside = [*states, *read]
    sample, sums, rows, first, top, tall, left, wide, high, broad, last = (
        inner.body_input(hint, outer.shape, outer.dtype) for hint, outer in zip(hints, outside, strict=True)
    )
    row = (sample / broad.at_least(1)).floor()
    column = sample - row * broad
    shares = [(place + 0.5) / grid.at_least(1) for place, grid in ((row, high), (column, broad))]
    taps = [
        _SampledBins(start, length, bins.count, bins.size).taps(share)
        for start, length, bins, share in ((top, tall, ys, shares[0]), (left, wide, xs, shares[1]))
    ]
    is_sample = (sample < high * broad).reshape(count, 1, 1, 1)
    now = sums + is_sample.chosen(_read(rows, first, taps[0], taps[1], regions.width), 0)
    another = (sample + 1 < last).reshape()
    loop = While(inner.graph("round", [sample + 1, now, another]))
    _, total = build.add_all(loop, *outside, hint="sums")
    samples = (grids[0] * grids[1]).at_least(1).reshape(count, 1, 1, 1)
    return total / samples


@operator_rule("RoIPool", "RoIPoolF")
def roi_pool(build: Builder, operator: Operator, x: Value, rois: Value) -> list[Value]:
    """The largest element of each bin of each region, 0 where a bin is empty.

    Becomes: MaxPool, Gather and arithmetic.
    Inputs: maps (N, C, H, W), regions (R, 4) or (R, 5). Outputs: (R, C, ``pooled_h``, ``pooled_w``).
    Source: caffe2 ``operators/roi_pool_op.cc``, ``RunOnDevice``.
    """
    refuse_order(operator)
    regions = _read_regions(build, operator, x, rois)
    largest = pooled_regions(build, x, regions, _pooled_size(operator), positive_scale(operator, 1.0))
    return [counted_rows(build, largest, rois)]


@operator_rule("BatchPermutation")
def batch_permutation(build: Builder, operator: Operator, x: Value, index: Value) -> list[Value]:
    """The rows of x in another order.

    Becomes: Gather.
    Inputs: x (R, ...), and for each row of the result (R,) the row of x that it is.
    Source: caffe2 ``operators/batch_permutation_op.cc``, ``batch_permutation_loop``.
    """
    expect_whole_numbers(operator, index, 1)
    expect_axes(operator, index, 1, "(R,)", 1)
    if index.shape[0] != x.shape[0] and not isinstance(x.shape[0], AtMost):
        expected = f"({x.shape[0]},)"
        raise misfit(operator, 1, index, expected, f"x is {x.shape}")
    node = build.writer(x)
    if node is not None and isinstance(node.op, Gather):  # rows of rows: those between are never made
        table, outer = node.inputs
        return [build.add(Gather(), table, build.add(Gather(), outer, index))]
    return [build.add(Gather(), x, index)]


def _read_regions(build: Builder, operator: Operator, x: Value, rois: Value) -> Rois:
    """The regions in the second input; those of one image need not state its number."""
    expect_axes(operator, x, 4, "(N, C, H, W)")
    expect_axes(operator, rois, 2, "(R, 4) or (R, 5)", 1)
    if rois.shape[1] == 4:
        image = build.broadcast(build.scalar(0.0, 2), (computable(rois.shape[0], "the regions"), 1), "image")
        rois = concatenate([image, exact(rois)], 1)
    elif rois.shape[1] != 5:
        because = "a region is x1, y1, x2 and y2, after the number of its image"
        raise misfit(operator, 1, rois, "(R, 4) or (R, 5)", because)
    return read_rois(build, operator, x, rois)


def _pooled_size(operator: Operator) -> tuple[int, int]:
    """``pooled_h`` and ``pooled_w``. Raises ``NetError``."""
    size = operator.arguments.integer("pooled_h", 1), operator.arguments.integer("pooled_w", 1)
    if min(size) < 1:
        raise NetError(
            f"pooled_h is {size[0]} and pooled_w {size[1]}, expected at least 1", fix=MEND_ARGUMENTS
        )
    for name, bins in zip(("pooled_h", "pooled_w"), size, strict=True):
        refuse_large(name, bins, MOST_BINS)
    return size

"""From a histogram to a range: the largest magnitude that int8 is to represent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.checking.calibration.histogram import Histogram
from prototrt.surgery.ir import Array

LEVELS = 128
"""Magnitudes of int8, zero among them."""
_CANDIDATES = 1024
"""Ranges that a method tries at most."""
_RARELY = 0.0001
"""How often a level of an empty bin occurs: the last bin may hold only what was clipped."""
_USUAL_PERCENTILE = 99.99
_FORMS = "max, percentile:99.99, mse or entropy"


@dataclass(frozen=True, slots=True)
class Method:
    """How ranges are chosen. ``percentile`` is a number for that method only."""

    name: str
    percentile: float | None = None

    @classmethod
    def of(cls, text: str) -> Method:
        """``"max"``, ``"percentile:99.99"``, ``"mse"`` or ``"entropy"``. Raises ``OptionsError``."""
        name, colon, number = text.partition(":")
        if name not in _METHODS or (colon and name != "percentile"):
            raise OptionsError(
                Worded("{} is {}, expected {}", Option("method"), repr(text), _FORMS),
                fix=Worded("use {}", Option("method", f"percentile:{_USUAL_PERCENTILE}")),
            )
        if name != "percentile":
            return cls(name)
        return cls(name, _percentile(number) if colon else _USUAL_PERCENTILE)

    def __str__(self) -> str:
        return self.name if self.percentile is None else f"{self.name}:{self.percentile:g}"

    def range_of(self, histogram: Histogram) -> float:
        """The largest magnitude to represent; 0 where every number was zero."""
        if not histogram.largest:
            return 0.0
        return min(histogram.largest, _METHODS[self.name](histogram, self))


def _percentile(text: str) -> float:
    try:
        percentile = float(text)
    except ValueError:
        percentile = 0.0
    if not 0 < percentile <= 100:
        raise OptionsError(
            Worded(
                "{} is {}, expected a number above 0 and at most 100",
                Option("method", "percentile"),
                repr(text),
            ),
            fix=Worded("use {}", Option("method", f"percentile:{_USUAL_PERCENTILE}")),
        )
    return percentile


def _by_max(histogram: Histogram, method: Method) -> float:
    """No number is clipped."""
    return histogram.largest


def _by_percentile(histogram: Histogram, method: Method) -> float:
    """The magnitude that this share of all numbers does not exceed, interpolated within its bin."""
    assert method.percentile is not None
    sums = np.cumsum(histogram.used_counts)
    target = sums[-1] * method.percentile / 100
    place = int(np.searchsorted(sums, target))
    count = int(histogram.used_counts[place])
    inside = 1 - (int(sums[place]) - target) / count
    return float((place + inside) * histogram.width)


def _by_mse(histogram: Histogram, method: Method) -> float:
    """The range with the smallest mean square of what rounding and clipping change.

    Source: NVIDIA pytorch-quantization ``calib/histogram.py``, ``_compute_amax_mse``.
    """
    centres = (np.arange(len(histogram.used_counts)) + 0.5) * histogram.width

    def error(bins: int) -> float:
        step = bins * histogram.width / (LEVELS - 1)
        rounded = np.minimum(np.rint(centres / step), LEVELS - 1) * step
        return float((np.square(rounded - centres) * histogram.used_counts).sum())

    return min(_candidates(histogram), key=error) * histogram.width


def _by_entropy(histogram: Histogram, method: Method) -> float:
    """The range whose 128 levels tell most of the distribution: TensorRT's entropy calibration.

    For each candidate, the reference is the histogram up to it, with all numbers beyond it in the last bin. The
    quantized distribution spreads the count of each level evenly over those of its bins that are not
    empty. The range with the smallest Kullback-Leibler divergence wins, the largest one among equals.
    The bin of zero is counted as the next one: a ReLU's zeros say nothing about the range.
    Source: "8-bit Inference with TensorRT" (S. Migacz, GTC 2017); NVIDIA pytorch-quantization
    ``calib/histogram.py``, ``_compute_amax_entropy``; the count of an empty bin from BUG1989
    caffe-int8-convert-tools ``caffe-int8-convert-tool-dev-weight.py``, ``threshold_distribution``.
    """
    counts = histogram.used_counts.astype(np.float64)
    if not counts[1:].any() or len(counts) <= LEVELS:  # all are in the first bin, or each bin has a level
        return histogram.largest
    counts[0] = counts[1]
    return (
        min(reversed([*_candidates(histogram)]), key=lambda bins: _divergence(counts, bins)) * histogram.width
    )


def _divergence(counts: Array, bins: int) -> float:
    """Of the first bins, quantized, from the same bins with the rest clipped into them."""
    kept = counts[:bins]
    starts = np.ceil(np.arange(LEVELS) * (bins / LEVELS)).astype(np.int64)
    sizes = np.diff(starts, append=bins)
    filled = np.add.reduceat((kept > 0).astype(np.float64), starts)
    evenly = np.add.reduceat(kept, starts) / np.maximum(filled, 1)
    quantized = np.repeat(evenly, sizes) * (kept > 0)
    reference = kept.copy()
    reference[-1] += counts[bins:].sum()
    mass, quantized_mass = reference.sum(), quantized.sum()
    if not quantized_mass:  # every number would be clipped
        return float("inf")
    held = reference > 0
    p, q = reference[held] / mass, np.maximum(quantized[held], _RARELY) / quantized_mass
    return float((p * np.log(p / q)).sum())


def _candidates(histogram: Histogram) -> Iterator[int]:
    """Ranges to try, in bins: with at least one bin for each level, up to the largest magnitude."""
    used = len(histogram.used_counts)
    yield from range(min(LEVELS, used), used, max(1, used // _CANDIDATES))
    yield used


_METHODS: dict[str, Callable[[Histogram, Method], float]] = {
    "max": _by_max,
    "percentile": _by_percentile,
    "mse": _by_mse,
    "entropy": _by_entropy,
}

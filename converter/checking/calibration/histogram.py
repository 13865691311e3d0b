"""How often magnitudes occur, counted while they stream by, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir import Array

BINS = 4096
"""At least half of them are in use, whatever the largest magnitude is: TensorRT's calibrators count in 2048."""
_MOST = 1 << 53
"""Numbers that are counted, as far as double precision is exact."""
_SMALLEST_EXPONENT = -120
"""Of the width of a bin. Its reciprocal is a float32; what is smaller is counted in the first bin."""


def _empty() -> Array:
    return np.zeros(BINS, np.int64)


@dataclass(slots=True, eq=False)
class Histogram:
    """Counts of magnitudes |x| in bins of one width, which is a power of two.

    Where the largest magnitude does not fit, bins are joined in pairs until it does. Widths of powers of two
    make the counts exact: they do not depend on the order of the numbers, nor on how often histograms
    were merged.
    ``counts[k]`` are the magnitudes from ``k * width`` up to ``(k + 1) * width``.
    """

    counts: Array = field(default_factory=_empty)
    exponent: int = _SMALLEST_EXPONENT
    largest: float = 0.0

    @classmethod
    def of(cls, counts: Sequence[int], width: float, largest: float) -> Histogram:
        """The histogram that was written down in this way. Raises ``ValueError`` where none is written so."""
        made = cls(_empty(), math.frexp(width)[1] - 1, largest)
        is_sound = largest < BINS * width and len(made.used_counts) == len(counts) and sum(counts) <= _MOST
        if not is_sound or (largest and not counts[-1]):
            raise ValueError("the counts, the width of a bin and the largest magnitude contradict each other")
        made.used_counts[:] = counts
        return made

    @property
    def width(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def total(self) -> int:
        """How many numbers were counted."""
        return int(self.counts.sum())

    @property
    def used_counts(self) -> Array:
        """The counts up to the bin of the largest magnitude."""
        return self.counts[: int(self.largest / self.width) + 1]

    def add(self, numbers: Array) -> None:
        """Count float32 numbers of any shape. They must be finite."""
        if not numbers.size:
            return
        magnitudes = np.abs(numbers).ravel()
        self._cover(float(magnitudes.max()))
        bins = (magnitudes * np.float32(1 / self.width)).astype(np.int32)
        self.counts += np.bincount(bins, minlength=BINS)

    def merge(self, other: Histogram) -> None:
        """Also count what the other histogram has counted."""
        self._cover(other.largest)
        self._widen(other.exponent)
        self.counts += _in_wider_bins(other.counts, self.exponent - other.exponent)

    def beyond(self, limit: float) -> int:
        """How many magnitudes are in bins that begin at the limit or above it."""
        return int(self.counts[math.ceil(limit / self.width) :].sum()) if limit < self.largest else 0

    def _cover(self, magnitude: float) -> None:
        """Widen the bins until the last one ends above the magnitude."""
        if not magnitude:
            return
        self.largest = max(self.largest, magnitude)
        self._widen(math.frexp(magnitude)[1] - BINS.bit_length() + 1)

    def _widen(self, exponent: int) -> None:
        """Make the bins at least as wide as two to this power."""
        if exponent > self.exponent:
            self.counts = _in_wider_bins(self.counts, exponent - self.exponent)
            self.exponent = exponent


def _in_wider_bins(counts: Array, doublings: int) -> Array:
    """The same counts in bins that are wider by this power of two."""
    joined = 1 << min(doublings, BINS.bit_length())
    wide = _empty()
    narrow = counts if joined <= BINS else np.pad(counts, (0, joined - BINS))
    sums = narrow.reshape(-1, joined).sum(axis=1)
    wide[: len(sums)] = sums
    return wide

"""How the numbers of an array are distributed, in a few figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array

BINS = 24
_MOST_COUNTED = 1 << 18


@dataclass(frozen=True, slots=True)
class Distribution:
    """``low`` and ``high`` are the smallest and the largest finite number, ``counts`` are those of equal bins between.

    In a large array, only each ``step``-th number is counted; its range is exact all the same.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    step: int


def statistics_of(array: Array) -> Distribution | None:
    """The figures of an array of any shape; None if it holds no finite number."""
    flat = np.require(array, requirements=["ALIGNED"]).reshape(-1)
    low, high = _range(flat)
    if not np.isfinite([low, high]).all():
        flat = flat[np.isfinite(flat)]
        low, high = _range(flat)
    if not flat.size:
        return None
    step = -(-flat.size // _MOST_COUNTED)
    share = (flat[::step].astype(np.float64) - low) / ((high - low) or 1)
    counts = np.bincount(np.minimum(share * BINS, BINS - 1).astype(int), minlength=BINS)
    return Distribution(low, high, tuple(map(int, counts)), step)


def statistics_of_counts(counts: Sequence[int], width: float) -> Distribution | None:
    """The figures of magnitudes, of which ``counts[k]`` are in the bin from ``k * width``; None if there are none."""
    last = max((place for place, count in enumerate(counts) if count), default=-1)
    if last < 0:
        return None
    places = np.minimum(np.arange(last + 1) * BINS // (last + 1), BINS - 1)
    grouped = np.bincount(places, weights=counts[: last + 1], minlength=BINS)
    return Distribution(0.0, (last + 1) * width, tuple(map(int, grouped)), 1)


def _range(flat: Array) -> tuple[float, float]:
    return (float(flat.min()), float(flat.max())) if flat.size else (np.nan, np.nan)

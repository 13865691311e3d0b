"""Counts of magnitudes that stream by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.converter.checking.calibration.histogram import BINS, Histogram

NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=40)


def counted(*parts: Any) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(np.asarray(part, np.float32))
    return histogram


def same(one: Histogram, other: Histogram) -> bool:
    return (one.exponent, one.largest, one.counts.tolist()) == (
        other.exponent,
        other.largest,
        other.counts.tolist(),
    )


def test_magnitudes_fall_into_bins_of_a_power_of_two() -> None:
    histogram = counted([0, -1.5, 1.5, 3.999])
    assert histogram.width == 4 / BINS
    assert histogram.largest == pytest.approx(3.999)
    bins = np.flatnonzero(histogram.counts)
    np.testing.assert_array_equal(bins * histogram.width, [0, 1.5, 3.998046875])
    assert histogram.counts[bins].tolist() == [1, 2, 1]
    assert histogram.total == 4


def test_bins_are_joined_when_a_larger_magnitude_comes() -> None:
    histogram = counted([0.25, 0.75], [1000])
    assert histogram.width == 1024 / BINS
    assert (histogram.counts[1], histogram.counts[3]) == (1, 1)


@given(parts=st.lists(NUMBERS, min_size=1, max_size=4), seed=st.randoms())
def test_counts_do_not_depend_on_the_order(parts: list[list[float]], seed: object) -> None:
    shuffled = sorted(parts, key=lambda part: seed.random())  # type: ignore[attr-defined]  # random.Random
    whole = counted([number for part in parts for number in part])
    assert same(counted(*parts), counted(*shuffled))
    assert same(counted(*parts), whole)


@given(one=NUMBERS, other=NUMBERS)
def test_merging_counts_what_both_have_counted(one: list[float], other: list[float]) -> None:
    merged = counted(one)
    merged.merge(counted(other))
    assert same(merged, counted(one, other))


@given(numbers=NUMBERS)
def test_a_histogram_that_was_written_down_is_the_same(numbers: list[float]) -> None:
    histogram = counted(numbers)
    assert same(Histogram.of(histogram.used_counts.tolist(), histogram.width, histogram.largest), histogram)


@given(numbers=NUMBERS, limit=st.floats(0, 2, width=32))
def test_every_number_is_counted_in_the_bin_that_holds_it(numbers: list[float], limit: float) -> None:
    histogram = counted(numbers)
    edge = histogram.width * int(limit * BINS)
    beyond = sum(abs(float(np.float32(number))) >= edge for number in numbers)
    assert histogram.total == len(numbers)
    assert histogram.beyond(edge) == (beyond if edge < histogram.largest else 0)


def test_the_smallest_and_the_largest_float32_have_bins() -> None:
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    assert counted([tiny]).counts[0] == 1
    assert counted([tiny, huge]).counts[[0, -1]].tolist() == [1, 1]


def test_no_numbers_are_no_counts() -> None:
    assert same(counted([]), Histogram())

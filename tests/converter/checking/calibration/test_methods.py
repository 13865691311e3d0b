"""From histograms to ranges, compared with other implementations: NumPy's, and onnxruntime's calibrators."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.converter.checking.calibration.histogram import Histogram
from prototrt.converter.checking.calibration.methods import LEVELS, Method
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import failure

RANDOM = np.random.default_rng(16)
COUNT = 100_000
DATA: dict[str, Array] = {
    "normal": RANDOM.normal(size=COUNT),
    "relu": np.maximum(RANDOM.normal(size=COUNT), 0),
    "laplace": RANDOM.laplace(size=COUNT),
    "heavy tails": RANDOM.standard_t(3, size=COUNT),
    "uniform": RANDOM.uniform(size=COUNT),
    "an outlier": np.append(RANDOM.normal(size=COUNT), 100),
}
DATA = {name: numbers.astype(np.float32) for name, numbers in DATA.items()}
METHODS = ("max", "percentile:99.99", "percentile:90", "mse", "entropy")
each_data = pytest.mark.parametrize("name", DATA)


def histogram_of(numbers: Any) -> Histogram:
    histogram = Histogram()
    histogram.add(np.asarray(numbers, np.float32))
    return histogram


def range_of(numbers: Any, method: str) -> float:
    return Method.of(method).range_of(histogram_of(numbers))


def by_onnxruntime(numbers: Array, method: str, bins: int, percentile: float = 99.99) -> tuple[float, float]:
    """The smallest and the largest number that its calibrator of this name represents."""
    calibrate: Any = import_module("onnxruntime.quantization.calibrate")

    symmetric = np.concatenate([numbers, -numbers])
    collector = calibrate.HistogramCollector(method, True, bins, 2 * LEVELS - 1, percentile, "same")
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"x": [symmetric]})
        low, high = collector.compute_collection_result()["x"][:2]
    return float(low), float(high)


@each_data
def test_max_is_the_largest_magnitude(name: str) -> None:
    assert range_of(DATA[name], "max") == np.abs(DATA[name]).max()


@each_data
@pytest.mark.parametrize("percentile", [50.0, 99.0, 99.9, 99.99, 100.0])
def test_percentiles_are_numpys_within_a_bin(name: str, percentile: float) -> None:
    width = histogram_of(DATA[name]).width
    expected = np.percentile(np.abs(DATA[name]), percentile)
    neighbour = np.sort(np.abs(DATA[name]))[min(int(COUNT * percentile / 100) + 1, COUNT - 1)]
    found = range_of(DATA[name], f"percentile:{percentile}")
    assert min(expected, neighbour) - width <= found <= max(expected, neighbour) + width


@each_data
def test_percentiles_are_onnxruntimes(name: str) -> None:
    """Where numbers are rare, it takes another one between the same neighbours."""
    magnitudes = np.abs(DATA[name])
    _, expected = by_onnxruntime(
        DATA[name], "percentile", 2 * len(histogram_of(magnitudes).used_counts), 99.9
    )
    beyond = (magnitudes > range_of(magnitudes, "percentile:99.9")).sum()
    assert beyond == pytest.approx((magnitudes > expected).sum(), abs=0.001 * COUNT * 0.05)


@each_data
def test_the_smallest_mean_square_of_errors_is_found(name: str) -> None:
    """Against all numbers, one by one, at ranges spread over the whole histogram."""

    def error(limit: float) -> float:
        step = limit / (LEVELS - 1)
        rounded = np.clip(np.rint(DATA[name] / step), 1 - LEVELS, LEVELS - 1) * step
        return float(np.square(rounded - DATA[name].astype(np.float64)).mean())

    found = range_of(DATA[name], "mse")
    others = np.linspace(0.1, 1, 40) * np.abs(DATA[name]).max()
    assert error(found) <= 1.02 * min(map(error, others))


@pytest.mark.parametrize("name", ["laplace", "heavy tails"])
def test_entropy_is_near_onnxruntimes(name: str) -> None:
    """Its levels, its rounding of bins to levels and its smoothing are others: it is near, not equal."""
    _, expected = by_onnxruntime(DATA[name], "entropy", 1537)
    largest = np.abs(DATA[name]).max()
    assert range_of(DATA[name], "entropy") / min(expected, largest) == pytest.approx(1, abs=0.3)


def test_entropy_ignores_an_outlier_and_max_does_not() -> None:
    assert range_of(DATA["an outlier"], "entropy") < 8
    assert range_of(DATA["an outlier"], "max") == 100


def test_entropy_does_not_clip_everything() -> None:
    """Below the smallest magnitude all levels are empty: nothing is left to diverge from."""
    pixels = RANDOM.integers(22, 241, 4000) / np.float32(255)
    assert range_of(pixels, "entropy") > 0.9


def test_zeros_of_a_relu_do_not_move_the_entropy() -> None:
    positive = DATA["relu"][DATA["relu"] > 0]
    assert range_of(np.append(positive, np.zeros(9 * COUNT)), "entropy") == range_of(positive, "entropy")


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(numbers=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=30))
def test_a_range_is_positive_and_at_most_the_largest_magnitude(method: str, numbers: list[float]) -> None:
    largest = float(np.abs(np.array(numbers, np.float32)).max())
    found = range_of(numbers, method)
    assert 0 < found <= largest or found == largest == 0


@pytest.mark.parametrize("method", METHODS)
def test_the_smallest_normal_number_is_a_range(method: str) -> None:
    smallest = float(np.finfo(np.float32).tiny)
    assert range_of([smallest], method) == smallest


@pytest.mark.parametrize("method", METHODS)
def test_zeros_have_no_range(method: str) -> None:
    assert range_of(np.zeros(10), method) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("percentile", "percentile:99.99"), ("percentile:99.9", "percentile:99.9"), ("mse", "mse")],
)
def test_a_method_is_named_as_it_is_given(text: str, expected: str) -> None:
    assert str(Method.of(text)) == expected


UNKNOWN = 'expected max, percentile:99.99, mse or entropy\n  fix: use method="percentile:99.99"'
NO_SHARE = 'expected a number above 0 and at most 100\n  fix: use method="percentile:99.99"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kl", f"method is 'kl', {UNKNOWN}"),
        ("max:5", f"method is 'max:5', {UNKNOWN}"),
        ("percentile:0", f"method=\"percentile\" is '0', {NO_SHARE}"),
        ("percentile:nan", f"method=\"percentile\" is 'nan', {NO_SHARE}"),
        ("percentile:100.1", f"method=\"percentile\" is '100.1', {NO_SHARE}"),
        ("percentile:", f"method=\"percentile\" is '', {NO_SHARE}"),
    ],
)
def test_what_is_no_method(text: str, message: str) -> None:
    assert failure(lambda: Method.of(text), OptionsError) == message


@pytest.mark.parametrize("method", METHODS)
def test_numbers_close_to_zero_are_in_few_bins(method: str) -> None:
    """Fewer than int8 has levels: no bin is narrower than a float32 can say."""
    histogram = histogram_of(np.arange(4) * 1e-36)
    assert 1 < len(histogram.used_counts) < LEVELS
    assert 0 < Method.of(method).range_of(histogram) <= histogram.largest

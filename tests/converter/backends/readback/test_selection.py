"""What ONNX does not reach of layers that move elements or choose some, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.tests.converter.backends.readback.support import (
    ITensor,
    Layer,
    Network,
    add_constant,
    floats,
    run_layer,
    trt,
)
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt

ROW = floats([[10, 20, 30, 40]])


@pytest.mark.parametrize(
    ("mode", "start", "size", "stride", "expected"),
    [
        ("STRICT_BOUNDS", 1, 2, 2, [20, 40]),
        ("STRICT_BOUNDS", 3, 4, -1, [40, 30, 20, 10]),
        ("STRICT_BOUNDS", 2, 3, 0, [30, 30, 30]),
        ("STRICT_BOUNDS", 4, 0, 1, []),
        ("WRAP", -1, 7, 1, [40, 10, 20, 30, 40, 10, 20]),
        ("WRAP", 1, 3, -2, [20, 40, 20]),
        ("FILL", -1, 6, 1, [0, 10, 20, 30, 40, 0]),
        ("FILL", 5, 3, -3, [0, 30, 0]),
    ],
)
def test_slice(mode: str, start: int, size: int, stride: int, expected: list[float]) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_slice(x, (0, start), (1, size), (1, stride))
        layer.mode = getattr(trt.SampleMode, mode)
        return layer

    (y,) = run_layer(add, ROW)
    np.testing.assert_array_equal(y, floats(expected).reshape(1, size))


def test_slice_with_everything_as_input() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_slice(x, (0, 0), (1, 1), (1, 1))
        layer.mode = trt.SampleMode.FILL
        for i, value in enumerate([(0, 3), (1, 3), (1, -2)], 1):
            layer.set_input(i, add_constant(network, value))
        layer.set_input(4, add_constant(network, 7, np.float32))
        return layer

    (y,) = run_layer(add, ROW)
    np.testing.assert_array_equal(y, [[40, 20, 7]])


@pytest.mark.parametrize(
    ("first", "reshape", "second", "zero_copies", "expected_shape"),
    [
        ((1, 2, 0), None, None, True, (3, 4, 2)),
        (None, (0, -1), None, True, (2, 12)),
        ((2, 0, 1), (0, -1), None, True, (4, 6)),
        ((2, 0, 1), (0, 3, 2), (2, 0, 1), True, (2, 4, 3)),
        (None, (24, 1), (1, 0), False, (1, 24)),
    ],
)
def test_shuffle(
    first: Any, reshape: Any, second: Any, zero_copies: bool, expected_shape: tuple[int, ...]
) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_shuffle(x)
        layer.zero_is_placeholder = zero_copies
        if first:
            layer.first_transpose = first
        if reshape:
            layer.reshape_dims = reshape
        if second:
            layer.second_transpose = second
        return layer

    x = numbers(2, 3, 4)
    (y,) = run_layer(add, x)
    assert y.shape == expected_shape
    whole = {(0, -1): (-1, 12 if first is None else 6), (0, 3, 2): (4, 3, 2)}.get(reshape, reshape)
    expected = x.transpose(first or (0, 1, 2))
    expected = expected.reshape(whole) if whole else expected
    np.testing.assert_array_equal(y, expected.transpose(second) if second else expected)


def test_shuffle_to_a_scalar() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_shuffle(x)
        layer.reshape_dims = ()
        return layer

    (y,) = run_layer(add, floats([3]))
    assert y.shape == ()
    assert y == 3


def test_zero_is_a_length_when_it_is_no_placeholder() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_shuffle(x)
        layer.zero_is_placeholder = False
        layer.reshape_dims = (3, 0)
        return layer

    (y,) = run_layer(add, np.zeros((0, 2), np.float32))
    assert y.shape == (3, 0)


def test_gather_outside_reads_zero() -> None:
    def add(network: Network, x: ITensor, indices: ITensor) -> Layer:
        return network.add_gather(x, indices, 1)

    (y,) = run_layer(add, ROW, np.array([1, 4, -1, -5], np.int32))
    np.testing.assert_array_equal(y, [[20, 0, 40, 0]])

"""What ONNX does not reach of pooling and convolution, worked by hand: rounding up, padding, blending."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.converter.backends.readback.registry import Array
from prototrt.tests.converter.backends.readback.support import (
    ITensor,
    Layer,
    Network,
    assert_close,
    floats,
    run_layer,
    trt,
)

pytestmark = pytest.mark.trt


def column(*values: float) -> Array:
    """An image of one channel and one column."""
    return np.array(values, np.float32).reshape(1, 1, -1, 1)


# Windows over the elements 1 2 3 4 5.
@pytest.mark.parametrize(
    ("kind", "size", "stride", "padding", "up", "exclusive", "expected"),
    [
        ("MAX", 3, 2, (0, 0), False, True, [3, 5]),
        ("MAX", 2, 2, (0, 0), False, True, [2, 4]),
        ("MAX", 2, 2, (0, 0), True, True, [2, 4, 5]),
        ("MAX", 2, 2, (1, 0), False, True, [1, 3, 5]),
        ("AVERAGE", 2, 2, (0, 0), True, True, [1.5, 3.5, 5]),
        # What rounding up adds is not counted, whether padding is or not.
        ("AVERAGE", 2, 2, (0, 0), True, False, [1.5, 3.5, 5]),
        ("AVERAGE", 3, 2, (1, 1), False, True, [1.5, 3, 4.5]),
        ("AVERAGE", 3, 2, (1, 1), False, False, [1, 3, 3]),
        ("AVERAGE", 3, 2, (1, 0), True, True, [1.5, 3, 4.5]),
        ("AVERAGE", 3, 2, (1, 0), True, False, [1, 3, 4.5]),
        ("AVERAGE", 4, 3, (0, 1), True, False, [2.5, 3]),
    ],
)
def test_pooling(
    kind: str,
    size: int,
    stride: int,
    padding: tuple[int, int],
    up: bool,
    exclusive: bool,
    expected: list[float],
) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_pooling_nd(x, getattr(trt.PoolingType, kind), (size, 1))
        layer.stride_nd = (stride, 1)
        layer.pre_padding, layer.post_padding = ((pad, 0) for pad in padding)
        layer.padding_mode = trt.PaddingMode.EXPLICIT_ROUND_UP if up else trt.PaddingMode.EXPLICIT_ROUND_DOWN
        layer.average_count_excludes_padding = exclusive
        return layer

    (y,) = run_layer(add, column(1, 2, 3, 4, 5))
    assert_close(y.ravel(), expected)


def test_blended_pooling() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_pooling_nd(x, trt.PoolingType.MAX_AVERAGE_BLEND, (2, 1))
        layer.blend_factor = 0.25
        return layer

    (y,) = run_layer(add, column(1, 3, 7))
    assert_close(y.ravel(), [0.75 * 3 + 0.25 * 2, 0.75 * 7 + 0.25 * 5])


def test_convolution_rounded_up() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_convolution_nd(x, 1, (2, 1), floats([10, 1]), trt.Weights())
        layer.stride_nd = (2, 1)
        layer.padding_mode = trt.PaddingMode.EXPLICIT_ROUND_UP
        return layer

    (y,) = run_layer(add, column(1, 2, 3))
    np.testing.assert_array_equal(y.ravel(), [12, 30])


@pytest.mark.parametrize(
    ("mode", "expected"), [("SAME_UPPER", [10, 1, 20, 2]), ("SAME_LOWER", [1, 20, 2, 0])]
)
def test_deconvolution_to_the_same_size(mode: str, expected: list[float]) -> None:
    """[1, 2] through the kernel (10, 1, 0) in steps of 2 is 10 1 20 2 0; one element too many."""

    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_deconvolution_nd(x, 1, (3, 1), floats([10, 1, 0]), trt.Weights())
        layer.stride_nd = (2, 1)
        layer.padding_mode = getattr(trt.PaddingMode, mode)
        return layer

    (y,) = run_layer(add, column(1, 2))
    np.testing.assert_array_equal(y.ravel(), expected)

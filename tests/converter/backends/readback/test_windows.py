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
    run_layer,
    trt,
)

pytestmark = pytest.mark.trt


def column(*values: float) -> Array:
    """An image of one channel and one column."""
    return np.array(values, np.float32).reshape(1, 1, -1, 1)


# Windows over the elements 1 2 3 4 5.
@pytest.mark.parametrize(
    ("kind", "size", "padding", "exclusive", "expected"),
    [
        ("MAX", 3, (0, 0), True, [3, 5]),
        ("MAX", 2, (0, 0), True, [2, 4]),
        ("MAX", 2, (1, 0), True, [1, 3, 5]),
        ("AVERAGE", 3, (1, 1), True, [1.5, 3, 4.5]),
        ("AVERAGE", 3, (1, 1), False, [1, 3, 3]),
    ],
)
def test_pooling(
    kind: str, size: int, padding: tuple[int, int], exclusive: bool, expected: list[float]
) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_pooling_nd(x, getattr(trt.PoolingType, kind), (size, 1))
        layer.stride_nd = (2, 1)
        layer.pre_padding, layer.post_padding = ((pad, 0) for pad in padding)
        layer.padding_mode = trt.PaddingMode.EXPLICIT_ROUND_DOWN
        layer.average_count_excludes_padding = exclusive
        return layer

    (y,) = run_layer(add, column(1, 2, 3, 4, 5))
    assert_close(y.ravel(), expected)

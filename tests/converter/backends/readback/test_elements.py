"""What ONNX does not reach of layers that keep the shape, worked by hand: scales, norms, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prototrt.converter.backends.readback import activation, elementwise
from prototrt.converter.backends.readback.registry import OPEN_FOR_NAN, Array
from prototrt.tests.converter.backends.readback.support import (
    ITensor,
    Layer,
    Network,
    add_constant,
    add_input,
    assert_close,
    evaluate,
    floats,
    mark_output,
    new_network,
    run_layer,
    trt,
)

pytestmark = pytest.mark.trt


@pytest.mark.parametrize(
    ("axis", "factor", "expected"),
    [(1, [1, 2, 3], [[2, 5, 10], [5, 11, 19]]), (0, [1, 2], [[2, 3, 4], [9, 11, 13]])],
)
def test_scale(axis: int, factor: list[float], expected: list[list[float]]) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        scale, ones = floats(factor), np.ones(len(factor), np.float32)
        return network.add_scale_nd(x, trt.ScaleMode.CHANNEL, ones, scale, trt.Weights(), axis)

    (y,) = run_layer(add, floats([[1, 2, 3], [4, 5, 6]]))
    np.testing.assert_array_equal(y, expected)


def test_scale_of_half_with_typed_empty_weights() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        factor, shift = np.array([3, 2], np.float16), np.array([0, 1], np.float16)
        return network.add_scale_nd(x, trt.ScaleMode.CHANNEL, shift, factor, trt.Weights(trt.float16), 1)

    (y,) = run_layer(add, np.array([[1, 2]], np.float16))
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, [[3, 5]])


@pytest.mark.parametrize(
    ("kind", "alpha", "beta", "expected"),
    [
        ("SCALED_TANH", 1.7, 0.5, [1.7 * np.tanh(-1.0), 0, 1.7 * np.tanh(0.5)]),
        ("HARD_SIGMOID", 0.25, 0.75, [0.25, 0.75, 1]),
    ],
)
def test_activation(kind: str, alpha: float, beta: float, expected: Any) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_activation(x, getattr(trt.ActivationType, kind))
        layer.alpha, layer.beta = alpha, beta
        return layer

    (y,) = run_layer(add, floats([-2, 0, 1]))
    assert_close(y, expected)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("FLOOR_DIV", [3, -4, -4, 3]), ("DIV", [3, -3, -3, 3]), ("SUB", [5, -9, 9, -5])],
)
def test_integer_elementwise(operation: str, expected: list[int]) -> None:
    def add(network: Network, a: ITensor, b: ITensor) -> Layer:
        return network.add_elementwise(a, b, getattr(trt.ElementWiseOperation, operation))

    (y,) = run_layer(add, np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32))
    np.testing.assert_array_equal(y, expected)


def test_lrn_example_of_the_operator_page() -> None:
    """Five channels 0 to 4, window 3, alpha 1, beta 1, k 0.1: the middle is 2 / (0.1 + (1 + 4 + 9) / 3)."""

    def add(network: Network, x: ITensor) -> Layer:
        return network.add_lrn(x, 3, 1.0, 1.0, 0.1)

    (y,) = run_layer(add, np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1))
    sums = [1, 5, 14, 29, 25]
    assert_close(y.ravel(), [c / (0.1 + s / 3) for c, s in enumerate(sums)])


def test_quantize_ties_clamps_and_channels() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        scale = add_constant(network, [1, 2], np.float32)
        quantized = network.add_quantize(x, scale, trt.int8)
        quantized.axis = 0
        back = network.add_dequantize(quantized.get_output(0), scale, trt.float32)
        back.axis = 0
        return back

    (y,) = run_layer(add, floats([[0.5, 1.5, 2.5, 200], [1, 3, 5, -400]]))
    np.testing.assert_array_equal(y, [[0, 2, 2, 127], [0, 4, 4, -256]])


def test_half_rounds_after_each_layer() -> None:
    """2048 + 1 is not a half number, so adding 1 twice changes nothing: in float32 it would give 2050."""
    network = new_network()
    x = np.array([2048], np.float16)
    one = add_constant(network, [1], np.float16)
    total = add_input(network, "x", x)
    for _ in range(2):
        total = network.add_elementwise(total, one, trt.ElementWiseOperation.SUM).get_output(0)
    mark_output(network, total, "y")
    y = evaluate(network, x=x)["y"]
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1 + 2**-8, 1),  # halfway between 1 and 1 + 2^-7: to even, downwards
        (1 + 3 * 2**-8, 1 + 2**-6),  # to even, upwards
        (1 + 2**-8 + 2**-20, 1 + 2**-7),
        (-3.0, -3.0),
        (np.inf, np.inf),
        (np.nan, np.nan),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value: float, expected: float) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        return network.add_cast(x, trt.bfloat16)

    (y,) = run_layer(add, floats([value]))
    np.testing.assert_array_equal(y, floats([expected]))


NAN, HALF, MORE = floats([np.nan]), floats([0.5]), 1.5
ANSWERS: dict[str, tuple[Callable[..., Array], tuple[Any, ...]]] = {
    **{f"ACTIVATION {kind}": (formula, (NAN, 0.5, MORE)) for kind, formula in activation._FORMULAS.items()},
    **{f"UNARY {kind}": (function, (NAN,)) for kind, function in elementwise._UNARY.items()},
    **{f"ELEMENTWISE {kind}": (function, (NAN, HALF)) for kind, function in elementwise._BINARY.items()},
}
"""Each function, and operands with one NaN."""


@pytest.mark.parametrize(("function", "operands"), ANSWERS.values(), ids=ANSWERS)
def test_what_makes_a_number_of_nan_is_marked(
    function: Callable[..., Array], operands: tuple[Any, ...]
) -> None:
    """NVIDIA does not document it, so agreement proves nothing there."""
    with np.errstate(all="ignore"):
        result = function(*operands)
    makes_a_number = result.dtype.kind == "f" and not np.isnan(result).any()
    assert makes_a_number == (function in OPEN_FOR_NAN)

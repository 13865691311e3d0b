"""Layers and modes that ONNX does not reach, against results worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.converter.network.registry import Array
from prototrt.tests.converter.network.support import (
    ITensor,
    Layer,
    Network,
    add_constant,
    add_input,
    assert_close,
    evaluate,
    mark_output,
    new_network,
    run_layer,
    trt,
)
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt


def column(*values: float) -> Array:
    """An image of one channel and one column."""
    return np.array(values, np.float32).reshape(1, 1, -1, 1)


def floats(values: Any) -> Array:
    return np.array(values, np.float32)


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


@pytest.mark.parametrize(
    ("mode", "axis", "factor", "expected"),
    [
        ("UNIFORM", 1, [2], [[3, 5, 7], [9, 11, 13]]),
        ("CHANNEL", 1, [1, 2, 3], [[2, 5, 10], [5, 11, 19]]),
        ("CHANNEL", 0, [1, 2], [[2, 3, 4], [9, 11, 13]]),
        ("ELEMENTWISE", 1, [1, 2, 3], [[2, 5, 10], [5, 11, 19]]),
        ("ELEMENTWISE", 0, [1, 2, 3, 4, 5, 6], [[2, 5, 10], [17, 26, 37]]),
    ],
)
def test_scale(mode: str, axis: int, factor: list[float], expected: list[list[float]]) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        scale, ones = floats(factor), np.ones(len(factor), np.float32)
        return network.add_scale_nd(x, getattr(trt.ScaleMode, mode), ones, scale, trt.Weights(), axis)

    (y,) = run_layer(add, floats([[1, 2, 3], [4, 5, 6]]))
    np.testing.assert_array_equal(y, expected)


def test_scale_power_comes_last() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        shift, factor, power = floats([1]), floats([2]), floats([3])
        return network.add_scale_nd(x, trt.ScaleMode.UNIFORM, shift, factor, power, 0)

    (y,) = run_layer(add, floats([[1, 2]]))
    np.testing.assert_array_equal(y, [[27, 125]])


def test_scale_of_half_with_typed_empty_weights() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        empty = trt.Weights(trt.float16)
        return network.add_scale_nd(x, trt.ScaleMode.UNIFORM, empty, np.array([3], np.float16), empty, 0)

    (y,) = run_layer(add, np.array([[1, 2]], np.float16))
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, [[3, 6]])


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
        ("CLAMP", -2, 8, 1, [10, 10, 10, 20, 30, 40, 40, 40]),
        ("REFLECT", -4, 12, 1, [30, 40, 30, 20, 10, 20, 30, 40, 30, 20, 10, 20]),
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


def test_slice_of_named_axes() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_slice(x, (1,), (2,), (2,))
        layer.axes = (1,)
        return layer

    (y,) = run_layer(add, np.vstack([ROW, -ROW]))
    np.testing.assert_array_equal(y, [[20, 40], [-20, -40]])


def test_padding_adds_and_cuts() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        return network.add_padding_nd(x, (1, -1), (-1, 2))

    (y,) = run_layer(add, floats([[[[1, 2, 3], [4, 5, 6]]]]))
    np.testing.assert_array_equal(y, [[[[0, 0, 0, 0], [2, 3, 0, 0]]]])


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


@pytest.mark.parametrize("rows", [1, 2])
def test_gather_elementwise_along_the_batch(rows: int) -> None:
    def add(network: Network, x: ITensor, indices: ITensor) -> Layer:
        layer = network.add_gather(x, indices, 1)
        layer.num_elementwise_dims = 1
        return layer

    x = np.vstack([ROW, -ROW])[:rows]
    (y,) = run_layer(add, x, np.array([[3, 0], [1, 1]], np.int32))
    np.testing.assert_array_equal(y, [[40, 10], [20, 20] if rows == 1 else [-20, -20]])


def test_gather_elementwise_from_a_dynamic_batch() -> None:
    """The gathered axis has a known length, so that a negative index means something."""
    network = new_network()
    x, indices = np.vstack([ROW, -ROW]), np.array([[-1], [0]], np.int32)
    layer = network.add_gather(add_input(network, "x", x, (-1, 4)), add_input(network, "i", indices), 1)
    layer.num_elementwise_dims = 1
    mark_output(network, layer.get_output(0), "y")
    np.testing.assert_array_equal(evaluate(network, x=x, i=indices)["y"], [[40], [-10]])


def test_non_zero_lists_coordinates_in_rows() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        return network.add_non_zero(x)

    (y,) = run_layer(add, floats([[1, 0, 2], [0, 0, 3]]))
    np.testing.assert_array_equal(y, [[0, 0, 1], [0, 2, 2]])


@pytest.mark.parametrize(
    ("op0", "op1", "shapes", "equation"),
    [
        ("NONE", "TRANSPOSE", [(2, 3), (4, 3)], "ik,jk->ij"),
        ("TRANSPOSE", "NONE", [(5, 3, 2), (5, 3, 4)], "bki,bkj->bij"),
        ("VECTOR", "NONE", [(5, 3), (5, 3, 4)], "bk,bkj->bj"),
        ("NONE", "VECTOR", [(5, 2, 3), (5, 3)], "bik,bk->bi"),
        ("VECTOR", "TRANSPOSE", [(5, 3), (5, 4, 3)], "bk,bjk->bj"),
        ("VECTOR", "VECTOR", [(5, 3), (5, 3)], "bk,bk->b"),
    ],
)
def test_matrix_multiply(op0: str, op1: str, shapes: list[tuple[int, ...]], equation: str) -> None:
    def add(network: Network, a: ITensor, b: ITensor) -> Layer:
        ops = (getattr(trt.MatrixOperation, op) for op in (op0, op1))
        return network.add_matrix_multiply(a, next(ops), b, next(ops))

    a, b = numbers(*shapes[0], seed=1), numbers(*shapes[1], seed=2)
    (y,) = run_layer(add, a, b)
    assert_close(y, np.einsum(equation, a, b))


@pytest.mark.parametrize(
    ("dtype", "alpha", "beta", "expected"),
    [("float32", 1.5, 0.25, [1.5, 1.75, 2.0]), ("int32", 7, -2, [7, 5, 3]), ("int64", 4, 0, [4, 4, 4])],
)
def test_fill(dtype: str, alpha: float, beta: float, expected: list[float]) -> None:
    def add(network: Network) -> Layer:
        layer = network.add_fill((3,), trt.FillOperation.LINSPACE, getattr(trt, dtype))
        layer.alpha, layer.beta = alpha, beta
        return layer

    (y,) = run_layer(add)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, expected)


def test_fill_with_everything_as_input() -> None:
    def add(network: Network) -> Layer:
        layer = network.add_fill((1, 1), trt.FillOperation.LINSPACE, trt.int32)
        for i, value in enumerate([(2, 3), 5, (10, 1)]):
            layer.set_input(i, add_constant(network, value))
        return layer

    (y,) = run_layer(add)
    np.testing.assert_array_equal(y, [[5, 6, 7], [15, 16, 17]])


@pytest.mark.parametrize("version", ["", "_v2"])
def test_normalization_by_groups(version: str) -> None:
    """Two groups of two channels. The first form of the layer has one scale for each group."""
    x = numbers(2, 4, 3, 3)
    size = 4 if version else 2
    scale = floats(range(1, size + 1)).reshape(1, -1, 1, 1)
    bias = floats(range(0, 10 * size, 10)).reshape(1, -1, 1, 1)

    def add(network: Network, x: ITensor, scale: ITensor, bias: ITensor) -> Layer:
        layer = getattr(network, f"add_normalization{version}")(x, scale, bias, 0b1100)
        layer.num_groups, layer.epsilon = 2, 0.5
        return layer

    (y,) = run_layer(add, x, scale, bias)
    for n in range(2):
        for c in range(4):
            group = x[n, c // 2 * 2 : c // 2 * 2 + 2]
            k = c if version else c // 2
            expected = (x[n, c] - group.mean()) / np.sqrt(group.var() + 0.5) * (k + 1) + k * 10
            assert_close(y[n, c], expected)


def test_lrn_example_of_the_operator_page() -> None:
    """Five channels 0 to 4, window 3, alpha 1, beta 1, k 0.1: the middle is 2 / (0.1 + (1 + 4 + 9) / 3)."""

    def add(network: Network, x: ITensor) -> Layer:
        return network.add_lrn(x, 3, 1.0, 1.0, 0.1)

    (y,) = run_layer(add, np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1))
    sums = [1, 5, 14, 29, 25]
    assert_close(y.ravel(), [c / (0.1 + s / 3) for c, s in enumerate(sums)])


def test_ragged_softmax() -> None:
    def add(network: Network, x: ITensor, bounds: ITensor) -> Layer:
        return network.add_ragged_softmax(x, bounds)

    bounds = np.array([[[1], [3]]], np.int32)
    (y,) = run_layer(add, np.log(floats([[[2, 5, 7], [2, 3, 5]]])), bounds)
    assert_close(y, [[[1, 0, 0], [0.2, 0.3, 0.5]]])


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [1, 3, 6]),
        (True, False, [0, 1, 3]),
        (False, True, [6, 5, 3]),
        (True, True, [5, 3, 0]),
    ],
)
def test_cumulative(exclusive: bool, reverse: bool, expected: list[float]) -> None:
    def add(network: Network, x: ITensor) -> Layer:
        axis, operation = add_constant(network, 1), trt.CumulativeOperation.SUM
        return network.add_cumulative(x, axis, operation, exclusive, reverse)

    (y,) = run_layer(add, floats([[1, 2, 3]]))
    np.testing.assert_array_equal(y, [expected])


def test_topk_takes_k_from_a_tensor() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        layer = network.add_topk(x, trt.TopKOperation.MAX, 1, 0b10)
        layer.set_input(1, add_constant(network, 3))
        return layer

    values, indices = run_layer(add, floats([[1, 9, 4, 9]]))
    np.testing.assert_array_equal(values, [[9, 9, 4]])
    np.testing.assert_array_equal(indices, [[1, 3, 2]])
    assert indices.dtype == np.int32


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


@pytest.mark.parametrize(
    ("kind", "alpha", "beta", "expected"),
    [
        ("SCALED_TANH", 1.7, 0.5, [1.7 * np.tanh(-1.0), 0, 1.7 * np.tanh(0.5)]),
        ("THRESHOLDED_RELU", 0.5, 0, [0, 0, 1]),
        ("SOFTPLUS", 3, 2, 3 * np.log(np.exp([-4.0, 0, 2]) + 1)),
        ("SELU", 2, 3, [3 * (2 * np.exp(-2) - 2), 0, 3]),
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


def test_squeeze_without_axes_drops_every_one() -> None:
    def add(network: Network, x: ITensor) -> Layer:
        return network.add_squeeze(x)

    (y,) = run_layer(add, numbers(1, 3, 1))
    assert y.shape == (3,)


def test_half_rounds_after_each_layer() -> None:
    """2048 + 1 is not a half, so that adding 1 twice changes nothing: in float32 it would give 2050."""
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


def test_constant_weights_are_not_copied() -> None:
    weights = floats([1, 2, 3])
    network = new_network()
    tensor = network.add_identity(network.add_constant((3,), weights).get_output(0)).get_output(0)
    mark_output(network, tensor, "y")
    weights[0] = 5  # TensorRT sees this too: it references the array
    np.testing.assert_array_equal(evaluate(network)["y"], [5, 2, 3])

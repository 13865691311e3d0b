"""What ONNX does not reach of products and running sums, and of numbers that are made, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.tests.converter.readback.support import (
    ITensor,
    Layer,
    Network,
    add_constant,
    assert_close,
    evaluate,
    floats,
    mark_output,
    new_network,
    run_layer,
    trt,
)
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt


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


def test_constant_weights_are_not_copied() -> None:
    weights = floats([1, 2, 3])
    network = new_network()
    tensor = network.add_identity(network.add_constant((3,), weights).get_output(0)).get_output(0)
    mark_output(network, tensor, "y")
    weights[0] = 5  # TensorRT sees this too: it references the array
    np.testing.assert_array_equal(evaluate(network)["y"], [5, 2, 3])

"""What ONNX does not reach of products and running sums, and of numbers that are made, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.tests.converter.backends.readback.support import (
    ITensor,
    Layer,
    Network,
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
    ],
)
def test_matrix_multiply(op0: str, op1: str, shapes: list[tuple[int, ...]], equation: str) -> None:
    def add(network: Network, a: ITensor, b: ITensor) -> Layer:
        ops = (getattr(trt.MatrixOperation, op) for op in (op0, op1))
        return network.add_matrix_multiply(a, next(ops), b, next(ops))

    a, b = numbers(*shapes[0], seed=1), numbers(*shapes[1], seed=2)
    (y,) = run_layer(add, a, b)
    assert_close(y, np.einsum(equation, a, b))


def test_constant_weights_are_not_copied() -> None:
    weights = floats([1, 2, 3])
    network = new_network()
    tensor = network.add_identity(network.add_constant((3,), weights).get_output(0)).get_output(0)
    mark_output(network, tensor, "y")
    weights[0] = 5  # TensorRT sees this too: it references the array
    np.testing.assert_array_equal(evaluate(network)["y"], [5, 2, 3])

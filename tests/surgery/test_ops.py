"""Every primitive, with numbers worked by hand, on every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DataSize, DType, Op
from prototrt.surgery.ops import (
    ADD,
    CEIL,
    COS,
    ELU,
    ERF,
    FLOOR,
    LRN,
    SIGN,
    SIN,
    Affine,
    AveragePool,
    Cast,
    Clip,
    Compress,
    Concat,
    Convolution,
    Deconvolution,
    Dequantize,
    Gather,
    HardSigmoid,
    Identity,
    LeakyReLU,
    MatMul,
    MaxPool,
    MaxPoolIndex,
    NonMaxSuppression,
    Pad,
    Patches,
    Power,
    PReLU,
    Quantize,
    Reduce,
    ReduceKind,
    Reshape,
    Resize,
    Reverse,
    ReverseSequence,
    Scan,
    Scatter,
    Select,
    Sigmoid,
    Slice,
    Softmax,
    Softsign,
    StochasticPool,
    TanH,
    Tile,
    TopK,
    Transpose,
)
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.converter.test_families import PRIMITIVES
from prototrt.tests.small_nets import WAYS, float32, has_engine


def name_of(part: object) -> str:
    return str(part) if isinstance(part, Op) and not isinstance(part, Scan) else ""


def running_sum(*, reverse: bool) -> Scan:
    """Over rows (1,): the sum of all rows, and the sums up to each row."""
    body = Builder().body()
    total = body.add(ADD, body.body_input("state", (1,)), body.body_input("row", (1,)))
    return Scan(body.graph("", [total, total]), 1, 1, reverse)


CASES: list[tuple[Op, list[Any], Any]] = [
    (Clip(-np.inf, 0.5), [[-np.inf, -2, 0.5, 3]], [-np.inf, -2, 0.5, 0.5]),
    (Clip(0.5, np.inf), [[-2, 0.5, 3, np.inf]], [0.5, 0.5, 3, np.inf]),
    (Clip(-np.inf, np.inf), [[-2, np.inf]], [-2, np.inf]),
    (HardSigmoid(), [[-9, -2.5, -1, 0, 2, 9]], [0, 0, 0.3, 0.5, 0.9, 1]),
    (HardSigmoid(alpha=-1, beta=0.25), [[-2, 0, 0.125, 2]], [1, 0.25, 0.125, 0]),
    (Softsign(), [[-3, -1, 0, 4]], [-0.75, -0.5, 0, 0.8]),
    (Power(0), [[-2, 0, 5]], [1, 1, 1]),
    (Power(-3), [[-2, 4, np.inf]], [-0.125, 1 / 64, 0]),
    (Power(np.inf), [[0.5, 2]], [0, np.inf]),
    (Reduce(ReduceKind.MEAN, (0,)), [[1, 2, 6]], [3]),
    (Reduce(ReduceKind.SUM, (0,), keep=False), [[1, 2, 6]], 9),
    (Reduce(ReduceKind.MAX, (0,)), [[1, 6, 2]], [6]),
    (Reduce(ReduceKind.MIN, (0,), keep=False), [[3, -1, 2]], -1),
    (CEIL, [[-1.5, 0.25, 2]], [-1, 1, 2]),
    (COS, [[0, np.pi / 3, np.pi]], [1, 0.5, -1]),
    (ERF, [[-0.5, 0, 1]], [-0.52049988, 0, 0.84270079]),
    (FLOOR, [[-1.5, 0.25, 2]], [-2, 0, 2]),
    (SIGN, [[-1.5, 0, 2]], [-1, 0, 1]),
    (SIN, [[0, np.pi / 6, -np.pi / 2]], [0, 0.5, -1]),
    # One axis, and one channel or two.
    (ELU(2), [[-np.inf, -np.log(2), 0, 3]], [-2, -1, 0, 3]),
    (LeakyReLU(0.25), [[-4, 0, 3]], [-1, 0, 3]),
    (PReLU(), [[[-4, 2], [-4, 2]], [[0.5], [0.25]]], [[-2, 2], [-1, 2]]),
    (Sigmoid(), [[-np.inf, 0, np.log(3)]], [0, 0.5, 0.75]),
    (TanH(), [[-np.inf, 0, np.log(3)]], [-1, 0, 0.8]),
    (ADD, [[[1, 2], [3, 4]], [[10], [20]]], [[11, 12], [23, 24]]),
    (Identity(), [[1, -2]], [1, -2]),
    (Cast(DType.FLOAT32), [np.array([True, False])], [1, 0]),
    (MatMul(), [[[1, 2, 3]], [[1, 0], [0, 1], [2, -1]]], [[7, -1]]),
    (MatMul(transpose_b=True), [[[1, 2, 3]], [[1, 0, 2], [0, 1, -1]]], [[7, -1]]),
    (Affine(), [[[[1, 2], [3, 4]]], [2, -1], [10, 0]], [[[12, 14], [-3, -4]]]),
    # (1, 3, 1, 1): the sums of squares of neighbours are 5, 14 and 13, and k + alpha / size * sum is 6, 15 and 14.
    (LRN(3, 3, 1, 1), [[[[[1]], [[2]], [[3]]]]], [[[[1 / 6]], [[2 / 15]], [[3 / 14]]]]),
    (LRN(1, 1, 0.5, 0), [[[[[3]], [[-2]]]]], [[[[1]], [[-1]]]]),
    (Softmax(0), [[[0, 1], [np.log(3), 1]]], [[0.25, 0.5], [0.75, 0.5]]),
    (Convolution((2,), (1,), (1,)), [[[[1, 2, 3]]], [[[1, 10]]], [100]], [[[110, 132]]]),
    (
        Convolution((1,), (0,), (2,), 2),
        [[[[1, 2, 3], [4, 5, 6]]], [[[1, 10]], [[1, 10]]], [0, 0.5]],
        [[[31], [64.5]]],
    ),
    (
        Deconvolution((2,), (0,), (1,)),
        [[[[1, 2]]], [[[1, 10, 100]]], [0.5]],
        [[[1.5, 10.5, 102.5, 20.5, 200.5]]],
    ),
    (Deconvolution((2,), (1,), (1,)), [[[[1, 2]]], [[[1, 10, 100]]], [0]], [[[10, 102, 20]]]),
    (Patches((2,), (1,), (1,), (1,)), [[[[1, 2]]]], [[[0, 1, 2], [1, 2, 0]]]),
    # A window of 2 x 2 that slides over 2 x 3, with a column of padding on the right.
    (MaxPool((2, 2), (1, 2), (0, 0), (0, 1)), [[[[[1, 5, -3], [2, 4, -7]]]]], [[[[5, -3]]]]),
    (MaxPoolIndex((2, 2), (1, 2), (0, 0), (0, 1)), [[[[[1, 5, -3], [2, 4, -7]]]]], [[[[1, 2]]]]),
    (AveragePool((2, 2), (1, 2), (0, 0), (0, 1)), [[[[[1, 5, -3], [2, 4, -7]]]]], [[[[3, -5]]]]),
    (StochasticPool((2, 2), (1, 2), (0, 0), (0, 1)), [[[[[1, 5, 3], [0, 4, 1]]]]], [[[[4.2, 2.5]]]]),
    (Resize(1, 5), [[[[[1, 3, 7]]]]], [[[[1, 2, 3, 5, 7]]]]),
    (Quantize(), [[0.5, 1.5, -1000, 63], 1], np.array([0, 2, -128, 63], np.int8)),
    (Dequantize(), [np.array([-128, 0, 3], np.int8), 0.5], [-64, 0, 1.5]),
    (TopK(0, 2), [[3, 9, 3, 1]], [[9, 3], np.array([1, 2], np.int32)]),
    (TopK(0, 2, first_of_equals=True), [[3, 9, 3, 1]], [[9, 3], np.array([1, 0], np.int32)]),
    (Select(), [np.array([True, False]), [1, 2], [3, 4]], [1, 4]),
    (Gather(), [[[1, 2], [3, 4]], np.array([1, 1, 0], np.int32)], [[3, 4], [3, 4], [1, 2]]),
    (Scatter(4), [[[5, 6]], np.array([[3, 1]], np.int32)], [[0, 6, 0, 5]]),
    (Reshape((2, 2)), [[1, 2, 3, 4]], [[1, 2], [3, 4]]),
    (Transpose((1, 0)), [[[1, 2, 3]]], [[1], [2], [3]]),
    (Slice(0, 1, 2), [[1, 2, 3, 4]], [2, 3]),
    (Concat(0), [[1, 2], [3]], [1, 2, 3]),
    (Reverse(0), [[1, 2, 3]], [3, 2, 1]),
    (ReverseSequence(), [[[1, 4], [2, 5], [3, 6]], np.array([2, 3], np.int32)], [[2, 6], [1, 5], [3, 4]]),
    (Tile(0, 2), [[1, 2]], [1, 2, 1, 2]),
    (Pad((1,), (-1,), 9), [[1, 2, 3]], [9, 1, 2]),
    (running_sum(reverse=False), [[10], [[1], [2], [3]]], [[16], [[11], [13], [16]]]),
    (running_sum(reverse=True), [[10], [[1], [2], [3]]], [[16], [[16], [15], [13]]]),
    # The second overlaps the first by 2/4, the third by none of them.
    (
        NonMaxSuppression(0.4),
        [[[[0, 0, 2, 2], [0, 1, 2, 2], [5, 5, 6, 6]]], np.array([[True, True, True]])],
        np.array([[True, False, True]]),
    ),
]
NOT_BUILT = (NonMaxSuppression,)
"""TensorRT for RTX has no layer for them."""
ELSEWHERE = {
    "Compress": "test_ops.py",
    "Count": "test_counting.py",
    "Plugin": "../plugins/test_user_plugin.py",
    "While": "test_repetition.py",
}
"""Primitives that do not run alone, or not on every way, and the tests of their numbers."""


def test_every_primitive_has_numbers() -> None:
    with_numbers = {type(op).__name__ for op, _, _ in CASES} | {*ELSEWHERE}
    assert [kind.__name__ for kind in PRIMITIVES if kind.__name__ not in with_numbers] == []
    for primitive, file in ELSEWHERE.items():
        assert f"{primitive}(" in (Path(__file__).parent / file).read_text()


def arrays(values: list[Any]) -> list[Array]:
    return [value if isinstance(value, np.ndarray) else float32(value) for value in values]


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("op", "operands", "expected"), CASES, ids=name_of)
def test_numbers(op: Op, operands: list[Any], expected: Any, on: Way) -> None:
    graph = graph_of(op, arrays(operands))
    feeds = {f"x{position}": array for position, array in enumerate(arrays(operands))}
    results = prototrt.Session(graph, on=on).run({value.name: feeds[value.name] for value in graph.inputs})
    wanted = arrays(expected if len(graph.outputs) > 1 else [expected])
    for value, numbers in zip(graph.outputs, wanted, strict=True):
        assert results[value.name].shape == numbers.shape
        np.testing.assert_allclose(results[value.name], numbers, rtol=1e-6)


def test_numbers_of_compress() -> None:
    """The reference alone runs it."""
    op = Compress(DataSize("kept"))
    (rows,) = op.evaluate(float32([[1, 2], [3, 4], [5, 6]]), float32([1, 0, -2]))
    np.testing.assert_array_equal(rows, [[1, 2], [5, 6]])


@pytest.mark.trt
@pytest.mark.parametrize(
    ("op", "operands"), [case[:2] for case in CASES if type(case[0]) not in NOT_BUILT], ids=name_of
)
def test_builds(op: Op, operands: list[Any]) -> None:
    assert has_engine(graph_of(op, arrays(operands)))

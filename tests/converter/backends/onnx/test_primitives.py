"""Primitives where ONNX's operators differ from ours, against their meaning in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.backends.onnx.evaluator import OnnxEvaluator
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph, Op
from prototrt.surgery.ops import (
    Affine,
    AveragePool,
    Clip,
    Convolution,
    Deconvolution,
    Dequantize,
    Gather,
    MaxPool,
    MaxPoolIndex,
    NonMaxSuppression,
    Pad,
    Patches,
    Power,
    Quantize,
    Reduce,
    ReduceKind,
    Resize,
    Reverse,
    ReverseSequence,
    Scatter,
    Select,
    Slice,
    StochasticPool,
    Tile,
    TopK,
)
from prototrt.tests.small_nets import float32, numbers

TIES = np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32)
LOWEST = np.full((1, 1, 4, 4), np.finfo(np.float32).min, np.float32)
WINDOW = {"window": (3, 2), "stride": (2, 2), "before": (1, 1), "after": (2, 0)}
CASES: dict[str, tuple[Op, list[Array]]] = {
    "bounds that cross": (Clip(2, 1), [numbers(2, 5)]),
    "one bound": (Clip(-np.inf, 0.5), [numbers(2, 5)]),
    "negative to a whole power": (Power(3), [numbers(2, 5)]),
    "negative to a negative power": (Power(-2), [numbers(2, 5)]),
    "the last of equals": (TopK(1, 1), [TIES]),
    "several of equals": (TopK(1, 3), [TIES]),
    "the first of equals": (TopK(1, 3, first_of_equals=True), [TIES]),
    "elements in other places": (
        Scatter(5),
        [numbers(2, 3), np.array([[4, 0, 2], [1, 3, 0]], np.int32)],
    ),
    "boxes that overlap": (
        NonMaxSuppression(0.5),
        [
            np.array([[[0, 0, 4, 4], [0, 1, 4, 4], [2, 2, 6, 6], [0, 0, 4, 4]]] * 2, np.float32),
            np.array([[True] * 4, [False, True, True, True]]),
        ],
    ),
    "largest along the first axis": (TopK(0, 2), [TIES]),
    "axes that vanish": (Reduce(ReduceKind.SUM, (0, 2), keep=False), [numbers(2, 3, 4)]),
    "axes that stay": (Reduce(ReduceKind.MEAN, (1,)), [numbers(2, 3, 4)]),
    "uneven padding, max": (MaxPool(**WINDOW), [numbers(2, 3, 6, 6)]),
    "uneven padding, average": (AveragePool(**WINDOW), [numbers(2, 3, 6, 6)]),
    "places in each plane": (MaxPoolIndex(**WINDOW), [numbers(2, 3, 6, 6)]),
    "places of equals": (MaxPoolIndex(**WINDOW), [np.ones((2, 3, 6, 6), np.float32)]),
    "no place": (MaxPoolIndex((2, 2), (2, 2), (0, 0), (0, 0)), [LOWEST]),
    "another size": (Resize(5, 9), [numbers(2, 3, 4, 5)]),
    "another size, of one pixel": (Resize(3, 1), [numbers(2, 3, 1, 4)]),
    "stochastic": (StochasticPool(**WINDOW), [numbers(2, 3, 6, 6)]),
    "patches": (Patches((3, 2), (2, 1), (1, 0), (1, 2)), [numbers(2, 3, 6, 7)]),
    "patches of one axis": (Patches((3,), (2,), (1,), (2,)), [numbers(2, 3, 9)]),
    "groups": (
        Deconvolution((2, 3), (1, 0), (1, 2), 2),
        [numbers(2, 4, 3, 3), numbers(4, 3, 3, 2), numbers(6)],
    ),
    "one axis": (Convolution((2,), (1,), (2,)), [numbers(2, 3, 9), numbers(4, 3, 3), numbers(4)]),
    "three axes": (
        Convolution((1, 2, 1), (1, 0, 1), (1, 1, 1)),
        [numbers(1, 2, 4, 5, 4), numbers(3, 2, 2, 2, 3), numbers(3)],
    ),
    "channels of three axes": (Affine(), [numbers(2, 3, 4), numbers(3), numbers(3, seed=1)]),
    "a value around": (Pad((0, 1), (2, 0), -1.5), [numbers(2, 3)]),
    "cut at one end": (Pad((0, -1), (2, 1), 3), [numbers(2, 3)]),
    "cut at both ends": (Pad((-1, 0), (-1, -2)), [numbers(4, 3)]),
    "all elements replaced": (Pad((0, 1), (0, -1), 3), [numbers(2, 1)]),
    "what is not chosen is not looked at": (Select(), [TIES > 2, TIES, np.full((1, 4), np.nan, np.float32)]),
    "copies": (Tile(0, 3), [numbers(2, 3)]),
    "back to front": (Reverse(1), [numbers(2, 3, 2)]),
    "back to front up to an end": (
        ReverseSequence(),
        [numbers(4, 3, 2), np.array([4, 0, 3], np.int32)],
    ),
    "to 8 bits": (Quantize(), [numbers(2, 3), float32(0.01)]),
    "to 8 bits, by channel": (Quantize(axis=1), [numbers(2, 3), float32([0.01, 0.02, 0.03])]),
    "from 8 bits": (Dequantize(), [np.arange(-3, 3, dtype=np.int8).reshape(2, 3), float32(0.1)]),
    "a part": (Slice(1, 1, 2), [numbers(2, 4)]),
}


def graph_of(op: Op, arrays: list[Array]) -> Graph:
    """A graph of one node, whose inputs x0, x1, ... are the arrays that need not be constant."""
    build = Builder()
    inputs = [
        build.constant(array)
        if position in op.constants
        else build.input(f"x{position}", array.shape, DType(array.dtype.name))
        for position, array in enumerate(arrays)
    ]
    return build.graph("", build.add_all(op, *inputs))


@pytest.mark.parametrize(("op", "arrays"), CASES.values(), ids=CASES)
def test_primitive(op: Op, arrays: list[Array]) -> None:
    graph = graph_of(op, arrays)
    feeds = {f"x{position}": array for position, array in enumerate(arrays)}
    results = OnnxEvaluator(graph).run(feeds)
    with np.errstate(all="ignore"):
        expected = op.evaluate(*arrays)
    for value, wanted in zip(graph.outputs, expected, strict=True):
        assert results[value.name].dtype == wanted.dtype
        np.testing.assert_allclose(results[value.name], wanted, rtol=1e-5, atol=1e-6)


def test_rows_that_a_table_has_not_are_told() -> None:
    build = Builder()
    table, index = build.input("table", (3, 2)), build.input("index", (1,), DType.INT32)
    evaluator = OnnxEvaluator(build.graph("", [build.add(Gather(), table, index)]))
    with pytest.raises(ConversionError, match=r"onnxruntime fails\n  because .*out of"):
        evaluator.run({"table": numbers(3, 2), "index": np.array([3], np.int32)})

"""ONNX nodes, brought into TensorRT by NVIDIA's own parser, compute what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.tests.converter.backends.readback.support import Case, assert_like_onnxruntime
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt


def integers(*values: Any) -> Any:
    return np.array(values, np.int64)


IMAGE = numbers(2, 4, 9, 7)
VOLUME = numbers(2, 4, 5, 6, 7)
POSITIVE = np.abs(numbers(3, 5)) + np.float32(0.1)
TIES = np.array([[3, 1, 3, 2, 3], [0, 0, 0, 0, 0]], np.float32)

CONVOLUTIONS = [
    Case("Conv", [IMAGE], [numbers(6, 4, 3, 3)], note="plain"),
    Case("Conv", [IMAGE], [numbers(6, 4, 3, 2), numbers(6)], {"strides": [2, 3]}, note="bias, strides"),
    Case("Conv", [IMAGE], [numbers(6, 2, 3, 3)], {"group": 2, "pads": [1, 1, 1, 1]}, note="groups"),
    Case("Conv", [IMAGE], [numbers(8, 1, 3, 3), numbers(8)], {"group": 4}, note="depthwise"),
    Case("Conv", [IMAGE], [numbers(5, 4, 3, 2)], {"dilations": [2, 3], "pads": [2, 0, 1, 3]}, note="dilated"),
    Case("Conv", [IMAGE, numbers(6, 4, 3, 3)], note="kernel is an input"),
    Case("Conv", [VOLUME], [numbers(6, 2, 3, 2, 3)], {"group": 2, "pads": [1, 0, 1, 0, 1, 1]}, note="3-D"),
    Case("ConvTranspose", [IMAGE], [numbers(4, 6, 3, 3)], note="plain"),
    Case(
        "ConvTranspose", [IMAGE], [numbers(4, 6, 3, 2), numbers(6)], {"strides": [3, 2]}, note="bias, strides"
    ),
    Case("ConvTranspose", [IMAGE], [numbers(4, 3, 4, 4)], {"group": 2, "pads": [1, 0, 2, 1]}, note="groups"),
    Case("ConvTranspose", [IMAGE], [numbers(4, 3, 3, 2)], {"dilations": [2, 3]}, note="dilated"),
    Case("ConvTranspose", [IMAGE], [numbers(4, 1, 4, 4)], {"group": 4, "strides": [2, 2]}, note="depthwise"),
    Case("ConvTranspose", [VOLUME], [numbers(4, 2, 2, 3, 2)], {"strides": [2, 1, 2]}, note="3-D"),
]

POOLINGS = [
    Case("MaxPool", [IMAGE], (), {"kernel_shape": [3, 2]}, note="plain"),
    Case("MaxPool", [IMAGE], (), {"kernel_shape": [3, 2], "pads": [2, 0, 1, 1]}, note="asymmetric"),
    Case("MaxPool", [VOLUME], (), {"kernel_shape": [3, 2, 2], "strides": [1, 2, 1]}, note="3-D"),
    Case("AveragePool", [IMAGE], (), {"kernel_shape": [3, 2], "strides": [2, 1]}, note="plain"),
    Case("AveragePool", [IMAGE], (), {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1]}, note="exclusive"),
    Case(
        "AveragePool",
        [IMAGE],
        (),
        {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1},
        note="inclusive",
    ),
    Case("AveragePool", [VOLUME], (), {"kernel_shape": [3, 2, 2], "pads": [1, 0, 1, 1, 1, 0]}, note="3-D"),
    Case("GlobalAveragePool", [IMAGE]),
    Case("GlobalMaxPool", [VOLUME]),
]

NORMALIZATIONS = [
    Case("LRN", [numbers(2, 7, 3, 3)], (), {"size": 3, "alpha": 1.5, "beta": 0.75, "bias": 0.3}),
    Case("LRN", [numbers(2, 4, 3, 3)], (), {"size": 5, "alpha": 0.5}, note="wider than the channels"),
    Case(
        "BatchNormalization",
        [IMAGE],
        [numbers(4, seed=1), numbers(4), numbers(4, seed=2), np.abs(numbers(4))],
    ),
    Case("Softmax", [IMAGE], (), {"axis": 1}, note="channels"),
    Case("Softmax", [IMAGE * 50], (), {"axis": -1}, note="far apart"),
    Case("LogSoftmax", [POSITIVE], (), {"axis": 0}),
]

PRODUCTS = [
    Case("MatMul", [numbers(3, 4), numbers(4, 5)]),
    Case("MatMul", [numbers(2, 1, 3, 4), numbers(1, 6, 4, 5)], note="stretched"),
    Case("Gemm", [numbers(4, 3), numbers(5, 4)], [numbers(5)], {"transA": 1, "transB": 1, "alpha": 0.5}),
]

RESIZES = [
    Case(
        "Resize",
        [numbers(1, 2, 4, 5)],
        [None, None, integers(1, 2, *size)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        note=f"{size}",
    )
    for size in [(9, 3), (8, 10), (1, 5)]
]

PICKS = [
    Case("TopK", [TIES], [integers(3)], outputs=2, note="largest"),
    Case("TopK", [IMAGE], [integers(2)], {"axis": 1}, outputs=2, note="channels"),
    Case("Gather", [IMAGE], [integers([1, -1], [0, 2])], {"axis": 1}),
    Case("Gather", [IMAGE, np.array(3, np.int64)], (), {"axis": 2}, note="scalar"),
    # No length of 0: onnxruntime up to 1.23 leaves numbers unwritten there.
    Case("ReverseSequence", [numbers(5, 3, 2)], [integers(5, 1, 3)], {"time_axis": 0, "batch_axis": 1}),
    Case(
        "ReverseSequence",
        [numbers(3, 5, 2)],
        [integers(2, 5, 1)],
        {"time_axis": 1, "batch_axis": 0},
        note="rows",
    ),
    Case("Where", [POSITIVE > 1, POSITIVE, numbers(1, 5)]),
]

SHAPES = [
    Case(
        "Slice", [IMAGE], [integers(1, 6), integers(4, 0), integers(1, 3), integers(1, -2)], note="backwards"
    ),
    Case("Slice", [IMAGE, integers(1, 2), integers(3, 9)], [integers(1, 2), integers(1, 3)], note="computed"),
    Case("Pad", [IMAGE], [integers(0, 1, 2, 0, 1, 0, 0, 3), np.array(7, np.float32)], note="constant"),
    Case("Tile", [numbers(2, 1, 3)], [integers(2, 3, 2)]),
    Case("Expand", [numbers(2, 1, 3)], [integers(2, 2, 4, 3)]),
    Case("Transpose", [IMAGE], (), {"perm": [2, 0, 3, 1]}),
    Case("Reshape", [IMAGE], [integers(0, -1, 7)]),
    Case("Reshape", [IMAGE, integers(8, 63)], note="computed"),
    Case("Flatten", [IMAGE], (), {"axis": 2}),
    Case("Concat", [IMAGE, IMAGE[:, :1]], (), {"axis": 1}),
    Case("Shape", [IMAGE]),
    Case("DepthToSpace", [IMAGE], (), {"blocksize": 2}),
]

UNARIES = [
    *(Case(name, [POSITIVE - 1]) for name in ["Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Neg"]),
    *(Case(name, [POSITIVE - 1]) for name in ["Sign", "Sin"]),
    *(Case(name, [POSITIVE]) for name in ["Log", "Reciprocal", "Sqrt"]),
    Case("Not", [POSITIVE > 1]),
    Case("Cast", [POSITIVE * 10 - 8], (), {"to": 6}, note="to int32"),
    Case("Cast", [POSITIVE - 1], (), {"to": 10}, note="to float16"),
    Case("Cast", [np.array([0, 0.5, -2], np.float32)], (), {"to": 9}, note="to bool"),
]

ACTIVATIONS = [
    *(Case(name, [IMAGE]) for name in ["Relu", "Sigmoid", "Tanh", "Softsign"]),
    Case("LeakyRelu", [IMAGE], (), {"alpha": 0.1}),
    Case("Elu", [IMAGE], (), {"alpha": 0.7}),
    Case("Clip", [IMAGE], [np.array(-0.5, np.float32), np.array(0.25, np.float32)]),
    Case("HardSigmoid", [IMAGE], (), {"alpha": 0.3, "beta": 0.6}),
    Case("PRelu", [IMAGE], [numbers(4, 1, 1)]),
]

INT_A = np.array([7, -7, 7, -7, 0, 9], np.int32)
INT_B = np.array([2, 2, -2, -2, 5, 3], np.int32)
ELEMENTWISES = [
    *(Case(name, [POSITIVE, numbers(1, 5)]) for name in ["Add", "Sub", "Mul", "Div", "Max", "Min"]),
    *(Case(name, [POSITIVE, POSITIVE[:1]]) for name in ["Greater", "Less", "Equal", "Pow"]),
    *(Case(name, [POSITIVE > 1, POSITIVE[:1] > 0.5]) for name in ["And", "Or"]),
    *(Case(name, [INT_A, INT_B], note="integers") for name in ["Add", "Sub", "Mul", "Div"]),
]

REDUCTIONS = [
    *(
        Case(name, [IMAGE], [integers(1, 3)])
        for name in ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"]
    ),
    Case("ReduceProd", [IMAGE], [integers(2)], {"keepdims": 0}),
    Case("ReduceSum", [IMAGE], [integers(0, 1, 2, 3)], {"keepdims": 0}, note="to a scalar"),
    Case("ReduceSumSquare", [IMAGE], [integers(-1)]),
]

SCALE = np.array(0.05, np.float32)
QUANTIZATIONS = [
    Case("QuantizeLinear", [numbers(4, 30) * 4], [SCALE, np.array(0, np.int8)], note="whole"),
    Case("DequantizeLinear", [np.arange(-128, 128, 5).astype(np.int8)], [SCALE], note="whole"),
]

CASES = [
    *CONVOLUTIONS,
    *POOLINGS,
    *NORMALIZATIONS,
    *PRODUCTS,
    *RESIZES,
    *PICKS,
    *SHAPES,
    *UNARIES,
    *ACTIVATIONS,
    *ELEMENTWISES,
    *REDUCTIONS,
    *QUANTIZATIONS,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_node(case: Case) -> None:
    assert_like_onnxruntime(case)

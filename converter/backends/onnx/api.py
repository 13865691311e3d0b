"""The one module that imports onnx and onnxruntime, which are an extra of the installation."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.installing import optional_module
from prototrt.surgery.ir import DType, Graph, walk

# onnx.TensorProto's numbers, as in the file.
ELEMENT_TYPES = {
    DType.FLOAT32: 1,
    DType.INT8: 3,
    DType.INT32: 6,
    DType.BOOL: 9,
    DType.FLOAT16: 10,
    DType.BFLOAT16: 16,
    DType.FLOAT8: 17,
}
_NUMPY_TYPES = {dtype.value: number for dtype, number in ELEMENT_TYPES.items()} | {"int64": 7}


_PLAIN = 17
FLOAT8_OPSET = 21
"""The first in which QuantizeLinear states its output type without a zero point.

onnxruntime 1.31 drops a ReLU before a QuantizeLinear that has a zero point of float8.
"""
_BFLOAT16 = 22
"""The first in which a Conv is of bfloat16."""


def default_opset(graph: Graph) -> int:
    """The opset of a model for which no other is asked."""
    dtypes = {value.dtype for node in walk(graph) for value in (*node.inputs, *node.outputs)}
    if DType.BFLOAT16 in dtypes:
        return _BFLOAT16
    return FLOAT8_OPSET if DType.FLOAT8 in dtypes else _PLAIN


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a NumPy type."""
    return _NUMPY_TYPES[dtype.name]


def import_package(name: str) -> ModuleType:
    """``onnx`` or ``onnxruntime``. Raises ``BuildError`` with the command that installs it."""
    return optional_module(name, "ONNX", "onnx")

"""The one module that imports onnx and onnxruntime, which are an extra of the installation."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import BuildError
from prototrt.surgery.ir import DType

OPSET = 17
IR_VERSION = 8
"""The file format that came with opset 17: what reads the one reads the other."""

# onnx.TensorProto's numbers, which are those of the file.
ELEMENT_TYPES = {DType.FLOAT32: 1, DType.INT32: 6, DType.BOOL: 9, DType.FLOAT16: 10}
_NUMPY_TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float16": 10}


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a NumPy type."""
    return _NUMPY_TYPES[dtype.name]


def imported(name: str) -> ModuleType:
    """``onnx`` or ``onnxruntime``, or ``BuildError`` that says how to install it."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise BuildError(
            f"ONNX needs the package {name.partition('.')[0]}, which cannot be imported: {error}",
            fix='pip install "prototrt[onnx]"',
        ) from error

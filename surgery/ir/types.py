"""The element types of values, and NumPy's types for them."""

from __future__ import annotations

import enum
import functools
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.installing import pip_install

Array: TypeAlias = npt.NDArray[Any]


class DType(enum.Enum):
    """Element types, by NumPy's names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8 = "float8_e4m3fn"
    INT8 = "int8"
    INT32 = "int32"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's type. Raises ``ConversionError`` if it is one of ml_dtypes, and that is not installed."""
        return _numpy(self)

    @staticmethod
    def of(dtype: np.dtype[Any]) -> DType:
        """The type that NumPy calls so. Raises ``ValueError`` for another one."""
        return _kind(dtype)


@functools.cache
def _kind(dtype: np.dtype[Any]) -> DType:
    return DType(dtype.name)


@functools.cache
def _numpy(kind: DType) -> np.dtype[Any]:
    name: Any = kind.value
    if kind in (DType.BFLOAT16, DType.FLOAT8):
        try:
            import ml_dtypes
        except ImportError as error:
            raise ConversionError(f"computing in {name} needs ml_dtypes", fix=pip_install("bf16")) from error
        name = getattr(ml_dtypes, name)
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Types to compute in."""
HALVES = (DType.FLOAT16, DType.BFLOAT16)
"""Types of 16 bits: primitives compute in float32 and round at the end, as matrix units do."""
EIGHT_BITS = (DType.INT8, DType.FLOAT8)
"""Types of quantized numbers, which only Quantize writes and which are worth a scale each."""

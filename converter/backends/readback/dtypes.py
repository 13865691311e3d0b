"""The element types of a network's tensors, and how their values are held in numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.readback.registry import Array, Shape

_HELD: dict[str, type[np.generic]] = {
    "FLOAT": np.float32,
    "HALF": np.float32,
    "BF16": np.float32,
    "FP8": np.float32,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}


@dataclass(frozen=True, slots=True)
class NetworkTensor:
    """The network's description of one of its tensors. A dynamic dimension is -1."""

    name: str
    dtype: str
    shape: Shape

    @classmethod
    def of(cls, tensor: Any, where: str) -> NetworkTensor:
        dtype = tensor.dtype.name
        if dtype not in _HELD:
            raise UnsupportedLayerError(
                f'tensor "{tensor.name}" has type {dtype}, which numpy cannot compute with', where=where
            )
        try:
            return cls(tensor.name, dtype, tuple(tensor.shape))
        except (RuntimeError, ValueError) as error:
            raise BuildError(
                f'TensorRT cannot compute a shape for tensor "{tensor.name}"',
                where=where,
                fix="see TensorRT's log or error recorder for what it refuses in this layer",
            ) from error

    @property
    def user_dtype(self) -> np.dtype[Any]:
        """The dtype of input and output arrays. NumPy has no BF16 and no FP8: they are passed as float32."""
        return np.dtype(np.float16) if self.dtype == "HALF" else self.held_dtype

    @property
    def held_dtype(self) -> np.dtype[Any]:
        return np.dtype(_HELD[self.dtype])

    def accepts(self, shape: Shape) -> bool:
        return shape == self.shape or (
            len(shape) == len(self.shape)
            and all(declared in (-1, size) for declared, size in zip(self.shape, shape, strict=True))
        )

    def hold(self, value: Array, where: str) -> Array:
        """``value`` as the tensor would hold it: rounded to its type, and of its declared shape."""
        value = np.asarray(value)
        if not self.accepts(value.shape) or _kind(value.dtype) != _kind(self.held_dtype):
            raise ShapeError(
                f'tensor "{self.name}" came out as {value.dtype} {value.shape}, '
                f"but the network says {self.dtype} {self.shape}",
                where=where,
            )
        return _round(value.astype(self.held_dtype, copy=False), self.dtype)


def _kind(dtype: np.dtype[Any]) -> str:
    return "i" if dtype.kind == "u" else dtype.kind


def _round(value: Array, dtype: str) -> Array:
    if dtype == "HALF":
        return value.astype(np.float16).astype(np.float32)
    if dtype == "BF16":
        return _round_to_bfloat16(value)
    if dtype == "FP8":
        return _round_to_float8(value)
    return value


def _round_to_bfloat16(value: Array) -> Array:
    # bfloat16 is the upper half of a float32. Adding a bit less than half of the last kept bit, and that
    # bit itself, before cutting the lower half off rounds to nearest, ties to even.
    bits = np.array(value, np.float32, order="C").view(np.uint32)
    last_kept = (bits >> np.uint32(16)) & np.uint32(1)
    cut = (bits + np.uint32(0x7FFF) + last_kept) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(value), np.float32(np.nan), cut.view(np.float32))


def _round_to_float8(value: Array) -> Array:
    # e4m3 keeps 3 bits after the first one, and 2^-9 is its smallest number. 448 is the largest; the layer that
    # writes the tensor clamps to it.
    _, exponent = np.frexp(value)
    unit = np.ldexp(np.float32(1), np.maximum(exponent - 4, -9))
    return np.asarray(np.rint(value / unit) * unit, np.float32)

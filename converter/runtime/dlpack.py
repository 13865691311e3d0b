"""Arrays on a GPU as DLPack describes them, read without a copy.

Source: https://dmlc.github.io/dlpack/latest/c_api.html, the layout of ``DLManagedTensor``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import ShapeError

CUDA_DEVICES = (2, 13)
"""``kDLCUDA`` and ``kDLCUDAManaged``."""
_KINDS = {0: "int", 1: "uint", 2: "float", 6: "bool"}
_CAPSULE = b"dltensor"


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    """``DLTensor``, with which a ``DLManagedTensor`` begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("axes", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def device_tensor(
    given: Any, name: str, stream: int
) -> tuple[int, tuple[int, ...], np.dtype[Any], object] | None:
    """Address, shape, type and owner of an array on a GPU; None for anything else.

    The producer makes ``stream`` wait for the array. The owner must be held for as long as
    the address is used.
    """
    if not hasattr(given, "__dlpack_device__") or int(given.__dlpack_device__()[0]) not in CUDA_DEVICES:
        return None
    # DLPack has no 0: it calls CUDA's default stream 1.
    capsule = given.__dlpack__(stream=stream or 1)
    tensor = tensor_in(capsule)
    shape = tuple(tensor.shape[: tensor.axes])
    if tensor.strides:
        refuse_gaps(name, shape, tuple(tensor.strides[: tensor.axes]), 1)  # in elements
    address = (tensor.data or 0) + tensor.byte_offset
    # A capsule that is not renamed frees the tensor when it goes, as DLPack asks.
    return address, shape, _dtype(tensor.dtype, name), (given, capsule)


def tensor_in(capsule: object) -> Tensor:
    """What a capsule points to."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(read(capsule, _CAPSULE), ctypes.POINTER(Tensor)).contents


def refuse_gaps(name: str, shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> None:
    """Raise ``ShapeError`` unless strides are those of elements one after the other, last axis first.

    ``step`` is the stride of the last axis, in the unit of the strides.
    """
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            raise ShapeError(
                f'the array for "{name}" has gaps, or another order of its axes',
                because=f"its shape is {shape} and its strides are {strides}",
                fix="give a contiguous copy of it",
            )
        step *= size


def _dtype(dtype: _DataType, name: str) -> np.dtype[Any]:
    kind = _KINDS.get(dtype.code)
    if kind is None or dtype.lanes != 1:
        raise ShapeError(
            f'the array for "{name}" has elements that NumPy does not know',
            because=f"DLPack calls them type {dtype.code} of {dtype.bits} bits in {dtype.lanes} lanes",
        )
    return np.dtype("bool" if kind == "bool" else f"{kind}{dtype.bits}")

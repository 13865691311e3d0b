"""Arrays on a GPU as DLPack describes them, read without a copy.

Source: https://dmlc.github.io/dlpack/latest/c_api.html, the layout of ``DLManagedTensor``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass

_CUDA, _CUDA_MANAGED = 2, 13
"""``kDLCUDA``, and ``kDLCUDAManaged``: memory that every GPU can use."""
_KINDS = {0: "int", 1: "uint", 2: "float", 6: "bool"}
_CAPSULE = b"dltensor"


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """``DLTensor``, with which a ``DLManagedTensor`` begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("axes", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """An array on a GPU; ``ordinal`` is None where every GPU can use it.

    The ``owner`` must be held for as long as the address is used.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ordinal: int | None
    owner: object


def device_tensor(array: Any, name: str, stream: int) -> DeviceTensor | None:
    """An array on a GPU as DLPack describes it; None for anything else.

    The producer makes ``stream`` wait for the work that fills the array.
    """
    ask = getattr(array, "__dlpack_device__", None)
    if ask is None:
        return None
    kind, ordinal = ask()
    if kind not in (_CUDA, _CUDA_MANAGED):
        return None
    # DLPack has no 0: it calls CUDA's default stream 1.
    capsule = array.__dlpack__(stream=stream or 1)
    tensor = tensor_in(capsule)
    shape = tuple(tensor.shape[: tensor.axes])
    if tensor.strides:
        refuse_gaps(name, shape, tuple(tensor.strides[: tensor.axes]), 1)  # in elements
    return DeviceTensor(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        _dtype(tensor.dtype, name),
        int(ordinal) if kind == _CUDA else None,
        (array, capsule),  # a capsule that is not renamed frees the tensor when it goes, as DLPack asks
    )


def tensor_in(capsule: object) -> DLTensor:
    """What a capsule points to."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(read(capsule, _CAPSULE), ctypes.POINTER(DLTensor)).contents


def refuse_gaps(name: str, shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> None:
    """Raise ``ShapeError`` unless the array is contiguous, in C order.

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

"""What callers give as inputs and outputs: arrays in the host's memory, or in the GPU's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import ShapeError
from prototrt.converter.runtime.dlpack import device_tensor, refuse_gaps
from prototrt.converter.sessions.evaluation import converted
from prototrt.surgery.ir import Array, Value


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """Memory of the GPU that belongs to the caller; ``owner`` keeps it alive.

    ``stream``, if there is one, is where the work that fills it was queued.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: int | None
    owner: object
    is_writeable: bool = True

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def operand_of(given: Any, name: str, stream: int) -> Array | DeviceArray:
    """An array of the caller, where it is: on the GPU without a copy, else as NumPy sees it.

    ``stream`` is where it will be read or written. Raises ``ShapeError`` if its elements do
    not lie one after the other.
    """
    if isinstance(given, np.ndarray):
        return given
    interface = getattr(given, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(interface, given, name)
    tensor = device_tensor(given, name, stream)
    if tensor is None:
        return np.asarray(given)
    address, shape, dtype, owner = tensor
    return DeviceArray(address, shape, dtype, None, owner)


def _from_interface(interface: dict[str, Any], owner: object, name: str) -> DeviceArray:
    """See https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3."""
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    if strides is not None:
        refuse_gaps(name, shape, tuple(strides), dtype.itemsize)
    address, is_read_only = interface["data"]
    return DeviceArray(address, shape, dtype, interface.get("stream"), owner, not is_read_only)


def as_input(value: Value, operand: Array | DeviceArray) -> Array | DeviceArray:
    """The operand in the type of the input; on the GPU it must have that type already."""
    if isinstance(operand, DeviceArray):
        if operand.dtype != value.dtype.numpy:
            raise ShapeError(
                f'input "{value.name}" is {operand.dtype} on the GPU, expected {value.dtype.value}',
                fix="convert it there first",
            )
        return operand
    # At least one axis: what NumPy makes contiguous has; the bytes are the same.
    return np.ascontiguousarray(converted(value, operand))


def as_output(value: Value, operand: Array | DeviceArray, shape: tuple[int, ...]) -> Array | DeviceArray:
    """The operand, which must be able to take the output. Raises ``ShapeError``."""
    if (operand.shape, operand.dtype) != (shape, value.dtype.numpy):
        raise ShapeError(
            f'output "{value.name}" is to be written to {operand.dtype} {operand.shape},'
            f" expected {value.dtype.value} {shape}"
        )
    if isinstance(operand, np.ndarray):
        usable = operand.flags.c_contiguous and operand.flags.writeable
    else:
        usable = operand.is_writeable
    if not usable:
        raise ShapeError(
            f'output "{value.name}" is to be written to an array that has gaps or is read-only',
            fix="give a contiguous, writeable one",
        )
    return operand

"""What callers give as inputs and outputs: arrays in the host's memory, or in the GPU's."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.converter.files.signatures.arrays import cast, host_array, refuse_gradients
from prototrt.converter.running.runtime.device import DEFAULT_STREAM, Device
from prototrt.converter.running.runtime.dlpack import device_tensor, refuse_gaps
from prototrt.surgery.ir import Array, Value

Operand: TypeAlias = "Array | DeviceArray"


class DeviceArray(NamedTuple):
    """Memory of the GPU that belongs to the caller; ``owner`` keeps it alive.

    ``stream``, if there is one, is where the work that fills it was queued, and must be waited for.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: int | None
    owner: object
    is_writeable: bool = True

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def operand_of(array: Any, name: str, device: Device, stream: int) -> Operand:
    """An array of the caller, in place: on the GPU without a copy, otherwise as a NumPy array.

    ``stream`` will read or write it. Raises ``ShapeError`` if it is not contiguous or is on another GPU.
    """
    if isinstance(array, np.ndarray):
        return array
    refuse_gradients(array, name)
    # DLPack comes first: with it the producer makes our stream wait. The interface of PyTorch names no stream.
    tensor = device_tensor(array, name, stream)
    if tensor is not None:
        _refuse_other_gpu(name, tensor.ordinal, device)
        return DeviceArray(tensor.address, tensor.shape, tensor.dtype, None, tensor.owner)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        operand = _from_interface(interface, array, name)
        _refuse_other_gpu(name, device.ordinal_of(operand.address) if operand.nbytes else None, device)
        return operand
    return host_array(array, name)


def _from_interface(interface: dict[str, Any], owner: object, name: str) -> DeviceArray:
    """See https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3.

    Before version 3 nobody says on which stream the array is filled: it may be the default one.
    """
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    if strides is not None:
        refuse_gaps(name, shape, tuple(strides), dtype.itemsize)
    address, is_read_only = interface["data"]
    stream = interface.get("stream", DEFAULT_STREAM)
    return DeviceArray(address, shape, dtype, stream, owner, not is_read_only)


def _refuse_other_gpu(name: str, ordinal: int | None, device: Device) -> None:
    if None not in (ordinal, device.ordinal) and ordinal != device.ordinal:
        raise ShapeError(
            f'the array for "{name}" is on GPU {ordinal}, expected GPU {device.ordinal}, where the engine is',
            fix=f"copy it to GPU {device.ordinal}, or load the engine on GPU {ordinal}:"
            f" device=CudaPythonDevice({ordinal})",
        )


def as_input(value: Value, operand: Operand, *, is_kept: bool = False) -> Operand:
    """The operand in the type of the input; on the GPU, it must already have that type.

    An operand that ``is_kept`` for every call is not converted. Raises ``ShapeError``.
    """
    if isinstance(operand, DeviceArray):
        if operand.dtype != value.dtype.numpy:
            raise ShapeError(
                f'input "{value.name}" is {operand.dtype} on the GPU, expected {value.dtype.value}',
                fix="convert it there first",
            )
        return operand
    fitting = cast(value, operand)
    return operand if is_kept else fitting


def refuse_copies(name: str, array: Any) -> None:
    """Raise ``ShapeError`` for what NumPy would copy: the caller would not see what is written to the copy."""
    lends = isinstance(array, np.ndarray) or hasattr(array, "__dlpack_device__")
    if not lends and not hasattr(array, "__cuda_array_interface__"):
        raise ShapeError(
            f'output "{name}" is to be written to a {type(array).__name__}, expected an array',
            fix="give a NumPy array, or an array on the GPU",
        )


def as_output(value: Value, operand: Operand, shape: tuple[int, ...]) -> Operand:
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

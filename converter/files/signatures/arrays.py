"""Arrays in the host's memory that callers give: read from any library, converted to the type of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array, Value


def host_array(array: Any, name: str) -> Array:
    """The caller's array as a NumPy array, a view if possible. Raises ``ShapeError`` if NumPy cannot read it."""
    refuse_gradients(array, name)
    read = np.asarray if _is_read_by_numpy(array) else np.from_dlpack
    try:
        return read(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(
            f'what is given for "{name}" is not an array that NumPy can read',
            because=str(error).splitlines()[0],
            fix="copy it to the CPU, in a type that NumPy has, as tensor.cpu().float() does",
        ) from error


def host_target(array: Any, name: str) -> Array:
    """A view to which the output ``name`` is written. Raises ``ShapeError`` if the caller would not see it."""
    view = host_array(array, name)
    if view is not array and not np.shares_memory(view, host_array(array, name)):
        raise ShapeError(
            f'output "{name}" is to be written to a {type(array).__name__}, expected an array',
            fix="give an array of NumPy or PyTorch",
        )
    if not view.flags.writeable:
        raise ShapeError(
            f'output "{name}" is to be written to an array that is read-only',
            fix="take the array that run() returns, or give one of NumPy or PyTorch",
        )
    return view


def _is_read_by_numpy(array: Any) -> bool:
    """Whether NumPy has a way to the memory of an array other than DLPack, which cannot be written to everywhere."""
    return hasattr(array, "__array__") or not hasattr(array, "__dlpack__")


def refuse_gradients(array: Any, name: str) -> None:
    """Raise ``ShapeError`` for a tensor of PyTorch that requires a gradient: PyTorch does not share its memory."""
    if getattr(array, "requires_grad", False) is True:
        raise ShapeError(f'the tensor for "{name}" requires a gradient', fix="give tensor.detach()")


def cast(value: Value, array: Array) -> Array:
    """The array in the type of the input ``value``; itself if it has that type.

    Raises ``ShapeError`` if it holds neither numbers nor truth values, or a number that the type cannot hold.
    """
    dtype = value.dtype.numpy
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "bfiu":
        raise ShapeError(
            f'input "{value.name}" holds {array.dtype}, expected {dtype}',
            fix=f'convert it: array.astype("{dtype}")',
        )
    if dtype.kind != "b" and not np.can_cast(array.dtype, dtype):
        _refuse_beyond(value, array)
    return array.astype(dtype, copy=False)


def _refuse_beyond(value: Value, array: Array) -> None:
    dtype = value.dtype.numpy
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    held = (array >= limits.min) & (array <= limits.max)
    if dtype.kind == "f":
        held |= ~np.isfinite(array)
    if beyond := array[~held].tolist():
        raise ShapeError(
            f'input "{value.name}" holds {beyond[0]}, which {dtype} cannot hold',
            fix="clamp or rescale the input",
        )

"""Arrays in the host's memory that callers give: read from any library, converted to the type of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array, Value


def host_array(array: Any, name: str) -> Array:
    """The caller's array as a NumPy array, a view if possible. Raises ``ShapeError`` if NumPy cannot read it."""
    refuse_gradients(array, name)
    try:
        return np.asarray(array)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(
            f'what is given for "{name}" is not an array that NumPy can read',
            because=str(error).splitlines()[0],
            fix="copy it to the CPU and convert it there, as tensor.cpu().numpy() does",
        ) from error


def refuse_gradients(array: Any, name: str) -> None:
    """Raise ``ShapeError`` for a tensor of PyTorch that requires a gradient: PyTorch does not share its memory."""
    if getattr(array, "requires_grad", False) is True:
        raise ShapeError(f'the tensor for "{name}" requires a gradient', fix="give tensor.detach()")


def converted(value: Value, array: Array) -> Array:
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
    """Raise ``ShapeError`` for a number that would become another number, or infinity."""
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

"""One BlobProto inside a mapped file -> a StoredBlob whose array is a view of the map."""

from __future__ import annotations

from math import prod

import numpy as np

from prototrt.caffe_proto.common.errors import WeightsError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, WireError, fields, signed, varints
from prototrt.caffe_proto.weights import Array, StoredBlob, check_count

# Numbers of BlobProto in caffe.proto.
_LEGACY_SIZES = (1, 2, 3, 4)
_DATA, _SHAPE, _DOUBLE_DATA, _RAW_TYPE, _RAW_DATA = 5, 7, 8, 10, 12
_DIM_OF_SHAPE = 1

_RAW_DTYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


@dataclass(frozen=True, slots=True)
class FloatRun:
    """``count`` numbers in a row, ``stride`` bytes from one to the next."""

    offset: int
    count: int
    stride: int


@dataclass(slots=True)
class _Parts:
    """The contents of a BlobProto, before its parts are checked against each other."""

    dims: list[int] | None = None
    legacy: dict[int, int] = field(default_factory=dict)
    floats: list[FloatRun] = field(default_factory=list)
    doubles: list[FloatRun] = field(default_factory=list)
    raw: Field | None = None
    raw_type: int = 0


def stored_blob(buffer: Buffer, start: int, end: int, where: str, blob: str) -> StoredBlob:
    """Read the shape of the blob in ``buffer[start:end]``, and find its numbers, which stay in the buffer."""
    parts = _parts(buffer, start, end)
    runs, dtype = _numbers(parts, where, blob)
    count = sum(run.count for run in runs)
    shape = _shape(parts, count)
    check_count(shape, count, where, blob)
    return StoredBlob(shape, bool(parts.legacy), lambda: array_of(buffer, runs, dtype, shape))


def _parts(buffer: Buffer, start: int, end: int) -> _Parts:
    parts = _Parts()
    position = start
    while position < end:
        # Unpacked floats are one field each: they are found as runs, not one by one.
        item = next(fields(buffer, position, end), None)
        if item is None:
            return parts
        position = item.end
        if item.number == _DATA and item.wire is not Wire.VARINT:
            position = add_numbers(parts.floats, buffer, item, end, size=4)
        elif item.number == _DOUBLE_DATA and item.wire is not Wire.VARINT:
            position = add_numbers(parts.doubles, buffer, item, end, size=8)
        elif item.number in _LEGACY_SIZES and item.wire is Wire.VARINT:
            parts.legacy[item.number] = signed(item.value)
        elif item.number == _SHAPE and item.wire is Wire.BYTES:
            parts.dims = _dims(buffer, item)
        elif item.number == _RAW_TYPE and item.wire is Wire.VARINT:
            parts.raw_type = item.value
        elif item.number == _RAW_DATA and item.wire is Wire.BYTES:
            parts.raw = item
    return parts


def _dims(buffer: Buffer, shape: Field) -> list[int]:
    dims: list[int] = []
    for item in fields(buffer, shape.start, shape.end):
        if item.number == _DIM_OF_SHAPE and item.wire is Wire.BYTES:
            dims += map(signed, varints(buffer, item.start, item.end))
        elif item.number == _DIM_OF_SHAPE and item.wire is Wire.VARINT:
            dims.append(signed(item.value))
    return dims


def add_numbers(runs: list[FloatRun], buffer: Buffer, item: Field, end: int, size: int) -> int:
    """Note the run of numbers that begins with ``item``; return the offset at which it ends."""
    if item.wire is Wire.BYTES:
        length = item.end - item.start
        if length % size:
            raise WireError(
                item.start,
                f"the numbers at byte {item.start} have {length} bytes, which is not a multiple of {size}",
            )
        if length:
            runs.append(FloatRun(item.start, length // size, size))
        return item.end
    if item.end - item.start != size:
        raise WireError(item.start, f"the number at byte {item.start} does not have {size} bytes")
    first, step = item.start - 1, size + 1  # the key of these fields has one byte
    count = _rows_alike(buffer, first, step, (end - first) // step)
    runs.append(FloatRun(item.start, count, step))
    return first + count * step


def _rows_alike(buffer: Buffer, first: int, step: int, rows: int) -> int:
    """How many of the ``rows`` rows of ``step`` bytes begin with the byte of the first one."""
    alike, window = 1, 64
    while alike < rows:
        window = min(2 * window, rows - alike)
        count = (window - 1) * step + 1
        keys = np.frombuffer(buffer, np.uint8, count, first + alike * step)[::step]
        others = np.flatnonzero(keys != buffer[first])
        if len(others):
            return alike + int(others[0])
        alike += window
    return alike


def _numbers(parts: _Parts, where: str, blob: str) -> tuple[list[FloatRun], str]:
    """The place and the type of the numbers. Like Caffe, it prefers doubles if there are both."""
    if parts.raw is not None:
        dtype = _RAW_DTYPES.get(parts.raw_type)
        length = parts.raw.end - parts.raw.start
        if dtype is None or length % int(dtype[2:]):
            raise WeightsError(
                f"raw_data has {length} bytes of type {parts.raw_type}, expected floats of type 0, 1 or 2",
                where=where,
                blob=blob,
                fix="save the weights in the ordinary form, as float data",
            )
        size = int(dtype[2:])
        return [FloatRun(parts.raw.start, length // size, size)] if length else [], dtype
    if parts.doubles:
        return parts.doubles, "<f8"
    return parts.floats, "<f4"


def _shape(parts: _Parts, count: int) -> tuple[int, ...]:
    if parts.legacy:
        return tuple(parts.legacy.get(number, 0) for number in _LEGACY_SIZES)
    # A blob without shape is a scalar, if it holds anything at all.
    return tuple(parts.dims) if parts.dims is not None else () if count == 1 else (count,)


def array_of(buffer: Buffer, runs: list[FloatRun], dtype: str, shape: tuple[int, ...]) -> Array:
    """float32: a view of the numbers if they are float32 and in one run, otherwise a copy."""
    pieces = [np.ndarray(run.count, dtype, buffer, run.offset, run.stride) for run in runs]
    if not pieces:
        return np.zeros(shape, np.float32)
    if len(pieces) == 1 and runs[0].stride != np.dtype(dtype).itemsize:
        # Unpacked numbers also stay a view, with the strides of their shape.
        strides = [runs[0].stride * prod(shape[axis + 1 :]) for axis in range(len(shape))]
        flat = np.ndarray(shape, dtype, buffer, runs[0].offset, strides)
    else:
        flat = (pieces[0] if len(pieces) == 1 else np.concatenate(pieces)).reshape(shape)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, as in Caffe
        return flat.astype(np.float32, copy=False)

"""Safetensors files: 8 bytes with the length of a header of JSON, the header, the data.

Source: https://huggingface.co/docs/safetensors, "Format". Written here, so that arrays are streamed from their source
and a conversion needs no further package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_TEXT, Buffer, value_from_json
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.named_arrays import ArraysOnRequest

_READ = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_TYPES = {np.dtype(code).name: name for name, code in _READ.items()}
_ALIGNMENT = 8
_WHAT = "a safetensors file"


def write_safetensors(stream: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write the arrays under these names. The metadata stand first."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    stream.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        stream.write(little.reshape(-1).view(np.uint8).data)


def read_safetensors(file: str) -> Mapping[str, Array]:
    """The arrays by name. Raises ``UnreadableFileError``."""
    content = open_input(file, _WHAT).content
    length = int.from_bytes(content[:_ALIGNMENT], "little")
    begin = _ALIGNMENT + length
    header = content[_ALIGNMENT:begin] if length <= LARGEST_TEXT else b""
    try:
        facts = value_from_json(header)
        return ArraysOnRequest(
            {name: _maker(content, begin, facts[name]) for name in facts if name != "__metadata__"}
        )
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableFileError(
            f"this is not {_WHAT}, or it is damaged",
            where=file,
            because=f"of {type(error).__name__}: {error}",
            fix="get the file again",
        ) from error


def _maker(content: Buffer, data: int, fact: Mapping[str, Any]) -> Callable[[], Array]:
    """Makes one array; bfloat16 is the upper half of a float32."""
    (begin, end), shape, kind = fact["data_offsets"], fact["shape"], fact["dtype"]
    dtype = np.dtype("<u2" if kind == "BF16" else _READ[kind])
    are_numbers = all(type(size) is int for size in (begin, end, *shape))
    if not (0 <= begin <= end <= len(content) - data) or min(shape, default=0) < 0 or not are_numbers:
        raise ValueError(
            f"an array lies at {begin} to {end} of {len(content) - data} bytes, with the shape {shape}"
        )
    if prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{end - begin} bytes are no array of the shape {shape} of {kind}")
    array = np.frombuffer(content, dtype, prod(shape), data + begin).reshape(shape)
    return lambda: (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array

"""An ONNX model as a file. Weights are streamed from their source: there are never two copies in memory.

The messages are those of ``onnx.proto``; only the few fields that carry weights are written by
hand, since a protobuf library would first copy them into messages, then into a string.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import field_head
from prototrt.converter.backends.onnx.api import element_type, import_package
from prototrt.converter.backends.onnx.model import Proto
from prototrt.converter.files.writing.ownership import DATA_MARK, DerivedPath
from prototrt.converter.files.writing.publication import Publication
from prototrt.surgery.ir import Array

EXTERNAL_FROM = 1 << 30
"""Bytes of weights beyond which they get their own file: a protobuf message is limited to 2 GiB."""
_INSIDE = 1 << 10
"""Bytes of an array that stays in the model all the same, where shape inference can read it."""
_ALIGNMENT = 1 << 12
"""Bytes: a page, so that programs can map the weights."""

# Field numbers of onnx.proto.
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_EXTERNAL = 1


@dataclass(frozen=True, slots=True)
class _Piece:
    """One initializer: the message up to its data, and the data."""

    head: bytes
    array: Array

    @property
    def size(self) -> int:
        return len(self.head) + self.array.nbytes

    def write(self, stream: BinaryIO) -> None:
        stream.write(self.head)
        stream.write(_bytes(self.array))


def write_model(
    files: Publication, path: str | os.PathLike[str], model: Proto, weights: Mapping[str, Array]
) -> None:
    """Write a model, whose graph has no initializers yet, with these weights.

    Large weights go to ``PATH.data``, which belongs to the model and moves with it.
    """
    outside = _outside(weights)
    with ExitStack() as stack:
        stream = stack.enter_context(files.create(path))
        pieces = [_inside_piece(name, array) for name, array in weights.items() if name not in outside]
        if outside:
            data = stack.enter_context(files.create(DerivedPath(f"{os.fspath(path)}.data")))
            pieces += _write_outside(data, f"{Path(path).name}.data", outside)
        _write(stream, model, pieces)


def _outside(weights: Mapping[str, Array]) -> dict[str, Array]:
    if sum(array.nbytes for array in weights.values()) <= EXTERNAL_FROM:
        return {}
    return {name: array for name, array in weights.items() if array.nbytes > _INSIDE}


def _inside_piece(name: str, array: Array) -> _Piece:
    head = _describe(name, array).SerializeToString()
    return _Piece(head + field_head(_TENSOR_RAW_DATA, array.nbytes), array)


def _write_outside(stream: BinaryIO, file: str, weights: Mapping[str, Array]) -> list[_Piece]:
    """Write the data; the initializers that point to it."""
    stream.write(DATA_MARK)
    pieces = []
    for name, array in weights.items():
        stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
        tensor = _describe(name, array)
        tensor.data_location = _EXTERNAL
        facts = {"location": file, "offset": str(stream.tell()), "length": str(array.nbytes)}
        for key, value in facts.items():
            tensor.external_data.add(key=key, value=value)
        pieces.append(_Piece(tensor.SerializeToString(), np.empty(0, np.uint8)))
        stream.write(_bytes(array))
    return pieces


def _write(stream: BinaryIO, model: Proto, pieces: Iterable[_Piece]) -> None:
    """The model, its graph, and after the graph's other fields the initializers."""
    pieces = list(pieces)
    heads = [field_head(_GRAPH_INITIALIZER, piece.size) for piece in pieces]
    graph = model.graph.SerializeToString()
    frame = type(model)()
    frame.CopyFrom(model)
    frame.ClearField("graph")
    size = len(graph) + sum(len(head) + piece.size for head, piece in zip(heads, pieces, strict=True))
    stream.write(frame.SerializeToString() + field_head(_MODEL_GRAPH, size) + graph)
    for head, piece in zip(heads, pieces, strict=True):
        stream.write(head)
        piece.write(stream)


def _describe(name: str, array: Array) -> Proto:
    """An initializer without its data."""
    return import_package("onnx").TensorProto(
        name=name, dims=array.shape, data_type=element_type(array.dtype)
    )


def _bytes(array: Array) -> memoryview:
    """The bytes of an array, copied only if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

"""A net and its weights in one file: the minidb that Caffe2's predictor exporter writes.

The file is a row of records, each with two sizes (int32), a key and a BlobProto. The blob
``!!META_NET_DEF`` holds nets by name, the others are the weights; a large one lies in several records.

Source: caffe2 ``db/minidb.cc``, ``core/blob_serialization.cc``, ``python/predictor/predictor_exporter.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from prototrt.caffe_proto.caffe2.files import ReadNet, parse_binary
from prototrt.caffe_proto.caffe2.init_net import InitNet, narrow
from prototrt.caffe_proto.caffe2.schema import DTYPES, message_class
from prototrt.caffe_proto.common.errors import (
    NetError,
    UnreadableFileError,
    UnsupportedLayerError,
    WeightsError,
)
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, WireError, fields, signed
from prototrt.caffe_proto.recognition import OpenFile
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.weights import Array, StoredBlob
from prototrt.caffe_proto.weights.damage import damage_error
from prototrt.caffe_proto.weights.stored_blob import FloatRun, add_numbers, array_of

_SIZES = struct.Struct("<ii")
_PART = "#%"  # behind the name of a blob that lies in several records, before the number of the part
# Numbers of BlobProto, TensorProto, its Segment, MetaNetDef and NetsMap.
_TENSOR, _CONTENT = 3, 4
_FLOATS, _SEGMENT = 3, 11
_BEGIN = 1
_NETS = 2
_KEY, _VALUE = 1, 2
_PREDICT_NET, _GLOBAL_INIT_NET = "PREDICT_NET_TYPE", "GLOBAL_INIT_NET_TYPE"
_INTEGERS = ("int32", "int64", "bool")
_TYPES = "float, double, int32, int64 or bool"


class Record(NamedTuple):
    """One blob: its BlobProto is ``buffer[start:end]``."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class BlobPart:
    """Some of the elements of a tensor, from ``begin`` on. Floats stay in the file, as ``runs``."""

    tensor: Message
    begin: int
    runs: list[FloatRun]

    @property
    def dtype(self) -> str:
        return DTYPES.get(self.tensor.data_type, f"type {self.tensor.data_type}")

    def array(self, buffer: Buffer) -> Array:
        if self.dtype == "float32":
            return array_of(buffer, self.runs, "<f4", (sum(run.count for run in self.runs),))
        if self.dtype == "float64":
            return np.array(self.tensor.double_data, np.float32)
        values = self.tensor.int64_data if self.dtype == "int64" else self.tensor.int32_data
        return narrow(np.array(values, np.int64), self.dtype.replace("64", "32"))


def read_database(source: OpenFile) -> tuple[ReadNet, InitNet]:
    """The predict net, and the weights that lie beside it."""
    file, buffer = source.name, source.content
    try:
        records = list(_records(buffer, file))
        net = _predict_net(buffer, records[0], file)
        parts: dict[str, list[BlobPart]] = {}
        for record in records[1:]:
            name = record.key.rpartition(_PART)[0] or record.key
            parts.setdefault(name, []).append(_part(buffer, record, file))
    except WireError as error:
        raise _damage_error(file, error.problem) from error
    blobs = {name: _join_parts(buffer, part, file, name) for name, part in parts.items()}
    return ReadNet(net, (), ()), InitNet(file, blobs)


def _records(buffer: Buffer, file: str) -> Iterator[Record]:
    position = 0
    while position < len(buffer):
        if position + _SIZES.size > len(buffer):
            raise _damage_error(file, f"it ends inside the record at byte {position}")
        key_size, value_size = _SIZES.unpack(buffer[position : position + _SIZES.size])
        start = position + _SIZES.size + key_size
        if key_size < 1 or value_size < 0 or start + value_size > len(buffer):
            raise _damage_error(file, f"the record at byte {position} is longer than the rest of the file")
        key = buffer[position + _SIZES.size : start].decode("utf-8", "replace")
        position = start + value_size
        yield Record(key, start, position)


def _predict_net(buffer: Buffer, record: Record, file: str) -> Message:
    nets: dict[str, Message] = {}
    for content in _payloads(buffer, record.start, record.end, _CONTENT):
        for entry in _payloads(buffer, content.start, content.end, _NETS):
            names, values = (_payloads(buffer, entry.start, entry.end, part) for part in (_KEY, _VALUE))
            if len(names) != 1 or len(values) != 1:
                raise _damage_error(file, "a net in it has no name, or a name has no net")
            (key,), (value,) = names, values
            net = message_class("NetDef")()
            parse_binary(net, buffer[value.start : value.end], file)
            nets[buffer[key.start : key.end].decode("utf-8", "replace")] = net
    if _PREDICT_NET not in nets:
        raise NetError(
            f"holds no {_PREDICT_NET}, but {', '.join(nets) or 'no nets'}",
            where=file,
            fix="give the database of a predictor, or predict_net.pb and init_net.pb",
        )
    _refuse_other_fills(nets.get(_GLOBAL_INIT_NET), file)
    return nets[_PREDICT_NET]


def _refuse_other_fills(init: Message | None, file: str) -> None:
    others = sorted({operator.type for operator in init.op} - {"Load"}) if init is not None else []
    if others:
        raise UnsupportedLayerError(
            f"its {_GLOBAL_INIT_NET} runs {', '.join(others)}, expected Load alone",
            where=file,
            fix="export predict_net.pb and init_net.pb with Caffe2's mobile_exporter",
        )


def _payloads(buffer: Buffer, start: int, end: int, number: int) -> list[Field]:
    return [item for item in fields(buffer, start, end) if item.number == number and item.wire is Wire.BYTES]


def _part(buffer: Buffer, record: Record, file: str) -> BlobPart:
    """The tensor in a record. Its floats are located, not read."""
    tensors = _payloads(buffer, record.start, record.end, _TENSOR)
    if not tensors:
        raise WeightsError(
            f"holds no tensor, expected one of {_TYPES}",
            where=file,
            blob=f'blob "{record.key}"',
            fix="export the net again, with weights of these types",
        )
    begin, runs, rest = 0, list[FloatRun](), list[bytes]()
    position, end = tensors[0].start, tensors[0].end
    while (item := next(fields(buffer, position, end), None)) is not None:
        if item.number == _FLOATS and item.wire in (Wire.BYTES, Wire.FIXED32):
            position = add_numbers(runs, buffer, item, end, size=4)
            continue
        if item.number == _SEGMENT:
            begins = [at for at in fields(buffer, item.start, item.end) if at.number == _BEGIN]
            begin = signed(begins[0].value) if begins else 0
        rest.append(buffer[position : item.end])
        position = item.end
    tensor = message_class("TensorProto")()
    parse_binary(tensor, b"".join(rest), file)
    return BlobPart(tensor, begin, runs)


def _join_parts(buffer: Buffer, parts: list[BlobPart], file: str, name: str) -> StoredBlob:
    blob, shape = f'blob "{name}"', tuple(int(dim) for dim in parts[0].tensor.dims)
    strange = [part.dtype for part in parts if not part.dtype.startswith(("float", *_INTEGERS))]
    if strange:
        raise WeightsError(
            f"holds elements of {strange[0]}, expected {_TYPES}",
            where=file,
            blob=blob,
            fix="export the net again, with weights of these types",
        )
    arrays = [part.array(buffer) for part in sorted(parts, key=lambda part: part.begin)]
    count = sum(array.size for array in arrays)
    if prod(shape) != count:
        raise WeightsError(
            f"the shape {shape} has {prod(shape)} elements, but there are {count}",
            where=file,
            blob=blob,
            fix="get the file again: it is damaged",
        )
    return StoredBlob(shape, False, partial(_whole, arrays, shape))


def _whole(arrays: list[Array], shape: tuple[int, ...]) -> Array:
    return (arrays[0] if len(arrays) == 1 else np.concatenate(arrays)).reshape(shape)


def _damage_error(file: str, because: str) -> UnreadableFileError:
    return damage_error(file, "minidb of Caffe2", because)

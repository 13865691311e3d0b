"""The operators of an init net: their messages, and their numbers where they lie in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from prototrt.caffe_proto.caffe2.files import parse_binary, read_net, refuse_many_operators
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import Origin, UnreadableFileError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, fields
from prototrt.caffe_proto.common.wording import Command, Worded
from prototrt.caffe_proto.recognition import NETDEF, OP, OpenFile
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.text.scalars import text_from_bytes
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.damage import damage_errors
from prototrt.caffe_proto.weights.stored_blob import FloatRun, add_numbers, array_of

# Numbers of OperatorDef and Argument.
_ARG, _ARG_NAME, _ARG_FLOATS = 5, 1, 5

_GIVE_INIT_NET = Worded(
    "give the init net of the predict net: {}", Command("convert", ["predict_net.pb", "init_net.pb"])
)


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """One operator of an init net. ``message`` lacks the numbers of ``values`` where they are floats.

    ``read`` returns those, and ``count`` is their number. Both are None if the values are not
    floats.
    """

    message: Message
    origin: Origin
    count: int | None
    read: Callable[[], Array] | None


def read_fills(source: OpenFile, *, allow_unknown: bool = False) -> list[Fill]:
    """The operators of an init net, binary or text."""
    file = source.name
    source.refuse_others("an init net", _GIVE_INIT_NET, NETDEF)
    if source.kind is NETDEF:
        return _from_binary(source.content, file)
    if not source.is_netdef:
        raise UnreadableFileError(
            "this is not an init net",
            where=file,
            because="it holds no operators",
            fix=_GIVE_INIT_NET,
        )
    return _from_text(source, allow_unknown)


def origin_of(file: str, line: int, index: int, message: Message) -> Origin:
    """``init_net.pb: operator 3 (FC)``; the name of the operator is added if it has one."""
    name = f' "{message.name}"' if message.name else ""
    label = message.name or next(iter(message.output), f"{message.type}_{index}")
    return Origin(file, line, label, message.type, f"operator {index}{name}")


def _from_text(source: OpenFile, allow_unknown: bool) -> list[Fill]:
    file = source.name
    net = read_net(source, "an init net", allow_unknown=allow_unknown)
    fills = []
    for index, message in enumerate(net.message.op):
        values = next((argument.floats for argument in message.arg if argument.name == "values"), ())
        origin = origin_of(file, net.line(index), index, message)
        array = np.array(values, np.float32)
        fills.append(Fill(message, origin, len(array), partial(np.asarray, array)))
    return fills


def _from_binary(buffer: Buffer, file: str) -> list[Fill]:
    with damage_errors(file, len(buffer), "init net"):
        items = [item for item in fields(buffer, 0, len(buffer)) if item.number == OP]
        refuse_many_operators(len(items), file)
        return [_fill(buffer, item, file, index) for index, item in enumerate(items)]


def _fill(buffer: Buffer, item: Field, file: str, index: int) -> Fill:
    """An operator. Its float values are located, not read."""
    message = message_class("OperatorDef")()
    rest: list[bytes] = []
    runs: list[FloatRun] = []
    begin = item.start
    for inner in fields(buffer, item.start, item.end):
        if not (inner.number == _ARG and inner.wire is Wire.BYTES and _has_values(buffer, inner, runs)):
            rest.append(buffer[begin : inner.end])
        begin = inner.end
    parse_binary(message, b"".join(rest), file)
    origin = origin_of(file, 0, index, message)
    count = sum(run.count for run in runs)
    return Fill(message, origin, count, lambda: array_of(buffer, runs, "<f4", (count,)))


def _has_values(buffer: Buffer, argument: Field, runs: list[FloatRun]) -> bool:
    """Whether this is the argument ``values`` and holds floats. Their places are added to ``runs``."""
    name, spans = "", list[FloatRun]()
    for item in _fields_but_numbers(buffer, argument, spans):
        if item.number == _ARG_NAME and item.wire is Wire.BYTES:
            name = text_from_bytes(buffer[item.start : item.end])
    if name != "values" or not spans:
        return False
    runs += spans
    return True


def _fields_but_numbers(buffer: Buffer, argument: Field, runs: list[FloatRun]) -> Iterator[Field]:
    """The fields of an argument. Its floats, each of which may be a field, are added to ``runs``."""
    position = argument.start
    while position < argument.end:
        item = next(fields(buffer, position, argument.end), None)
        if item is None:
            return
        position = item.end
        if item.number == _ARG_FLOATS and item.wire in (Wire.BYTES, Wire.FIXED32):
            position = add_numbers(runs, buffer, item, argument.end, size=4)
        else:
            yield item

"""The text form of protobuf, as we write it and as protobuf reads it."""

from __future__ import annotations

from google.protobuf import struct_pb2, text_format
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.text.findings import message_of
from prototrt.converter.serving.triton.config import Enum, Message, text_of
from prototrt.tests.odd_names import NAMES


def test_every_kind_of_field() -> None:
    message: Message = {
        "# what it is": "",
        "name": "a",
        "kind": Enum("KIND_CPU"),
        "on": True,
        "count": 3,
        "share": 0.5,
        "dims": [1, -1],
        "shape": [],
        "inner": {"deep": {"x": 1}, "empty": {}},
        "each": [{"a": 1}, {"b": "c"}],
    }
    assert text_of(message) == (
        "# what it is\n"
        'name: "a"\n'
        "kind: KIND_CPU\n"
        "on: true\n"
        "count: 3\n"
        "share: 0.5\n"
        "dims: [ 1, -1 ]\n"
        "shape: [ ]\n"
        "inner {\n"
        "  deep {\n"
        "    x: 1\n"
        "  }\n"
        "  empty {\n"
        "  }\n"
        "}\n"
        "each [\n"
        "  {\n"
        "    a: 1\n"
        "  },\n"
        "  {\n"
        '    b: "c"\n'
        "  }\n"
        "]\n"
    )


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_protobuf_reads_what_was_written(text: str, number: float, flag: bool) -> None:
    values: list[Message] = [{"string_value": text}, {"number_value": number}, {"bool_value": flag}]
    read = text_format.Parse(text_of({"values": values}), struct_pb2.ListValue())
    assert list(read) == [text, number, flag]


@given(st.lists(NAMES, min_size=2, max_size=4))
def test_names_are_read_back(names: list[str]) -> None:
    """As a config is before it is written."""
    names = [name.encode(errors="replace").decode() for name in names]
    message: Message = {
        "# a": "",
        "name": names[0],
        "each": names,
        "inner": {"input": [{"name": names[1]}, {}]},
    }
    read = {"name": names[0], "each": names, "inner": {"input": [{"name": names[1]}, {}]}}
    assert message_of(text_of(message)) == read

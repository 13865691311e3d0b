"""Caffe2's messages, in a pool of their own, like Caffe's.

See docs/decisions.md, 0001.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from prototrt.caffe_proto.schema import Message, class_of

_DESCRIPTORS = Path(__file__).with_name("caffe2.binpb")


@cache
def message_class(name: str) -> Message:
    """The class of a message of caffe2.proto, as in ``message_class("NetDef")``."""
    return class_of(f"caffe2.{name}", _DESCRIPTORS)


# TensorProto.DataType, as far as it names what a blob may hold here, and the words that old files use.
DTYPES = {1: "float32", 2: "int32", 5: "bool", 10: "int64", 13: "float64"}
DTYPE_WORDS = {"float": 1, "int32": 2, "bool": 5, "int64": 10, "double": 13}
INT32, INT64 = 2, 10

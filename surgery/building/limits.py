"""How large a blob may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from math import prod

from google.protobuf.message import Message

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.memory import bytes_from_text, text_of_bytes, usual_limit
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.schema import is_repeated, parameter_fields
from prototrt.surgery.ir import Range, Shape, Value, size_at
from prototrt.surgery.options import RewriteOptions

MOST_AXES = 32
MOST_ELEMENTS = 2**31 - 1
_COPIES = 3
"""Measured: a plan of a constant of 2.0 GB takes 6.5 GB to build."""


def refuse_size(layer: Layer, index: int, value: Value, symbols: Mapping[str, Range]) -> None:
    """Raise ``ShapeError`` for a top that Caffe could not hold.

    Source: caffe ``src/caffe/blob.cpp``, ``Blob::Reshape``.
    """
    if len(value.shape) > MOST_AXES:
        raise ShapeError(
            f"has {len(value.shape)} axes, expected at most {MOST_AXES}",
            blob=f'top "{layer.top_blob(index)}"',
            because="Caffe's blobs have at most that many",
            fix="use fewer axes",
        )
    largest = {symbol: span.max for symbol, span in symbols.items()}
    count = prod([dim if isinstance(dim, int) else size_at(dim, largest) for dim in value.shape])
    if count > MOST_ELEMENTS:
        refuse_too_many(count, value.shape, f'top "{layer.top_blob(index)}"')


def refuse_overflow(layer: Layer) -> None:
    """Raise ``NetError`` for a number among the layer's parameters that Caffe's ints cannot hold."""
    for field in parameter_fields(layer.type):
        param = getattr(layer.message, field)
        messages = [param] if isinstance(param, Message) else param
        for descriptor, value in chain.from_iterable(message.ListFields() for message in messages):
            if descriptor.cpp_type != descriptor.CPPTYPE_UINT32:
                continue
            number = max(value) if is_repeated(descriptor) else value
            if number > MOST_ELEMENTS:
                raise NetError(
                    f"{descriptor.name} is {number}, expected at most {MOST_ELEMENTS}",
                    because="Caffe counts with 32-bit integers",
                    fix=f"set {descriptor.name} in {field}",
                )


def refuse_large(name: str, number: float, most: int) -> None:
    """Raise ``NetError`` for a number that decides how many nodes or constants a layer becomes: too large, or NaN."""
    if not number <= most:
        raise NetError(
            f"{name} is {number}, expected at most {most}",
            because="a net of a few lines must not take gigabytes",
            fix="use a smaller number",
        )


class MemoryLimit:
    """Counts what the net makes itself, before it is made: a file of a few lines can state any size.

    Weights of a file do not count. They are as large as the file, and are mapped.
    """

    def __init__(self, options: RewriteOptions) -> None:
        limit = options.max_memory
        self.most = usual_limit() if limit is None else bytes_from_text(limit)
        self._taken = 0

    def take(self, count: int, blob: str) -> None:
        """Count the float32 numbers of a constant. Raises ``NetError`` if there are too many by now."""
        self._taken += _COPIES * 4 * count
        if self.most is not None and self._taken > self.most:
            enough = f"{math.ceil(self._taken / 1e9)}GB"
            raise NetError(
                f"converting the net takes {text_of_bytes(self._taken)}, expected at most {text_of_bytes(self.most)}",
                blob=blob,
                because=f"it has {count} elements, which TensorRT holds {_COPIES} times while it builds",
                fix=Worded("use smaller sizes, or allow more with {}", Option("max_memory", enough)),
            )


def refuse_too_many(count: int, shape: Shape, blob: str) -> None:
    if count > MOST_ELEMENTS:
        raise ShapeError(
            f"shape is {shape}, which is {count} elements, expected at most {MOST_ELEMENTS}",
            blob=blob,
            because="Caffe counts elements with 32-bit integers",
            fix="use smaller sizes",
        )

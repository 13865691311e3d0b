"""The calls that a user asks for, whichever way their inputs are given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.recognition import NPY, open_input
from prototrt.converter.files.signatures.feeds import refuse_misfits, unread_arrays
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import DataOptions
from prototrt.converter.running.data.data import (
    Call,
    Data,
    calls_of,
    data_of,
    feeds_of,
    refuse_preparation,
    split,
)
from prototrt.converter.running.data.images import Preparation


def all_data(options: DataOptions, signature: Signature) -> Data:
    """All that a file, a folder, a function or arrays hold, as calls of the net. Raises ``ConversionError``."""
    options.refuse_no_source()
    preparation = _preparation(options)
    if not isinstance(options.inputs, str | os.PathLike | None):
        refuse_preparation(preparation, "inputs")
        return _of_arrays(options.inputs, signature)
    inputs = None if options.inputs is None else os.fspath(options.inputs)
    return data_of(inputs, options.data_loader, signature, preparation)


def _preparation(options: DataOptions) -> Preparation:
    resize = tuple(options.resize) if options.resize else None
    return Preparation(tuple(options.mean), options.scale, options.channels, resize)


def some_calls(options: DataOptions, signature: Signature, count: int | None) -> Data:
    """The calls to run: ``count`` of them, by default as many as the data hold.

    The arrays of an npz file may be for one call each, or for all, or hold several calls; a single call of other data
    is repeated.
    Raises ``ConversionError``.
    """
    if isinstance(options.inputs, str | os.PathLike) and options.data_loader is None:
        file = os.fspath(options.inputs)
        if _is_npz(file):
            refuse_preparation(_preparation(options), file)
            unread = tuple(unread_arrays(file, [value.name for value in signature.inputs]))
            feeds = feeds_of(file, signature, count)
            if all(len(split(feed, signature)) == 1 for feed in feeds):
                return Data(lambda: ([Call(file, feed)] for feed in feeds), len(feeds), unread)
            calls = calls_of(Path(file), signature)
            data = Data(lambda: ([call] for call in calls), len(calls), unread)
            return data if count is None else Data(lambda: _take(data, count), count, unread)
    data = all_data(options, signature)
    return data if count is None else replace(data, read=lambda: _take(data, count), parts=count)


def _is_npz(file: str) -> bool:
    """Whether it is to be read as an npz file, and refused if it is none."""
    if os.path.isdir(file) or not os.path.exists(file):
        return False
    kind = open_input(file, "an npz file").kind
    return kind is not NPY and not (kind is not None and kind.words.endswith("image"))


def _of_arrays(arrays: Mapping[str, object] | Sequence[Mapping[str, object]], signature: Signature) -> Data:
    from prototrt.converter.files.signatures.arrays import host_array

    feeds = [
        {name: host_array(array, name) for name, array in feed.items()}
        for feed in ([arrays] if isinstance(arrays, Mapping) else arrays)
    ]
    refuse_misfits("inputs", feeds, signature)
    return Data(lambda: ([Call(f"call {number}", feed)] for number, feed in enumerate(feeds)), len(feeds))


def _take(data: Data, count: int) -> Iterator[Sequence[Call]]:
    """The first calls, or a single one again and again."""
    calls: list[Call] = []
    for part in data.read():
        for call in part:
            calls.append(call)
            if len(calls) == count:
                yield from ([each] for each in calls)
                return
    if len(calls) != 1:
        raise NetError(
            f"there are inputs for {len(calls)} calls, expected {count}",
            fix=Worded("leave out {}, or use {}", Option("calls"), Option("calls", max(len(calls), 1))),
        )
    yield from ([calls[0]] for _ in range(count))

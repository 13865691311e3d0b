"""Reading the inputs of several calls from an npz file, and writing their outputs into one."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import BinaryIO, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile, ArraysOnRequest
from prototrt.caffe_proto.weights.npz import ArrayHeader
from prototrt.converter.files.signatures.signature import Signature, concrete, lost_state_error
from prototrt.converter.files.writing.files import atomic_write
from prototrt.surgery.ir import Array

Feeds: TypeAlias = Mapping[str, Array]
_MOST_CALLS = 1000  # where the file itself does not hold inputs for half of them


def read_feeds(
    path: str,
    inputs: Iterable[str],
    calls: int | None = None,
    check: Callable[[Sequence[Mapping[str, ArrayHeader]]], None] | None = None,
    fix: Callable[[int], str] | None = None,
) -> list[Feeds]:
    """The inputs of each call.

    An array called ``NAME`` is fed in every call, ``NAME/0`` only in call 0, ``NAME/1`` only in call 1, and so on.
    Without ``calls``, the largest number says how many calls there are, at least one. Other arrays are not read, and
    those of single calls on request, each time: a small file can hold many calls.
    ``check`` sees the types and shapes of all calls before any array is read.
    Raises ``ConversionError`` for a file that cannot be read, and for numbers beyond ``calls``, with ``fix``, which
    takes the number of calls that the file has arrays for.
    """
    names, file = set(inputs), ArraysOfFile(path)
    headers = file.headers
    keys = [
        {name: key for name, key in call.items() if name in names}
        for call in _by_call(headers, names, calls, path, fix)
    ]
    if check is not None:
        check([{name: headers[key] for name, key in call.items()} for call in keys])
    shared = file.load({key for call in keys for name, key in call.items() if key == name})
    return [_feeds(call, shared, file) for call in keys]


def _feeds(keys: Mapping[str, str], shared: Feeds, file: ArraysOfFile) -> Feeds:
    if all(key in shared for key in keys.values()):
        return {name: shared[key] for name, key in keys.items()}
    makers = {
        name: partial((shared if key in shared else file).__getitem__, key) for name, key in keys.items()
    }
    return ArraysOnRequest(makers, {name: file.headers[key].shape for name, key in keys.items()})


def _by_call(
    keys: Iterable[str],
    names: Collection[str],
    calls: int | None,
    path: str,
    fix: Callable[[int], str] | None,
) -> list[dict[str, str]]:
    """For each call, the key in the file of each array that is fed. Raises ``ConversionError``."""
    every: dict[str, str] = {}
    single: dict[int, dict[str, str]] = {}
    for key in keys:
        if (numbered := _of_one_call(key, names)) is not None:
            name, number = numbered
            single.setdefault(number, {})[name] = key
        else:
            every[key] = key
    count = calls or max(single, default=0) + 1
    if beyond := [call for call in single if call >= count]:
        raise ConversionError(
            f"has arrays for call {max(beyond)}, but {_call_numbers(count)}",
            where=path,
            fix=(fix or _run_with)(max(beyond) + 1),
        )
    if calls is None and count > max(2 * len(single), _MOST_CALLS):
        raise ConversionError(
            f"has arrays for call {count - 1}, but for only {len(single)} calls in all",
            where=path,
            fix=Worded(
                "number the calls from 0 on, or say how many there are with {}", Option("calls", count)
            ),
        )
    return [{**every, **single.get(call, {})} for call in range(count)]


def _run_with(calls: int) -> str:
    return Worded("run with {}, or leave {} out", Option("calls", calls), Option("calls"))


def _call_numbers(count: int) -> str:
    return "there is only call 0" if count == 1 else f"there are {count} calls, from 0 to {count - 1}"


def _of_one_call(key: str, names: Collection[str]) -> tuple[str, int] | None:
    """The name and the call of an array that is fed in one call only; None for other arrays."""
    name, _, number = key.rpartition("/")
    is_numbered = key not in names and name in names and re.fullmatch(r"[0-9]{1,18}", number)
    return (name, int(number)) if is_numbered else None


def refuse_misfits(
    path: str, feeds: Sequence[Mapping[str, Array | ArrayHeader]], signature: Signature
) -> None:
    """Raise ``ConversionError`` for inputs that are missing or have another shape, before the first call is computed.

    It also refuses a call with another number of streams than the call before, unless its states are given.
    """
    carried: dict[str, tuple[int, ...]] = {}
    for call, feed in enumerate(feeds):
        try:
            signature.refuse_names(feed)
            sizes = signature.sizes({name: array.shape for name, array in feed.items()})
            for name, value in signature.states.items():
                expected = concrete(value.shape, sizes)
                if name not in feed and carried.get(name, expected) != expected:
                    fix = f'give this call the state, too, in a file as "{name}/{call}"; zeros start anew'
                    raise lost_state_error(value, carried[name], expected, fix)
                carried[name] = expected
        except ConversionError as error:
            error.where = path if len(feeds) == 1 else f"{path}, call {call}"
            raise


def unread_arrays(path: str, inputs: Iterable[str]) -> list[str]:
    """A warning if the file holds arrays that are not inputs of the net; empty otherwise."""
    names = list(inputs)
    others = unread_keys(path, names)
    if not others:
        return []
    return [Worded("{}: not read: the inputs are {}: {}", path, listed(names), listed(others, most=5))]


def unread_keys(path: str, names: Collection[str]) -> list[str]:
    """The keys of the arrays that ``read_feeds`` would not read for these names."""
    return [key for key in ArraysOfFile(path).headers if key not in names and not _of_one_call(key, names)]


def write_results(path: str, results: Sequence[Mapping[str, Array]]) -> None:
    """Write the outputs of each call: ``NAME`` if there is one call, else ``NAME/0``, ``NAME/1`` and so on.

    Raises ``ConversionError`` if the file cannot be written.
    """
    with atomic_write(path) as stream:
        write_npz(stream, _with_keys(results))


def write_npz(stream: BinaryIO, arrays: Iterable[tuple[str, Array]]) -> None:
    """Not ``np.savez``: it takes the names as keywords, so that no blob could be called "file"."""
    with zipfile.ZipFile(stream, "w") as archive:
        for key, array in arrays:
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _with_keys(results: Sequence[Mapping[str, Array]]) -> Iterator[tuple[str, Array]]:
    for call, outputs in enumerate(results):
        for name, array in outputs.items():
            yield (name if len(results) == 1 else f"{name}/{call}"), array

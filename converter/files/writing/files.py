"""Writing files so that a failed run leaves nothing behind; and facts as JSON, for programs."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.files import ascii_json, fix_of_drive
from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.publication import is_device, publication

FORMAT = 1
"""Of all results for programs. It changes when a key goes, or changes its meaning; docs/schemas describes them."""


def json_text(facts: object) -> str:
    """The facts as ASCII text with a final line break. Names are exact, and no terminal interprets them."""
    return ascii_json(facts, indent=2) + "\n"


def result_text(facts: Mapping[str, object]) -> str:
    """The result of a command, with the number of its format."""
    return json_text({"format": FORMAT, **facts})


class HashedStream:
    """Writes to a stream and hashes, each in a thread of its own, while the caller makes the next pieces.

    One piece is held at a time. A failure to write raises with the next piece, or when the hash is asked for.
    """

    def __init__(self, stream: BinaryIO, threads: Executor) -> None:
        self.bytes = 0
        self._stream = stream
        self._digest = hashlib.sha256()
        self._threads = threads
        self._held: list[Future[Any]] = []

    @property
    def sha256(self) -> str:
        """SHA-256 of what is written so far, in hexadecimal."""
        self._wait()
        return self._digest.hexdigest()

    def write(self, piece: bytes | memoryview) -> None:
        """Take a piece, once the one before it is written."""
        self._wait()
        self._held = [self._threads.submit(take, piece) for take in (self._stream.write, self._digest.update)]
        self.bytes += len(piece)

    def _wait(self) -> None:
        while self._held:
            self._held.pop().result()


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file only if the block succeeds.

    They are written beside the target and renamed. A target that cannot be replaced (``/dev/null``, a pipe)
    is written directly. Raises ``ConversionError``.
    """
    with publication(path) as files, files.create(path) as stream:
        yield stream


def size_lines(files: Iterable[str]) -> list[str]:
    """``net.plan: 1.2 MB`` of each file; a device or a pipe has no size."""
    return [f"{file}: {text_of_bytes(os.path.getsize(file))}" for file in files if os.path.isfile(file)]


def write_fault(path: str | os.PathLike[str], *, follow_link: bool = True) -> str | None:
    """Why a file cannot be written there, as far as can be seen beforehand; None if it can.

    Unless ``follow_link``, a link of this name would be replaced.
    """
    if fault := name_fault(os.fsdecode(path)):
        return fault
    place = Path(path)
    target = Path(os.path.realpath(path)) if follow_link else Path(os.path.realpath(place.parent), place.name)
    try:
        target.stat()
    except OSError as error:
        if error.errno in _UNREACHABLE:
            return _UNREACHABLE[error.errno]
    if target.is_dir():
        return f'"{path}" is a folder'
    if not target.parent.is_dir():
        return f'the folder "{Path(path).parent}" does not exist'
    if not os.access(target if is_device(target) else target.parent, os.W_OK):
        return f'the folder "{Path(path).parent}" is not writable'
    return None


def name_fault(path: str) -> str | None:
    """Why no file and no folder can have this name; None if one can."""
    if not path:
        return "its name is empty"
    if "\0" in path:
        return "a name cannot hold a NUL"
    if "\\" in path and (fix := fix_of_drive(path)):
        return f"it is a path of Windows: {fix}"
    return None


def suffix_fault(target: str, suffixes: Sequence[str]) -> str | None:
    """Why no file of this name is written; None if its suffix is one of these. A device needs none.

    A number is not a suffix: ``net-1.2`` has none, as ``""`` among the suffixes allows.
    """
    suffix = Path(target).suffix.lower()
    actual = "" if suffix[1:].isdecimal() else suffix
    if not suffixes or actual in suffixes or is_device(target):
        return None
    endings = [each for each in suffixes if each]
    expected = endings[0] if len(endings) == 1 else f"{', '.join(endings[:-1])} or {endings[-1]}"
    return f'"{target}" {f"ends in {suffix}" if suffix else "has no suffix"}, expected {expected}'


_UNREACHABLE = {
    errno.EACCES: "permission denied",
    errno.ELOOP: "it is a link to itself",
    errno.ENAMETOOLONG: "its name is too long",
}


def refuse_overwriting(written: Iterable[tuple[Option, str]], read: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ``OptionsError`` if a file that is read would be written, or a file twice, under whatever names.

    ``written`` are files, each with the option that asks for it. Devices may be both. What is read is not looked at
    unless something would be overwritten.
    """
    written = [*written]
    sources = read if any(os.path.exists(file) for _, file in written) else ()
    inputs = {_identity(file): os.fspath(file) for file in sources if os.path.isfile(file)}
    outputs: dict[object, Option] = {}
    for option, file in written:
        if is_device(file):
            continue
        if source := inputs.get(_identity(file)):
            raise OptionsError(
                Worded('{} would overwrite "{}", which is read', option, source),
                fix="give another output file",
            )
        other = outputs.setdefault(_identity(file), option)
        if other != option:
            raise OptionsError(
                Worded('{} and {} would both write "{}"', other, option, file),
                fix="give each its own file",
            )


def _identity(file: str | os.PathLike[str]) -> object:
    """What all names of a file have in common; of one that does not exist yet, its path without links."""
    try:
        status = os.stat(file)
    except OSError:
        return os.path.realpath(file)
    return status.st_dev, status.st_ino

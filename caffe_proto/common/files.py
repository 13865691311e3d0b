"""Opening the user's files; and JSON, theirs and that for programs."""

from __future__ import annotations

import json
import mmap
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.suggestions import choices, close_names

Identity: TypeAlias = tuple[int, ...]
Buffer: TypeAlias = mmap.mmap | bytes
_SMALL = 16 << 20  # bytes; read in a few milliseconds
_BLOCK = 1 << 16  # bytes; they stay in a processor's cache until they are hashed
_SPECIAL = (
    (stat.S_ISFIFO, "a device or a pipe"),
    (stat.S_ISCHR, "a device or a pipe"),
    (stat.S_ISBLK, "a device or a pipe"),
    (stat.S_ISSOCK, "a socket"),
)
_URL = re.compile(r"[a-z]+://")
_ON_A_DRIVE = re.compile(r"[A-Za-z]:(?!/)")
LARGEST_TEXT = 64_000_000
"""Bytes of a text or a net without weights; the largest published prototxt has less than a sixtieth of that."""
LARGEST_CACHE = 1_000_000_000
"""Bytes of a cache of TensorRT: of timings, or of kernels."""
LARGEST_IMAGE = 300_000_000
"""Bytes of an image: 64 million pixels of four bytes, and room for what else its file holds."""


@contextmanager
def errors_for_user(file: str, what: str) -> Iterator[None]:
    """Turn errors of the operating system into messages. ``what`` is the expected file, as in "a prototxt"."""
    try:
        yield
    except FileNotFoundError as error:
        if _URL.match(file):
            raise UnreadableFileError(
                f"this is a URL, expected {what}", where=file, fix="download the file, and give its name"
            ) from error
        raise UnreadableFileError(
            f"there is no such file{_missing_file_detail(file)}",
            where=file or '""',
            fix=_missing_file_fix(file),
        ) from error
    except IsADirectoryError as error:
        raise UnreadableFileError(
            f"this is a directory, expected {what}", where=file, fix="give the file itself"
        ) from error
    except PermissionError as error:
        fix = "allow reading the file (chmod u+r)"
        raise UnreadableFileError(
            "the file cannot be read: permission denied", where=file, fix=fix
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnreadableFileError(
            f"the file cannot be read: {error}",
            where=file,
            fix="check its name, or get it again",
        ) from error


def open_regular(file: str | os.PathLike[str], what: str) -> BinaryIO:
    """Open a file to be read. A pipe or a device may never end, or never begin, and is refused.

    ``what`` is the expected file, as in "a prototxt". Raises ``OSError`` and ``UnreadableFileError``.
    """
    mode = os.stat(file).st_mode
    kind = next((words for is_kind, words in _SPECIAL if is_kind(mode)), None)
    if kind is not None:
        raise UnreadableFileError(
            f"this is {kind}, expected {what}", where=os.fsdecode(file), fix="save it as a regular file"
        )
    return open(file, "rb")


def read_regular(file: str | os.PathLike[str], what: str, most: int | None = LARGEST_TEXT) -> bytes:
    """The contents of a file that ``open_regular`` opens. One with more than ``most`` bytes is not read."""
    with open_regular(file, what) as stream:
        refuse_size(file, os.fstat(stream.fileno()).st_size, what, most)
        return stream.read()


def refuse_size(
    file: str | os.PathLike[str],
    size: int,
    what: str,
    most: int | None = LARGEST_TEXT,
    fix: str | None = None,
) -> None:
    """Raise ``UnreadableFileError`` for a file of too many bytes."""
    if most is not None and size > most:
        raise UnreadableFileError(
            f"the file has {text_of_bytes(size)}, expected {what} of at most {text_of_bytes(most)}",
            where=os.fsdecode(file),
            fix=fix or "give the right file, or get it again",
        )


def identity_of(file: str | os.PathLike[str]) -> Identity | None:
    """What changes when a file is replaced or written to; None if there is no such file."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def change_since(read: Mapping[str, Identity | None]) -> UnreadableFileError | None:
    """The error for the first of these files that has changed since it had this identity; None if none has."""
    changed = (file for file, before in read.items() if before is not None and identity_of(file) != before)
    return next(map(change_error, changed), None)


def change_error(file: str) -> UnreadableFileError:
    """The error for a file whose identity has changed since it was opened."""
    return UnreadableFileError(
        "the file changed while it was read",
        where=file,
        fix="try again when nothing writes to the file",
    )


class MappedFile(mmap.mmap):
    """A file in memory, page by page as it is read. ``file`` is its name."""

    file: str

    def seekable(self) -> bool:
        """zipfile asks for it; before Python 3.13 it is missing."""
        return True


def map_file(stream: BinaryIO) -> Buffer:
    """The contents of a file: read if they are small, else mapped.

    If a mapped file is cut short while it is in use, the system ends the process with SIGBUS.
    """
    if os.fstat(stream.fileno()).st_size > _SMALL:
        mapped = MappedFile(stream.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.file = stream.name
        return mapped
    stream.seek(0)
    return stream.read()


def _missing_file_detail(file: str) -> str:
    if os.path.islink(file):
        return f": this is a link to {os.readlink(file)}, which is not there"
    folder = Path(file).parent
    return "" if folder.is_dir() else f": there is no folder {folder} either"


def fix_of_drive(file: str) -> str | None:
    """What to write instead of a path of Windows, on another system."""
    if os.name == "nt" or not _ON_A_DRIVE.match(file):
        return None
    return f"write the path as this system does: in WSL, {file[:2]} is /mnt/{file[0].lower()}"


def _missing_file_fix(file: str) -> str:
    if not file:
        return "give the name of a file"
    if file.startswith("~"):
        return "write out the path: ~ stands for a folder only where a shell reads it"
    if fix := fix_of_drive(file):
        return fix
    if os.path.islink(file):
        return "link it to a file that is there, or give that file"
    path = Path(file)
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return "check the path"
    if close := close_names(path.name, names):
        return f"did you mean {path.with_name(close[0])}?"
    alike = sorted(name for name in names if path.suffix and Path(name).suffix == path.suffix)
    if alike:
        return f"give a file that is there: {choices(path.name, alike)}"
    return "check the path" if path.is_absolute() else f"check the path; the current folder is {Path.cwd()}"


def sha256_of_stream(stream: BinaryIO) -> str:
    """The digest of the rest of the file, in hexadecimal."""
    import hashlib  # it loads OpenSSL

    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def ascii_json(value: object, indent: int | None = None) -> str:
    """The value in ASCII. Texts are exact; neither a terminal nor a CI system finds a command in them."""
    text = json.dumps(value, indent=indent).replace("[[ATTACHMENT|", "[\\u005bATTACHMENT|")
    return text.replace("\x7f", "\\u007f").replace("##", "\\u0023\\u0023")


def value_from_json(text: str | bytes) -> Any:
    """Raises ``ValueError``, in words for a reader, for what is not JSON or more than Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number in it has too many digits") from None

"""Messages about a binary file whose contents are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.wire import CutShortError, WireError


@contextmanager
def damage_errors(file: str, size: int, what: str) -> Iterator[None]:
    """Turn a ``WireError`` into a message about a file of ``size`` bytes. ``what`` is its kind, as in "caffemodel"."""
    try:
        yield
    except CutShortError as error:
        if error.end < size:  # a field is longer than the field that holds it
            raise damage_error(file, what, error.problem) from error
        raise UnreadableFileError(
            f"the file is cut short: the field at byte {error.offset} needs {error.missing} bytes more",
            where=file,
            because=f"the file has {size} bytes",
            fix="get the file again",
        ) from error
    except WireError as error:
        raise damage_error(file, what, error.problem) from error


def damage_error(file: str, what: str, because: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"this is not a valid {what}, or it is damaged", where=file, because=because, fix="get the file again"
    )

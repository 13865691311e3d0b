"""Text files. The parser of its reader reads each of them before it appears: a mistake of ours is found here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from prototrt.converter.files.writing.publication import Publication, publication

if TYPE_CHECKING:
    from prototrt.caffe_proto.schema import Message

Reader: TypeAlias = Callable[[str], object]
"""Raises ``ValueError`` or ``SyntaxError`` for a text that the file's readers do not take."""


class InvalidTextError(Exception):
    """A text that its reader would not read: an internal error, after which nothing is written."""


def check_text(file: str | os.PathLike[str], text: str, reader: Reader | None) -> bytes:
    """The content of a file, once its reader has read it. Without a ``reader``, only tests have one."""
    try:
        if reader is not None:
            reader(text)
        return text.encode()
    except (SyntaxError, ValueError) as error:
        raise InvalidTextError(
            f"{os.fspath(file)} would be written so that nothing reads it: {error}"
        ) from error


def write_text(files: Publication, path: str | os.PathLike[str], text: str, reader: Reader | None) -> None:
    """Write a text among files that appear together."""
    content = check_text(path, text, reader)
    with files.create(path) as stream:
        stream.write(content)


def atomic_text(path: str | os.PathLike[str], text: str, reader: Reader | None) -> None:
    """Write a text into a file of its own. Raises ``ConversionError``."""
    with publication(path) as files:
        write_text(files, path, text, reader)


def json_value(text: str) -> object:
    return json.loads(text)


def python(text: str) -> object:
    """Python's compiler sees more than its parser, as two arguments of one name."""
    return compile(text, "<written>", "exec", dont_inherit=True)


def prototxt(text: str) -> object:
    """protobuf reads it for Caffe. Our own reader has limits for what strangers write."""
    from prototrt.caffe_proto.schema import message_class

    return _parse(text, message_class("NetParameter"))


def predict_net(text: str) -> object:
    """protobuf reads it for Caffe2."""
    from prototrt.caffe_proto.caffe2.schema import message_class

    return _parse(text, message_class("NetDef"))


def _parse(text: str, kind: Callable[[], Message]) -> object:
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, kind())
    except text_format.Error as error:
        raise ValueError(str(error)) from error


def xml(text: str) -> object:
    from xml.etree import ElementTree

    return ElementTree.fromstring(text)

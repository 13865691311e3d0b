"""A file with the name of a class in each line."""

from __future__ import annotations

import re

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.files import errors_for_user, read_regular
from prototrt.caffe_proto.common.wording import Option, Worded


def read_labels(file: str) -> list[str]:
    """The names of the classes. Raises ``OptionsError`` and ``UnreadableFileError``."""
    with errors_for_user(file, "a file of labels"):
        content = read_regular(file, "a file of labels")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionsError(
            Worded('{} "{}" is not UTF-8', Option("labels"), file),
            fix="give a text file with the name of a class in each line",
        ) from error
    # Not by splitlines: what else ends a line for Python is a character of a label.
    lines = re.split(r"\r\n?|\n", text)
    return [line.strip() for line in lines if line.strip()]

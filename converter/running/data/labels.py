"""A file with the name of a class in each line."""

from __future__ import annotations

import re

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.files import read_regular
from prototrt.caffe_proto.common.wording import Option, Worded


def read_labels(file: str) -> list[str]:
    """The names of the classes. Raises ``OptionsError``."""
    try:
        # Not by splitlines: what else ends a line for Python is a character of a label.
        lines = re.split(r"\r\n?|\n", read_regular(file, "a file of labels").decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionsError(
            Worded('{} "{}" cannot be read: {}', Option("labels"), file, error),
            fix="give a text file with the name of a class in each line",
        ) from error
    return [line.strip() for line in lines if line.strip()]

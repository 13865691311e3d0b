"""What reaches the user's terminal."""

from __future__ import annotations

import sys

from prototrt.caffe_proto.common.visible import visible
from prototrt.converter.commandline.waiting import held_back


def show(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text of any origin. No name in it can move the cursor, or be lost on the way."""
    put(visible(text) + end, err=err)


def put(text: str, *, err: bool = False) -> None:
    """Print text that is safe to show, without a line break after it.

    Not by click: where the terminal lacks a character, it prints a question mark.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is not None:  # as it is where the user has closed it
        with held_back():
            stream.write(text)
            stream.flush()

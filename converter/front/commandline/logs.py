"""How what our modules log reads on a terminal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TextIO

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.printing import held_back

if TYPE_CHECKING:
    TextHandler = logging.StreamHandler[TextIO]
else:
    TextHandler = logging.StreamHandler  # generic at run time from Python 3.11 on


class Handler(TextHandler):
    """Writes to stderr, between two drawings of the waiting line."""

    def emit(self, record: logging.LogRecord) -> None:
        with held_back():
            super().emit(record)


class Line(logging.Formatter):
    """A warning in the form of the commands' own; lines of ``-v`` begin with their module."""

    def format(self, record: logging.LogRecord) -> str:
        from prototrt.converter.front.commandline.wording import in_command_line_words

        origin = "warning" if record.levelno == logging.WARNING else record.name
        if isinstance(record.args, tuple):
            record.args = tuple(in_command_line_words(part) for part in record.args)
        return visible_line(f"{origin}: {record.getMessage()}")

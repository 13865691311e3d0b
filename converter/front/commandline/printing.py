"""How commands print: text that is safe to show, a line while a command works, summaries, warnings, results."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, TypeVar

import click

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.front.commandline.options.common import refuse_files_read_and_written, verbosity

if TYPE_CHECKING:
    from prototrt.converter.files.writing.texts import Reader
    from prototrt.surgery.ir import Graph


_DELAY = 0.1
"""Seconds before the line is drawn. A command that takes less shows none, and seems to take no time."""
_PAUSE = 0.1
_SIGNS = "|/-\\"
_ERASE = "\r\x1b[2K"


class WaitingLine:
    """``| prototrt convert: working for 3 s``, redrawn by a thread of its own, and erased for other output."""

    def __init__(self, text: str, stream: TextIO) -> None:
        self._text, self._stream = text, stream
        self._began = time.monotonic()
        self._count = 0
        self._held = 0
        self._is_drawn = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._erase()

    def draw(self) -> None:
        """Draw the line, unless other output holds it back."""
        with self._lock:
            if not self._held:
                seconds = int(time.monotonic() - self._began)
                self._write(
                    f"{_ERASE}{_SIGNS[self._count % len(_SIGNS)]} {self._text}: working for {seconds} s"
                )
                self._count += 1
                self._is_drawn = True

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Erase the line, and do not draw it within the block."""
        with self._lock:
            self._held += 1
            self._erase()
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1

    def _redraw(self) -> None:
        pause = _DELAY
        while not self._ended.wait(pause):
            self.draw()
            pause = _PAUSE

    def _erase(self) -> None:
        if self._is_drawn:
            self._write(_ERASE)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # a terminal that is gone; the command may end without it
            self._ended.set()


_lines: list[WaitingLine] = []
"""The line of the running command. Whoever prints must erase it, wherever that is."""


@contextmanager
def show_waiting(text: str) -> Iterator[None]:
    """Within the block, tell on the terminal that the command works; do nothing elsewhere, and under ``-q``."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if not is_terminal or verbosity().quiet:
        yield
        return
    line = WaitingLine(text, sys.stderr)
    _lines.append(line)
    line.start()
    try:
        yield
    finally:
        _lines.remove(line)
        line.stop()


@contextmanager
def held_back() -> Iterator[None]:
    """Within the block, something else is shown on the terminal."""
    if not _lines:
        yield
        return
    with _lines[-1].held_back():
        yield


def show(text: str = "", *, err: bool = False) -> None:
    """Print text of any origin on one line. No name in it can move the cursor, or be lost on the way."""
    put(f"{visible_line(text)}\n", err=err)


def show_lines(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print lines of any origin. Each name in them is on one line already."""
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


PRINTED = "prototrt.printed"
"""In the context of a command: whether its result is printed as JSON, so that no failure may follow there."""


class Result(Protocol):
    """What a command has found, as facts for programs."""

    def as_dict(self) -> dict[str, Any]: ...


class SummarizedResult(Result, Protocol):
    """A result with a summary for people."""

    @property
    def summary(self) -> str | Iterable[str]:
        """A line, or several."""


R = TypeVar("R", bound=Result)


class Report(NamedTuple):
    """What a command has done: lines for people, and facts for programs."""

    summary: Sequence[str]
    facts: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {**self.facts}


def print_result(result: R, as_json: bool, in_words: Callable[[R], None]) -> None:
    """Print a result: for people, or with ``--json`` for programs, whatever ``-q`` says."""
    if as_json:
        print_json(result.as_dict())
    else:
        in_words(result)


def tell_summary(result: SummarizedResult) -> None:
    """Print the summary of a result, unless ``-q``."""
    for line in [result.summary] if isinstance(result.summary, str) else result.summary:
        tell(line)


def tell(text: str, *, err: bool = False) -> None:
    """Print a line, unless ``-q``."""
    if not verbosity().quiet:
        show(text, err=err)


def tell_written(file: str) -> None:
    """Print which file was written, and how large it is, unless ``-q``."""
    from prototrt.converter.files.writing.files import size_lines

    for line in size_lines([file]):
        tell(line)


def warn(warnings: Sequence[str], insist: Collection[str] = ()) -> None:
    """Print warnings on stderr; under ``-q`` only those to ``insist`` on."""
    from prototrt.converter.front.commandline.wording import in_command_line_words

    for warning in in_command_line_words(warnings):
        if warning in insist or not verbosity().quiet:
            show(f"warning: {warning}", err=True)


def report_graph(graph: Graph) -> Graph:
    """The graph in the command line's words, after its warnings are printed.

    Raises ``OptionsError`` if an output would overwrite a source.
    """
    from prototrt.converter.front.commandline.wording import command_line_words

    graph = graph.in_words_of(command_line_words)
    refuse_files_read_and_written(click.get_current_context(), [source.file for source in graph.sources])
    warn(graph.warnings, insist=[layer.warning for layer in graph.left_out])
    return graph


def print_json(facts: Mapping[str, object]) -> None:
    """Print facts as JSON, whatever ``-q`` says."""
    from prototrt.converter.files.writing.files import result_text
    from prototrt.converter.front.commandline.wording import in_command_line_words

    show_lines(result_text(in_command_line_words(facts)), end="")
    click.get_current_context().meta[PRINTED] = True


def write_text(target: str | None, text: str, reader: Reader | None) -> None:
    """Write the text to a file, or print it, once its reader has read it."""
    from prototrt.converter.files.writing.texts import atomic_text, check_text

    if target is None:
        show_lines(check_text("standard output", visible(text), reader).decode(), end="")
    else:
        atomic_text(target, text, reader)

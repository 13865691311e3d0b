"""How commands print: summaries, warnings, results as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from prototrt.converter.commandline.options.common import verbosity
from prototrt.converter.commandline.options.refusals import refuse_files_read_and_written
from prototrt.converter.commandline.terminal import show, show_lines

if TYPE_CHECKING:
    from prototrt.surgery.ir import Graph

PRINTED = "prototrt.printed"
"""In the context of a command: whether its result is printed as JSON, so that no failure may follow there."""


class Result(Protocol):
    """What a command has found, as facts for programs."""

    def as_dict(self) -> dict[str, Any]: ...


class Summarized(Result, Protocol):
    """A result with a summary for people."""

    @property
    def summary(self) -> str | Sequence[str]:
        """A line, or several."""


R = TypeVar("R", bound=Result)


def print_result(result: R, as_json: bool, in_words: Callable[[R], None]) -> None:
    """Print a result: for people, or with ``--json`` for programs, whatever ``-q`` says."""
    if as_json:
        print_json(result.as_dict())
    else:
        in_words(result)


def tell_summary(result: Summarized) -> None:
    """Print the summary of a result, unless ``-q``."""
    for line in [result.summary] if isinstance(result.summary, str) else result.summary:
        tell(line)


def tell(text: str) -> None:
    """Print a line, unless ``-q``."""
    if not verbosity().quiet:
        show(text)


def tell_written(file: str) -> None:
    """Print which file was written, and how large it is, unless ``-q``."""
    from prototrt.caffe_proto.common.sizes import text_of_bytes

    if Path(file).is_file():  # a device or a pipe has no size
        tell(f"{file}: {text_of_bytes(Path(file).stat().st_size)}")


def warn(warnings: Sequence[str], insist: Collection[str] = ()) -> None:
    """Print warnings on stderr; under ``-q`` only those to ``insist`` on."""
    from prototrt.converter.commandline.wording import in_command_line_words

    for warning in in_command_line_words(warnings):
        if warning in insist or not verbosity().quiet:
            show(f"warning: {warning}", err=True)


def report_graph(graph: Graph) -> Graph:
    """The graph in the command line's words, after its warnings are printed.

    Raises ``OptionsError`` if an output would overwrite a source.
    """
    from prototrt.converter.commandline.wording import command_line_words

    graph = graph.in_words_of(command_line_words)
    refuse_files_read_and_written(click.get_current_context(), [source.file for source in graph.sources])
    warn(graph.warnings, insist=[layer.warning for layer in graph.left_out])
    return graph


def print_json(facts: Mapping[str, object]) -> None:
    """Print facts as JSON, whatever ``-q`` says."""
    from prototrt.converter.commandline.wording import in_command_line_words
    from prototrt.converter.writing.json_text import result_text

    show_lines(result_text(in_command_line_words(facts)), end="")
    click.get_current_context().meta[PRINTED] = True


def write_text(target: str | None, text: str) -> None:
    """Write the text to a file, or print it."""
    from prototrt.converter.writing.files import atomic_write

    if target is None:
        show_lines(text, end="")
    else:
        with atomic_write(target) as stream:
            stream.write(text.encode())

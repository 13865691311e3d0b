"""What a failure tells: a message for people and, under ``--json``, the same facts for programs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.front.commandline.printing import show_lines

if TYPE_CHECKING:
    from prototrt.caffe_proto.common.errors import ConversionError

Facts = Mapping[str, "str | None"]


@dataclass(frozen=True)
class Failure:
    """Why a command fails: the error's class, the exit code, the message, and its problems one by one."""

    kind: str
    exit_code: int
    message: str
    problems: tuple[Facts, ...]

    @classmethod
    def of(cls, kind: str, exit_code: int, problem: str, fix: str | None = None) -> Failure:
        """A single problem, of no layer."""
        from prototrt.caffe_proto.common.wording import Worded

        message = (
            Worded("error: {}", problem) if fix is None else Worded("error: {}\n  fix: {}", problem, fix)
        )
        return cls(kind, exit_code, message, (_facts(problem=problem, fix=fix),))

    def as_dict(self) -> dict[str, object]:
        return {"error": {"kind": self.kind, "exit_code": self.exit_code, "problems": list(self.problems)}}

    def print(self, as_json: bool) -> None:
        """On stderr, and as JSON on stdout; without a word where neither can be written."""
        with suppress(OSError):
            show_lines(self.message, err=True)
        if as_json:
            self.print_json()

    def print_json(self) -> None:
        from prototrt.converter.files.writing.files import result_text

        with suppress(OSError):
            show_lines(result_text(self.as_dict()), end="")


def failure_of(error: Exception, *, whole: bool = False) -> Failure:
    """What an exception means to whoever typed the command; ``whole``: in a message that shortens no list."""
    from prototrt.caffe_proto.common.errors import ConversionError, Problems
    from prototrt.caffe_proto.common.wording import Worded
    from prototrt.converter.front.commandline.wording import command_line_words

    kind = type(error).__name__
    if isinstance(error, ConversionError):
        single = error.errors if isinstance(error, Problems) else (error,)
        message = f"error: {error.text.by(command_line_words, whole=whole)}"
        return Failure(kind, error.exit_code, message, tuple(map(_parts, single)))
    if isinstance(error, click.ClickException):
        # Its classes are click's own. What the library refused still has its parts.
        usage, text = partial(Failure, "UsageError", error.exit_code), error.format_message()
        if isinstance(error.__cause__, ConversionError):
            return usage(f"error: {text}", (_parts(error.__cause__),))
        problem, _, fix = text.partition("\n  fix: ")
        return usage(f"error: {text}", (_facts(problem=problem, fix=fix or None),))
    if isinstance(error, MemoryError):
        fix = "use a machine with more memory, or smaller shapes and layers"
        return Failure.of(kind, 3, "the machine does not have enough memory for this net", fix)
    if isinstance(error, OSError):  # such as a full disk, which the library cannot foresee
        file = "" if error.filename is None else f': "{error.filename}"'
        return Failure.of(kind, 3, f"the system reports: {error.strerror or error}{file}")
    problem, fix = f"{kind}: {error}", "Please run the command again with --debug and report its output."
    return Failure(
        kind, 1, Worded("internal error: {}\n{}", problem, fix), (_facts(problem=problem, fix=fix),)
    )


def _parts(error: ConversionError) -> Facts:
    """The parts of the message."""
    from prototrt.caffe_proto.common.wording import worded
    from prototrt.converter.front.commandline.wording import command_line_words

    parts = {"problem": error.problem, "because": error.because, "fix": error.fix}
    words = {name: text and worded(text, command_line_words, whole=True) for name, text in parts.items()}
    if error.origin is None:
        return _facts(**words, where=error.where, blob=error.blob)
    origin = error.origin
    where = f"{origin.file}:{origin.line}" if origin.line else origin.file
    return _facts(
        **words, where=where, layer=origin.operator or origin.layer, type=origin.type, blob=error.blob
    )


def _facts(**facts: str | None) -> Facts:
    """All keys are always there."""
    return {**dict.fromkeys(("where", "layer", "type", "blob", "problem", "because", "fix")), **facts}

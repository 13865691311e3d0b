"""Calls of functions in a user's file, whose mistakes are errors of that file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import extract_tb
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, NetError

FAILURES = (Exception, SystemExit)
"""What a user's code may end with: one written as a script calls ``sys.exit``, which would end us in silence."""


@contextmanager
def errors_of_user(file: str) -> Iterator[None]:
    """Turn whatever a function of the file raises into an error that names the line."""
    try:
        yield
    except ConversionError:
        raise
    except FAILURES as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
        place = f"{file}:{lines[-1]}" if lines else file
        raise wrong_function(place, f"{type(error).__name__}: {error}") from error


def wrong_function(place: str, because: str) -> NetError:
    """The error for a function that fails, or returns something else than a rule needs."""
    return NetError(
        f"the rule in {place} fails", because=because, fix="correct the rule; docs/forks.md shows one"
    )


def file_of(function: Callable[..., Any]) -> str:
    """The file of a function that a file of rules defines, as its user named it."""
    return function.__code__.co_filename


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function."""
    return f"{file_of(function)}:{function.__code__.co_firstlineno}"

"""A user's Python function that yields the inputs of call after call."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.caffe_proto.common.files import errors_for_user, read_regular
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.user_code import FAILURES

_USUAL = "load_data"


def loader_of(text: str) -> Callable[[], Iterable[Any]]:
    """The function of ``load.py:batches``, or ``load_data`` of ``load.py``. Runs the file.

    What the file or the function raises becomes a ``ConversionError``, with the line.
    """
    file, colon, name = text.rpartition(":")
    if not colon:
        file, name = text, _USUAL
    if not file.endswith(".py") or not name.isidentifier():
        raise OptionsError(
            Worded("{} is {}, expected FILE.py:FUNCTION", Option("data_loader"), repr(text)),
            fix=Worded("use {}", Option("data_loader", f"load.py:{_USUAL}")),
        )
    with errors_for_user(file, "a Python file"):
        read_regular(file, "a Python file")
    with _import_path(file):
        defined = _in_words(file, lambda: runpy.run_path(file))
    function = defined.get(name)
    if not callable(function):
        there = [key for key, item in defined.items() if callable(item) and not key.startswith("_")]
        fix = f"did you mean {choices(name, there)}?" if there else f"define {name}() as a generator"
        raise ConversionError(f"has no function {name}", where=file, fix=fix)
    return lambda: _each(file, name, function)


def _each(file: str, name: str, function: Callable[[], Iterable[Any]]) -> Iterable[Any]:
    every = _in_words(file, function)
    try:
        each = iter(every)
    except TypeError as error:
        raise ConversionError(
            f"{name}() returns an object of the type {type(every).__name__}, expected a generator of dictionaries",
            where=file,
            fix='yield dictionaries, as in yield {"data": array}',
        ) from error
    nothing = object()
    while (item := _in_words(file, lambda: next(each, nothing))) is not nothing:
        yield item


@contextmanager
def _import_path(file: str) -> Iterator[None]:
    """Let the file import modules of its own folder, as a script does."""
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _in_words(file: str, action: Callable[[], Any]) -> Any:
    """What the action gives. A failure of the user's code names its line."""
    try:
        return action()
    except ConversionError:
        raise
    except FAILURES as error:
        line, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
        line = error.lineno if isinstance(error, SyntaxError) else line
        raise ConversionError(
            f"{type(error).__name__}: {error}",
            where=file if line is None else f"{file}:{line}",
            fix="correct the Python file",
        ) from error

"""Warnings of a net reach Python's ``warnings``, each once, whichever functions rewrite the net how often."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PACKAGE = __name__.partition(".")[0]
_OF_USERS = (f"{_PACKAGE}.tests.", f"{_PACKAGE}.samples.")
_is_silent: ContextVar[bool] = ContextVar("is_silent", default=False)


class ConversionWarning(UserWarning):
    """The net converts, but its user should know this: a layer left out, weights that nobody reads, a doubt.

    ``warnings.simplefilter("error", prototrt.ConversionWarning)`` makes errors of them.
    """


@contextmanager
def silent() -> Iterator[None]:
    """Within the block, nothing is told: whoever opened it tells it in a way of their own."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def tell(messages: Iterable[str], but: Iterable[str] = ()) -> None:
    """Warn of each text once, at the line that called the package. ``but`` were told before."""
    if _is_silent.get():
        return
    earlier = set(but)
    for text in dict.fromkeys(messages):
        if text not in earlier:
            warnings.warn(str(text), ConversionWarning, stacklevel=_levels_to_the_caller())


def _levels_to_the_caller() -> int:
    """How many frames are between ``warnings.warn`` in ``tell`` and the first one outside of the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    """Whether code of this module does not call the package from outside; decorators are contextlib's."""
    is_package = f"{module}.".startswith(f"{_PACKAGE}.") and not module.startswith(_OF_USERS)
    return is_package or module == "contextlib"

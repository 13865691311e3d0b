"""What is to be tried on a GPU, and how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prototrt.caffe_proto.common.errors import ConversionError

Attempt = Callable[[], str | tuple[str, ...]]
"""Tries something: gives a detail, or the numbers of a row; raises where it fails."""
BAD = ("FAILED", "WRONG", "CRASHED")
_LONGEST = 200


class NotHereError(Exception):
    """It cannot be tried on this machine; the text says why."""


@dataclass(frozen=True)
class Check:
    """One thing to try. What fails is told in a line, or whole where everything else depends on it."""

    what: str
    attempt: Attempt
    is_told_whole: bool = False


@dataclass(frozen=True)
class Row:
    """One thing that was tried. ``details`` are a text, or the numbers of a table."""

    what: str
    verdict: str
    details: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        return self.what, self.verdict, *self.details


def tried(check: Check) -> Row:
    """The row about an attempt, whatever becomes of it."""
    longest = None if check.is_told_whole else _LONGEST
    try:
        details = check.attempt()
    except NotHereError as error:
        return Row(check.what, "not tried", (str(error),))
    except ConversionError as error:
        return Row(check.what, "FAILED", (_line(error)[:longest],))
    except AssertionError as error:
        return Row(check.what, "WRONG", (_line(error)[:longest],))
    except Exception as error:
        return Row(check.what, "FAILED", (f"{type(error).__name__}: {_line(error)}"[:longest],))
    return Row(check.what, "ok", (details,) if isinstance(details, str) else details)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())

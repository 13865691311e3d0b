"""What is tried, and what came of it."""

from __future__ import annotations

from collections.abc import Callable

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.checking.selftest.privacy import anonymous

Attempt = Callable[[], str | tuple[str, ...]]
"""Tries something. Gives a detail, or the numbers of a row; raises if it fails."""
OK, NOT_TRIED, FAILED, WRONG, CRASHED = "ok", "not tried", "FAILED", "WRONG", "CRASHED"
BAD = (FAILED, WRONG, CRASHED)
_LONGEST = 200


class NotHereError(Exception):
    """It cannot be tried on this machine; the text says why."""


@dataclass(frozen=True)
class Check:
    """One thing to try. An error is one line of the report, or whole where everything else depends on it."""

    what: str
    attempt: Attempt
    keeps_whole_error: bool = False


@dataclass(frozen=True)
class Row:
    """One thing that was tried. ``details`` are a text, or the numbers of a table."""

    what: str
    verdict: str
    details: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        return self.what, self.verdict, *self.details


def row_of(check: Check) -> Row:
    """The row about an attempt, whatever becomes of it. It names nothing of the user's."""
    longest = None if check.keeps_whole_error else _LONGEST
    try:
        details = check.attempt()
    except NotHereError as error:
        return Row(check.what, NOT_TRIED, (_line(error),))
    except ConversionError as error:
        return Row(check.what, FAILED, (_line(error)[:longest],))
    except AssertionError as error:
        return Row(check.what, WRONG, (_line(error)[:longest],))
    except Exception as error:
        return Row(check.what, FAILED, (f"{type(error).__name__}: {_line(error)}"[:longest],))
    return Row(check.what, OK, (details,) if isinstance(details, str) else details)


def _line(error: Exception) -> str:
    return anonymous(" ".join(str(error).split()))

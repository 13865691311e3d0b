"""What was tried on a GPU, and how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prototrt.caffe_proto.errors import ConversionError


@dataclass(frozen=True)
class Row:
    """One thing that was tried."""

    what: str
    verdict: str
    detail: str = ""


def tried(what: str, attempt: Callable[[], str]) -> Row:
    """A row about an attempt, which gives a detail or raises."""
    try:
        return Row(what, "ok", attempt())
    except ConversionError as error:
        return Row(what, "FAILED", str(error).replace("\n", " "))
    except AssertionError as error:
        return Row(what, "WRONG", " ".join(str(error).split())[:200])
    except Exception as error:
        return Row(what, "FAILED", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")

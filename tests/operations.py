"""How much work a call is, whatever else the machine does: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], object]) -> int:
    """The lines of Python that the call runs, each round of a loop anew."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(call: Callable[[int], object], few: int, many: int) -> float:
    """How many times as much work ``many`` are as ``few``, for each of them: 1 if the work grows with their number."""
    call(few)  # what is made once
    return lines_run(lambda: call(many)) / lines_run(lambda: call(few)) * few / many

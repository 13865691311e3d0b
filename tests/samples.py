"""A part of what could be tried runs each time; all of it is `exhaustive`, a part of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def sampled(step: int) -> list[Any]:
    """Values of a parameter ``every``: a sample of the faults, and all."""
    return [pytest.param(step, id="sample"), pytest.param(1, id="all", marks=pytest.mark.exhaustive)]


def one_of_each(cases: Iterable[Any], kinds: Callable[[Any], Collection[str]]) -> list[Any]:
    """The cases as parameters. Those whose kinds all come in cases with fewer kinds are exhaustive."""
    listed, seen, first = [*cases], set[str](), set[int]()
    for place, case in sorted(enumerate(listed), key=lambda item: len(kinds(item[1]))):
        if not seen.issuperset(kinds(case)):
            seen.update(kinds(case))
            first.add(place)
    return [
        pytest.param(case, marks=() if place in first else pytest.mark.exhaustive)
        for place, case in enumerate(listed)
    ]

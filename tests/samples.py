"""A part of what could be tried runs each time; all of it is `exhaustive`, a part of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.tests.small_nets import WAYS

Case = TypeVar("Case")


def sampled(step: int, least: int = 1) -> list[Any]:
    """Values of a parameter ``every``: a sample of the faults, and all, or as many as there is time for."""
    return [pytest.param(step, id="sample"), pytest.param(least, id="all", marks=pytest.mark.exhaustive)]


def one_of_each(cases: Iterable[Case], kinds: Callable[[Case], Collection[str]]) -> list[Any]:
    """The cases as parameters. Those whose kinds all come in cases with fewer kinds are exhaustive."""
    listed = [*cases]
    first = first_of_each(listed, kinds)
    return [pytest.param(case, marks=() if case in first else pytest.mark.exhaustive) for case in listed]


def runs_on_ways(runs: Iterable[tuple[Any, ...]], kinds: Callable[..., Collection[Any]]) -> list[Any]:
    """The runs as parameters, each with a way of running it. All run on the reference.

    On the other ways, those whose kinds all come in runs with fewer kinds are exhaustive.
    """
    listed = [*runs]
    first = first_of_each(listed, lambda run: kinds(*run))
    ways = [way if isinstance(way, ParameterSet) else pytest.param(way) for way in WAYS]
    return [
        pytest.param(
            *run,
            *way.values,
            marks=[
                *way.marks,
                *([] if run in first or "reference" in way.values else [pytest.mark.exhaustive]),
            ],
            id="-".join(map(str, (*run, *way.values))),
        )
        for run in listed
        for way in ways
    ]


def words_of(net: str) -> set[str]:
    """Of a net as text, the type of each layer with each of its fields, and with each value that is a word."""
    return {
        f"{kind} {word}"
        for layer in re.split(r"^layers? *{", net, flags=re.MULTILINE)
        for kind in re.findall(r'\btype: *"?(\w+)', layer)[:1]
        for word in re.findall(r"\w+(?=\s*[:{])|(?<=: )[A-Za-z]\w*", layer)
    }


def kinds_in_sequence(kinds: Collection[str], case: object, sequence: str) -> list[Any]:
    """The kinds of a recurrent case in a sequence. Without a loop it consists of primitives that other nets have."""
    return [(sequence, kind) for kind in kinds] if sequence in ("unroll", "step") else [str(case)]


def families_of(kinds: Iterable[str], framework: str = "caffe") -> set[str]:
    """The modules that hold the rules of these types or operators: a plan is built of each, a number held to each."""
    rules = framework_by_name(framework).rules.rules
    return {getattr(rules.get(kind), "__module__", kind) for kind in kinds}


def first_of_each(cases: Iterable[Case], kinds: Callable[[Case], Collection[Any]]) -> list[Case]:
    """Those of the cases that have a kind which does not come in cases with fewer kinds."""
    seen, first = set[Any](), list[Case]()
    for case in sorted(cases, key=lambda each: len(kinds(each))):
        if not seen.issuperset(kinds(case)):
            seen.update(kinds(case))
            first.append(case)
    return first

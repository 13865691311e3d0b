"""What a message says to change in the net itself is changed, and the net converts.

``goldens/repairs/*.yaml`` hold nets by the module that refuses them, and by what the message proposes: a prototxt, or
what ``short_nets.py`` reads. ``<<bad|good>>`` are the text that is refused and the text that the message asks for; if
it names several ways out, they follow each other. A mapping has the ``net`` and

- ``with``: keywords of load and rewrite, and ``files``: texts by names; marks may stand in both, too;
- ``then``: what a net says that needs another repair after this one.

``remaining`` counts, by room, the places of the source that no case reaches. The test of it tells them by module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from sys import _getframe
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
import yaml

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, Problems
from prototrt.caffe_proto.text.fields import BrokenTextError
from prototrt.caffe_proto.text.findings import Finding
from prototrt.caffe_proto.text.scalars import BadValueError
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS, read_yaml
from prototrt.tests.repair_places import Line, RepairPlace, places_at, repair_places
from prototrt.tests.short_nets import written_out

_MARK = re.compile(r"<<(.*?)>>", re.DOTALL)
_LOADING = {each.name for each in fields(prototrt.LoadOptions)} | {"weights"}
_ROOT = ROOT.resolve()


@dataclass(frozen=True)
class Case:
    """A net that is refused, and what the message proposes."""

    fix: str
    net: str
    options: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    then: str | None = None

    @property
    def attempts(self) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """The files and the options as they are refused, and as each way out has them."""
        texts = (self.net, self.options, *self.files.values())
        counts = {len(mark.split("|")) for mark in _MARK.findall("".join(texts))}
        assert len(counts) == 1, f"{self.net}: as many ways in each mark"
        return [self._attempt(way) for way in range(counts.pop())]

    def _attempt(self, way: int) -> tuple[dict[str, str], dict[str, Any]]:
        net, options = written_out(_chosen(self.net, way)), eval(f"dict({_chosen(self.options, way)})")
        files = {name: _chosen(text, way) for name, text in self.files.items()} | {"net.prototxt": net.text}
        if net.init is None:
            return files, {"random_weights": 1, **options}
        files["init.pbtxt"] = net.init
        return files, {"weights": "init.pbtxt", "shapes": net.shapes, **options}


def _chosen(text: str, way: int) -> str:
    return _MARK.sub(lambda mark: mark[1].split("|")[way], text)


def _cases() -> Iterator[tuple[str, list[Case]]]:
    for file in sorted((GOLDENS / "repairs").glob("*.yaml")):
        for module, nets_by_fix in read_yaml(file).items():
            if file.stem != "remaining":
                yield (
                    module,
                    [_case(fix, net) for fix, nets in nets_by_fix.items() for net in _each(nets)],
                )


def _each(nets: Any) -> list[Any]:
    return nets if isinstance(nets, list) else [nets]


def _case(fix: str, facts: Any) -> Case:
    if isinstance(facts, str):
        return Case(fix, facts)
    return Case(fix, facts["net"], facts.get("with", ""), facts.get("files", {}), facts.get("then"))


CASES = dict(_cases())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("module", CASES)
def test_repairs_help(module: str) -> None:
    follow_all(module)


@pytest.mark.usefixtures("folder")
def test_what_remains_is_counted() -> None:
    reached = {place for module in CASES for place in follow_all(module)}
    remaining = [place for place in repair_places() if place not in reached]
    by_module = Counter(place.module for place in remaining)
    found = Counter("/".join(Path(place.file).with_suffix("").parts[:2]) for place in remaining)
    expected = read_yaml(GOLDENS / "repairs" / "remaining.yaml")
    check(
        found == expected,
        f"{len(remaining)} remain\n{yaml.dump(dict(found))}\nof them\n{yaml.dump(dict(by_module))}",
    )


@cache
def follow_all(module: str) -> frozenset[RepairPlace]:
    """Follow the cases of a module; the places that they reach."""
    places: set[RepairPlace] = set()
    for case in CASES[module]:
        places |= follow(case)
    return frozenset(places)


def follow(case: Case) -> set[RepairPlace]:
    """Convert the net as it is refused, then each repaired one; the places that made the message."""
    bad, *repaired = case.attempts
    lines: list[tuple[str | None, Line]] = []
    with recorded(lines):
        errors = errors_of(*bad)
    check(any(is_advice(case.fix, error.fix) for error in errors), "\n".join([case.net, *map(str, errors)]))
    for good in repaired:
        left = [str(error) for error in errors_of(*good)]
        is_well = any(case.then in each for each in left) if case.then else not left
        check(is_well, "\n".join([case.fix, str(good), *left]))
    made = {(of_ours(file), line) for fix, (file, line) in lines if fix is None or is_advice(case.fix, fix)}
    return {place for line in made for place in places_at(line)}


def is_advice(asked: str, fix: str | None) -> bool:
    """Whether a fix is this text; a way to go on without the layer may follow it."""
    return str(fix) == asked or str(fix).startswith(f"{asked}; or ")


@cache
def of_ours(file: str) -> str:
    """The file below the root of the repository."""
    path = Path(file).resolve()
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else file


def errors_of(files: Mapping[str, str], options: Mapping[str, Any]) -> Sequence[ConversionError]:
    """What is wrong with a net: nothing if it converts."""
    for name, content in files.items():
        Path(name).write_text(content)
    loading = {name: value for name, value in options.items() if name in _LOADING}
    others = {name: value for name, value in options.items() if name not in _LOADING}
    try:
        prototrt.rewrite(prototrt.load("net.prototxt", **loading), **others)
    except Problems as problems:
        return problems.errors
    except ConversionError as error:
        return [error]
    return []


@contextmanager
def recorded(lines: list[tuple[str | None, Line]]) -> Iterator[None]:
    """Within the block, ``lines`` are told the calls under way whenever a problem is made, with its fix."""
    with ExitStack() as stack:
        for kind in (ConversionError, Finding, BadValueError, BrokenTextError):
            stack.enter_context(patch.object(kind, "__init__", _recording(kind.__init__, lines)))
        yield


def _recording(make: Any, lines: list[tuple[str | None, Line]]) -> Any:
    def recording(self: Any, *values: Any, **named: Any) -> None:
        make(self, *values, **named)
        frame: FrameType | None = _getframe(1)
        while frame is not None:
            lines.append((self.fix, (frame.f_code.co_filename, frame.f_lineno)))
            frame = frame.f_back

    return recording


def check(holds: bool, told: str) -> None:
    if not holds:
        pytest.fail(told, pytrace=False)

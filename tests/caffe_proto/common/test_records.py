"""Dataclasses of prototrt behave as Python's own, and compile nothing before it is needed."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

import pytest

import prototrt
from prototrt.caffe_proto.common import records
from prototrt.tests.sources import files_with, nodes_of

ROOT = Path(prototrt.__file__).parent


def kinds(dataclass: Any) -> dict[str, Any]:
    """Classes of all forms, made by this decorator."""

    @dataclass(frozen=True, slots=True)
    class Frozen:
        a: int
        b: tuple[float, ...] = ()
        c: str = dataclasses.field(default="c", repr=False, compare=False)
        kind: ClassVar[str] = "no field"

    @dataclass(frozen=True, slots=True)
    class Derived(Frozen):
        b: tuple[float, ...] = (1.0,)
        _: dataclasses.KW_ONLY
        d: bool
        e: list[int] = dataclasses.field(default_factory=list, compare=False)

    @dataclass
    class Plain:
        a: int = 1

    @dataclass(slots=True)
    class Checked:
        a: int = 1

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @dataclass(frozen=True)
    class Cached:
        a: int

        @cached_property
        def twice(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True, eq=False)
    class ByIdentity:
        a: int

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(frozen=True, kw_only=True)
    class Named:
        a: int
        nested: Any = None

        def __repr__(self) -> str:
            return "its own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a % 2 == other.a % 2

    return {
        each.__name__: each for each in (Frozen, Derived, Plain, Checked, Cached, ByIdentity, Empty, Named)
    }


OURS, PYTHONS = kinds(records.dataclass), kinds(dataclasses.dataclass)
globals().update(OURS)  # where pickle looks for them
for _kind in OURS.values():
    _kind.__qualname__ = _kind.__name__
NAN = float("nan")
CASES: list[Callable[[dict[str, Any]], object]] = [
    lambda of: of["Frozen"](1),
    lambda of: of["Frozen"](),
    lambda of: of["Frozen"](1, x=1),
    lambda of: of["Derived"](1, d=True),
    lambda of: of["Derived"](1, (), "c", True),
    lambda of: of["Derived"](1, d=True).e is of["Derived"](1, d=True).e,
    lambda of: of["Frozen"](1, (NAN,)) == of["Frozen"](1, (NAN,)),
    lambda of: of["Frozen"](1, c="x") == of["Frozen"](1, c="y"),
    lambda of: of["Derived"](1, d=True) == of["Frozen"](1, (1.0,)),
    lambda of: of["Plain"](float("nan")) == of["Plain"](float("nan")),
    lambda of: of["Plain"]() == of["Checked"](),
    lambda of: len({of["Frozen"](1), of["Frozen"](1, c="y"), of["Frozen"](2)}),
    lambda of: len({of["ByIdentity"](1), of["ByIdentity"](1)}),
    lambda of: len({of["Empty"](), of["Empty"]()}),
    lambda of: {of["Plain"]()},
    lambda of: setattr(of["Frozen"](1), "a", 2),
    lambda of: setattr(of["ByIdentity"](1), "a", 2),
    lambda of: setattr(of["Checked"](1), "b", 2),
    lambda of: vars(of["Plain"](3)),
    lambda of: of["Checked"](-1),
    lambda of: dataclasses.replace(of["Checked"](1), a=-1),
    lambda of: dataclasses.replace(of["Derived"](1, d=True), e=[3]),
    lambda of: dataclasses.replace(of["Frozen"](1), d=1),
    lambda of: dataclasses.asdict(of["Named"](a=1, nested=of["Derived"](1, d=False))),
    lambda of: (of["Cached"](2).twice, of["Cached"](2) == of["Cached"](2)),
    lambda of: (
        of["Named"](a=1),
        of["Named"](a=1) == of["Named"](a=3),
        len({of["Named"](a=1), of["Named"](a=3)}),
    ),
    lambda of: copy.deepcopy(of["Derived"](1, d=True, e=[1])),
    lambda of: [kind.__match_args__ for kind in of.values()],
    lambda of: [str(inspect.signature(kind)) for kind in of.values()],
]


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_they_do_what_those_of_python_do(case: Callable[[dict[str, Any]], object], is_compiled: bool) -> None:
    ours = kinds(records.dataclass)
    for kind in ours.values() if is_compiled else ():
        inspect.signature(kind)
    assert outcome(case, ours) == outcome(case, PYTHONS)


def outcome(case: Callable[[dict[str, Any]], object], of: dict[str, Any]) -> str:
    try:
        shown = repr(case(of))
    except (AttributeError, TypeError, ValueError) as error:
        shown = f"{type(error).__name__}: {error}"
    return shown.replace("kinds.<locals>.", "")


@pytest.mark.parametrize(
    "made", [OURS["Frozen"](1, (2.0,)), OURS["Derived"](1, d=True), OURS["Cached"](3), OURS["Checked"](4)]
)
def test_they_travel_between_processes(made: object) -> None:
    there = pickle.loads(pickle.dumps(made))
    assert there == made
    assert there is not made


def test_nothing_is_compiled_for_the_first_instances() -> None:
    kind = kinds(records.dataclass)["Derived"]
    first = [kind(1, d=True, e=[place]) for place in range(32)]
    assert not isinstance(vars(kind)["__init__"], FunctionType)
    assert kind(1, d=True) == first[0]
    assert isinstance(vars(kind)["__init__"], FunctionType)


def test_no_module_makes_dataclasses_of_python() -> None:
    """Rules of single forks do: they are examples, written with the names of `rules.py` and Python's library."""
    others = {name for name in _python_dataclasses() if not name.startswith("surgery/forks/")}
    assert others == {"caffe_proto/common/records.py"}


def _python_dataclasses() -> Iterator[str]:
    rooms = ("caffe_proto", "surgery", "plugins", "converter")
    files = [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]
    for file in files_with("from dataclasses import", files):
        imports = [node for node in nodes_of(file) if isinstance(node, ast.ImportFrom)]
        if any(
            node.module == "dataclasses" and "dataclass" in {each.name for each in node.names}
            for node in imports
        ):
            yield str(file.relative_to(ROOT))

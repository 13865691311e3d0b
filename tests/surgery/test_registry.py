"""Rules are imported when they are needed, and no key has two."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from prototrt.surgery.ir.registry import Registry

FAMILIES = {"one": ("a", "b"), "two": ("c",)}


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str, Callable[[], str]]]:
    """A registry whose families are modules of a package; ``d`` stands in a family that nobody names."""
    registry: Registry[str, Callable[[], str]] = Registry("rule")
    package = tmp_path / "families_of_a_test"
    package.mkdir()
    for family, keys in {**FAMILIES, "two": ("c", "d")}.items():
        lines = [f"rule({key!r})(lambda: {key!r})" for key in keys]
        (package / f"{family}.py").write_text("\n".join(["from families_of_a_test import rule", *lines]))
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    vars(import_module(package.name))["rule"] = registry
    family_of = {key: family for family, keys in FAMILIES.items() for key in keys}
    registry.places_rules_in(package.name, FAMILIES, family_of.get)
    yield registry
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        del sys.modules[name]


def imported() -> set[str]:
    return {name.partition(".")[2] for name in sys.modules if name.startswith("families_of_a_test.")}


def test_a_rule_is_found_in_its_family_alone(rule: Registry[str, Callable[[], str]]) -> None:
    assert rule.get("b")() == "b"
    assert imported() == {"one"}


def test_a_rule_of_an_unnamed_family_is_found_in_all(rule: Registry[str, Callable[[], str]]) -> None:
    assert rule.get("d")() == "d"
    assert imported() == {"one", "two"}


def test_what_has_no_rule(rule: Registry[str, Callable[[], str]]) -> None:
    assert rule.find("e") is None
    with pytest.raises(AssertionError, match=r"^e has no rule$"):
        rule.get("e")


def test_all_rules(rule: Registry[str, Callable[[], str]]) -> None:
    assert sorted(rule.rules) == ["a", "b", "c", "d"]


def test_a_second_rule_for_a_key_is_refused(rule: Registry[str, Callable[[], str]]) -> None:
    rule("x")(str)
    with pytest.raises(RuntimeError, match=r"^x has two rules: <class 'str'> and <class 'bytes'>$"):
        rule("y", "x")(bytes)  # type: ignore[arg-type]


def test_rules_apart_do_not_stay(rule: Registry[str, Callable[[], str]]) -> None:
    before = dict(rule.rules)
    with rule.apart() as added:
        rule("x")(str)
    assert (rule.rules, added) == (before, {"x": str})

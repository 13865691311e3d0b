"""Where rules are found: one per key, in families that are imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Generic, TypeVar

K = TypeVar("K")
F = TypeVar("F")


class Registry(Generic[K, F]):
    """One rule per key. A second rule for a key is a programming error and fails at import.

    A family is a module that registers its rules when it is imported. A net needs few families, and
    importing all of them takes longer than converting a small net.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._rules: dict[K, F] = {}
        self._families: Collection[str] = ()
        self._family_of: Callable[[K], str | None] = lambda key: None

    def places_rules_in(
        self, package: str, families: Collection[str], family_of: Callable[[K], str | None]
    ) -> None:
        """Say in which modules of a package rules are, and in which of them that for a key is. Packages add up."""
        self._families = [*self._families, *(f"{package}.{family}" for family in families)]
        others = self._family_of
        self._family_of = lambda key: f"{package}.{family}" if (family := family_of(key)) else others(key)

    def __call__(self, *keys: K) -> Callable[[F], F]:
        def add(rule: F) -> F:
            for key in keys:
                if key in self._rules:
                    raise RuntimeError(f"{key} has two {self.what}s: {self._rules[key]} and {rule}")
                self._rules[key] = rule
            return rule

        return add

    def find(self, key: K) -> F | None:
        """The rule for a key, or None. Only its family is imported; all are for a key whose family is unknown."""
        if key not in self._rules and (family := self._family_of(key)):
            import_module(family)
        return self._rules.get(key) or self.rules.get(key)

    def get(self, key: K) -> F:
        """The rule for a key that must have one."""
        rule = self.find(key)
        assert rule is not None, f"{key} has no {self.what}"
        return rule

    @property
    def rules(self) -> dict[K, F]:
        """The rules of all families."""
        for family in self._families:
            import_module(family)
        self._families = ()
        return self._rules

    @contextmanager
    def apart(self) -> Iterator[Mapping[K, F]]:
        """A mapping that afterwards holds the rules that the block has registered. The registry loses them."""
        before = dict(self.rules)
        added: dict[K, F] = {}
        try:
            yield added
        finally:
            added.update((key, rule) for key, rule in self._rules.items() if key not in before)
            self._rules = before

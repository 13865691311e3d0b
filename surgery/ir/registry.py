"""Where rules are found: one per key, registered by explicit import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
F = TypeVar("F")


class Registry(Generic[K, F]):
    """One rule per key. A second rule for a key is a programming error and fails at import."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.rules: dict[K, F] = {}

    def __call__(self, *keys: K) -> Callable[[F], F]:
        def add(rule: F) -> F:
            for key in keys:
                if key in self.rules:
                    raise RuntimeError(f"{key} has two {self.what}s: {self.rules[key]} and {rule}")
                self.rules[key] = rule
            return rule

        return add

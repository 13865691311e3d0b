"""Values that are worth making only for what comes back: CUDA graphs for buffers, contexts for shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REMEMBERED_AT_MOST = 64
"""Keys without a value that may be used again."""
USES, USES_TO_DISPLACE = 2, 8
"""After so many uses a key gets a value: where there is room, and where another value has to go."""


class ReuseCache(Generic[K, V]):
    """At most ``size`` values, by key.

    A key may get a value when it is used for the second time: those used once cost nothing. In a full cache the value
    that was not used for longest goes, once a new key has been used several times since then: where more keys than
    there is room for take turns, some keep their values, and the others get none.
    """

    def __init__(self, size: int) -> None:
        self._size, self._time = size, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._waiting: OrderedDict[K, tuple[int, int]] = OrderedDict()  # first use, number of uses

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which is used now."""
        self._time += 1
        entry = self._values.pop(key, None)
        if entry is None:
            return None
        self._values[key] = entry[0], self._time
        return entry[0]

    def admits(self, key: K) -> bool:
        """Whether a key without a value, which is used now, should get one."""
        first, uses = self._waiting.pop(key, (self._time, 0))
        is_full = len(self) == self._size
        if is_full and next(iter(self._values.values()))[1] > first:
            first, uses = self._time, 0  # all values are in use
        if uses + 1 >= (USES_TO_DISPLACE if is_full else USES):
            return True
        if len(self._waiting) == REMEMBERED_AT_MOST:
            self._waiting.popitem(last=False)
        self._waiting[key] = first, uses + 1
        return False

    def put(self, key: K, value: V) -> V | None:
        """Keep a value. Returns the one that had to go."""
        displaced = self._values.popitem(last=False)[1][0] if len(self) == self._size else None
        self._values[key] = value, self._time
        return displaced

    def pop_where(self, is_meant: Callable[[K], bool]) -> list[V]:
        """Forget the values of these keys; return them."""
        return [self._values.pop(key)[0] for key in [*self._values] if is_meant(key)]

"""Values that are worth making only for what comes back: CUDA graphs for buffers, contexts for shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REMEMBERED_AT_MOST = 64
"""Keys that were used once, and may be used again."""


class ReuseCache(Generic[K, V]):
    """At most ``size`` values, by key.

    A key may get a value when it is used for the second time: those used once cost nothing. In a full cache the value
    that was not used for longest goes, but only if its last use was before the first one of the new key: where more
    keys than there is room for take turns, some keep their values, and the others get none.
    """

    def __init__(self, size: int) -> None:
        self._size, self._time = size, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._used_once: OrderedDict[K, int] = OrderedDict()

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
        before = self._used_once.pop(key, None)
        if before is not None and (len(self) < self._size or self._oldest_use < before):
            return True
        if len(self._used_once) == REMEMBERED_AT_MOST:
            self._used_once.popitem(last=False)
        self._used_once[key] = self._time
        return False

    @property
    def _oldest_use(self) -> int:
        return next(iter(self._values.values()))[1]

    def put(self, key: K, value: V) -> V | None:
        """Keep a value. Returns the one that had to go."""
        displaced = self._values.popitem(last=False)[1][0] if len(self) == self._size else None
        self._values[key] = value, self._time
        return displaced

    def pop_where(self, is_meant: Callable[[K], bool]) -> list[V]:
        """Forget the values of these keys; return them."""
        return [self._values.pop(key)[0] for key in [*self._values] if is_meant(key)]

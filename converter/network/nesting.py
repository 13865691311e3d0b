"""Which layer runs inside which loop.

TensorRT does not say. A loop names only its boundary: iterators and recurrences, through which values come
in, trip limits and outputs. The body is whatever depends on an iterator or a recurrence. A loop stands
inside another one when any of its boundary layers depends on the other's iterators or recurrences.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.errors import BuildError
from prototrt.converter.network.entries import Entry


class Nesting:
    """``loop_of`` gives the innermost loop that a layer or a loop stands in, None for the network itself."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._inside: dict[Entry, set[str]] = {entry: set() for entry in entries}
        self._around: dict[str, set[str]] = {entry.loop: set() for entry in entries if entry.loop is not None}
        self._writers = {output.name: entry for entry in entries for output in entry.outputs}
        while self._spread():
            pass
        for loop, around in self._around.items():
            if loop in around:
                raise BuildError(f'loop "{loop}" and another loop each stand inside the other')

    @property
    def loops(self) -> list[str]:
        return list(self._around)

    def loop_of(self, thing: Entry | str) -> str | None:
        loops = self._around[thing] if isinstance(thing, str) else self._inside[thing]
        innermost = max(loops, key=lambda loop: len(self._around[loop]), default=None)
        if innermost is not None and loops - {innermost} != self._around[innermost]:
            place = f'loop "{thing}"' if isinstance(thing, str) else thing.where
            raise BuildError(
                f"the loops {sorted(loops)} overlap, but neither stands inside the other", where=place
            )
        return innermost

    def _spread(self) -> bool:
        """Hand every layer's loops on to its readers, once. True when that told anything new."""
        before = self._size()
        for entry in self._entries:
            loops = self._inside[entry]
            for name in entry.reads:
                loops |= self._seen_from_outside(name)
            if entry.loop is not None:
                self._around[entry.loop] |= loops - {entry.loop}
                loops.add(entry.loop)
            for loop in list(loops):
                loops |= self._around[loop]
        return self._size() > before

    def _seen_from_outside(self, name: str) -> set[str]:
        writer = self._writers.get(name)
        if writer is None:
            return set()
        if writer.type == "LOOP_OUTPUT":
            assert writer.loop is not None
            return self._around[writer.loop]
        return self._inside[writer]

    def _size(self) -> int:
        return sum(map(len, self._inside.values())) + sum(map(len, self._around.values()))

"""Which layer runs inside which loop.

TensorRT does not say. A loop names only its boundary: iterators and recurrences, through which values come
in, trip limits and outputs. The body is whatever depends on an iterator or a recurrence. A loop stands
inside another one when any of its boundary layers depends on the other's iterators or recurrences.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.readback.network_layers import NetworkLayer


class Nesting:
    """``loop_of`` returns the innermost loop around a layer or a loop, None for the network itself."""

    def __init__(self, layers: Sequence[NetworkLayer]) -> None:
        self._layers = layers
        self._inside: dict[NetworkLayer, set[str]] = {layer: set() for layer in layers}
        self._around: dict[str, set[str]] = {layer.loop: set() for layer in layers if layer.loop is not None}
        self._writers = {output.name: layer for layer in layers for output in layer.outputs}
        while self._spread():
            pass
        for loop, around in self._around.items():
            if loop in around:
                raise BuildError(f'loop "{loop}" and another loop each stand inside the other')

    @property
    def loops(self) -> list[str]:
        return list(self._around)

    def loop_of(self, thing: NetworkLayer | str) -> str | None:
        loops = self._around[thing] if isinstance(thing, str) else self._inside[thing]
        innermost = max(loops, key=lambda loop: len(self._around[loop]), default=None)
        if innermost is not None and loops - {innermost} != self._around[innermost]:
            place = f'loop "{thing}"' if isinstance(thing, str) else thing.where
            raise BuildError(
                f"the loops {sorted(loops)} overlap, but neither stands inside the other", where=place
            )
        return innermost

    def _spread(self) -> bool:
        """Hand every layer's loops on to its readers, once. True when that added anything."""
        before = self._size()
        for layer in self._layers:
            loops = self._inside[layer]
            for name in layer.reads:
                loops |= self._outside_reads(name)
            if layer.loop is not None:
                self._around[layer.loop] |= loops - {layer.loop}
                loops.add(layer.loop)
            for loop in list(loops):
                loops |= self._around[loop]
        return self._size() > before

    def _outside_reads(self, name: str) -> set[str]:
        writer = self._writers.get(name)
        if writer is None:
            return set()
        if writer.type == "LOOP_OUTPUT":
            assert writer.loop is not None
            return self._around[writer.loop]
        return self._inside[writer]

    def _size(self) -> int:
        return sum(map(len, self._inside.values())) + sum(map(len, self._around.values()))

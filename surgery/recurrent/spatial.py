"""Recurrence over the columns or rows of a map, in place of steps in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.recurrent.cells import Step, scan

PlaceStep: TypeAlias = Callable[[Value, Sequence[Value]], Value]
"""``step(h of the line before, each map's elements of this line) -> h``: lines (N, L, C) of L places."""
_ORDERS = {"columns": (3, 0, 2, 1), "rows": (2, 0, 3, 1)}
"""From (N, C, H, W) to (lines, N, places of a line, C)."""


class MapLines:
    """Maps (N, C, H, W) as their ``"columns"`` or ``"rows"``: (lines, N, L, C). Each is moved once."""

    def __init__(self, build: Builder, kind: str) -> None:
        self.build, self.order = build, _ORDERS[kind]
        self._moved: dict[Value, Value] = {}

    def of(self, x: Value) -> Value:
        if x not in self._moved:
            self._moved[x] = x.transpose(*self.order).named("lines")
        return self._moved[x]

    def map_of(self, lines: Value) -> Value:
        """(N, C, H, W) again."""
        return lines.transpose(*(self.order.index(axis) for axis in range(4)))

    def sweep(self, step: PlaceStep, inputs: Sequence[Value], *, reverse: bool) -> Value:
        """A map of the h of each line, which begin with 0 before the first line, or behind the last one."""
        first = inputs[0]

        def body_step(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
            new = step(states[0], here)
            return Step([new], [new])

        zeros = self._zeros(first)
        ran = scan(self.build, body_step, inputs, [zeros], reverse=reverse, over_places=True)
        return self.map_of(ran.outputs[0])

    def _zeros(self, lines: Value) -> Value:
        """(N, L, C), also where sizes vary or numbers are not finite."""
        sizes = tuple(dim for dim in lines.shape[1:] if isinstance(dim, int))
        if len(sizes) == len(lines.shape) - 1:
            return self.build.constant(np.zeros(sizes, np.float32), "before")
        line = lines.slice(0, 0).reshape(*lines.shape[1:])
        never = self.build.constant(np.zeros((1,) * len(line.shape), np.bool_), "never")
        return never.chosen(line, 0).named("before")

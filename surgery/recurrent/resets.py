"""Resetting the states of every cell where a sequence begins, and holding them after a stream's end."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import DType
from prototrt.surgery.ops import Cast, Pad, Select, Tile
from prototrt.surgery.recurrent.cells import Cell, Step
from prototrt.surgery.recurrent.counting import numbered_steps


@dataclass(frozen=True, slots=True)
class GuardedCell:
    """A cell whose states cont resets, and that keeps its states after the end of a stream.

    The inputs of a step are those of the cell; then, if it ``resets``, the delta (N, H) or (N, 1), which multiplies
    every state before the cell sees it; then, if it ``ends``, ``valid`` (N, 1), true before the end. After
    the end the states keep their values, and so do outputs that are states. Additional states, after
    those of the cell, hold the outputs that are not states of the cell.
    """

    cell: Cell
    resets: bool = False
    ends: bool = False

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        x, *marks = inputs
        own = list(states[: len(self.cell.states)])
        if self.resets:
            own = [
                (state * marks[0]).named(f"delta_product_{name}")
                for name, state in zip(self.cell.states, own, strict=True)
            ]
        step = self.cell(body, x, own)
        return _hold(body, step, states, marks[-1]) if self.ends else step


def _hold(body: Builder, step: Step, states: Sequence[Value], valid: Value) -> Step:
    """The step where ``valid``, otherwise the unchanged states."""
    shown = [output for output in step.outputs if output not in step.states]
    new_states = [*step.states, *shown][: len(states)]
    kept = {
        new: body.add(Select(), valid, new, old, hint="held")
        for new, old in zip(new_states, states, strict=True)
    }
    return Step([kept[new] for new in new_states], [kept.get(out, out) for out in step.outputs])


class Resets:
    """The masks from cont (T, N) and the lengths (N,) for each direction of a stack. Made once for each size.

    cont is 0 where a sequence begins. A direction that reads backwards resets at the step before the next sequence:
    cont is moved by one step, and the last step continues. Values of cont after a stream's end are
    ignored: the step before the end is the last one.
    """

    def __init__(self, build: Builder, x: Value, cont: Value | None, lengths: Value | None) -> None:
        self.build, self.cont = build, cont
        self.steps, self.streams = x.shape[:2]
        self.valid = None if lengths is None else self._valid(x, lengths)
        self._columns: dict[bool, Value] = {}
        self._deltas: dict[tuple[bool, int], Value] = {}

    def guard(self, cell: Cell, *, reverse: bool) -> tuple[GuardedCell, list[Value]]:
        """The cell with its states reset and held, and the sequences (T, N, ...) that it needs for that."""
        delta = self._delta(cell, reverse)
        marks = [mark for mark in (delta, self.valid) if mark is not None]
        return GuardedCell(cell, delta is not None, self.valid is not None), marks

    def column(self) -> Value | None:
        """cont for each step, to be broadcast: (T, N, 1)."""
        return None if self.cont is None else self._column(self.cont, False)

    def _valid(self, x: Value, lengths: Value) -> Value:
        """Where the streams have not ended yet: booleans (T, N, 1)."""
        build = self.build
        if lengths.dtype is not DType.INT32:
            lengths = build.add(Cast(DType.INT32), lengths, hint="lengths")
        row = build.reshape(lengths, (1, self.streams, 1), hint="lengths_row")
        return (row > numbered_steps(build, x)).named("valid")

    def _delta(self, cell: Cell, backwards: bool) -> Value | None:
        """cont repeated to the size of the states: (T, N, H); (T, N, 1), to be broadcast, if their sizes differ."""
        if self.cont is None or (backwards and self.steps == 1):
            return None
        sizes = set(cell.states.values())
        size = sizes.pop() if len(sizes) == 1 else 1
        if (backwards, size) not in self._deltas:
            column = self._column(self.cont, backwards)
            tiled = self.build.add(Tile(2, size), column, hint="delta") if size > 1 else column
            self._deltas[backwards, size] = tiled
        return self._deltas[backwards, size]

    def _column(self, cont: Value, backwards: bool) -> Value:
        if backwards not in self._columns:
            column = self.build.reshape(cont, (self.steps, self.streams, 1), hint="cont")
            self._columns[backwards] = self._later(column) if backwards else column
        return self._columns[backwards]

    def _later(self, column: Value) -> Value:
        """cont of the step after each; 1 after the last step of a stream."""
        if self.valid is not None:
            one = self.build.scalar(1, 3)
            column = self.build.add(Select(), self.valid, column, one, hint="cont_until_end")
        return self.build.add(Pad((-1, 0, 0), (1, 0, 0), 1.0), column, hint="cont_later")

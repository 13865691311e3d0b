"""A recurrent layer as passes over its steps: what is computed for all steps at once, and the Scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.ir import DType, Value, element_count, fixed
from prototrt.surgery.ir.uniform_constants import stacked
from prototrt.surgery.layers.recurrent.bottoms import Bottoms
from prototrt.surgery.layers.recurrent.states import States
from prototrt.surgery.ops import ADD, GREATER, MULTIPLY, Cast, Concat, Pad, Select, Slice
from prototrt.surgery.recurrent.cells import Masked, clipped
from prototrt.surgery.recurrent.counting import numbered_steps
from prototrt.surgery.recurrent.scan import Cell, scan


@dataclass(frozen=True, slots=True, eq=False)
class InputWeights:
    """What all steps are multiplied with at once: W (R, D), b (R,), a matrix (R, S) a static input."""

    matrix: Value
    bias: Value
    statics: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One direction of one layer of a stack.

    cont is tiled to ``delta_size`` elements. ``top`` makes the top of the sequences that the cell gives.
    ``shown`` are the sizes of those which are no states.
    """

    inputs: InputWeights
    cell: Cell
    delta_size: int
    top: Callable[[Sequence[Value]], Value]
    shown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How passes are put together: which of them run backwards, and whether their tops are added up."""

    backwards: tuple[bool, ...] = (False,)
    adds_up: bool = False
    holds_past_end: bool = False
    input_clip: float = 0.0
    gates_input: bool = False
    """The delta also multiplies ``W x + b``."""


def run_passes(
    build: LayerBuilder,
    bottoms: Bottoms,
    layers: Sequence[Callable[[int, bool], Pass]],
    layout: Layout,
    states: States,
) -> Value:
    """Run a stack of layers over the steps: the first top, (T, N, outputs).

    Each of ``layers`` reads the weights of one pass: it is called with the number of inputs and
    with whether static inputs are added, once a direction.
    """
    inputs = element_count(bottoms.x.shape[2:], "an axis of x")
    flat = build.reshape(bottoms.x, (bottoms.steps, bottoms.streams, inputs), hint="x")
    sequence = clipped(build, flat, layout.input_clip, "x_clip")
    valid = _valid(build, bottoms)
    deltas = _Deltas(build, bottoms, layout.backwards, valid)
    for level, read in enumerate(layers):
        size = fixed(sequence.shape[2], "the number of inputs")
        passes = [read(size, level == 0) for _ in layout.backwards]
        statics = bottoms.statics if level == 0 else ()
        gate = deltas.column() if layout.gates_input else None
        transformed = _transformed(build, bottoms, sequence, statics, [one.inputs for one in passes], gate)
        tops = []
        for place, (one, x) in enumerate(zip(passes, transformed, strict=True)):
            sequences = [x, *deltas.of(place, one.delta_size), *valid]
            start = states.before(level * len(passes) + place)
            cell = Masked(one.cell, len(start)) if valid else one.cell
            held = [states.zeros(size) for size in one.shown] if layout.holds_past_end else []
            end = scan(build, cell, sequences, [*start, *held], reverse=layout.backwards[place])
            states.after(end.states[: len(start)])
            tops.append(one.top(end.outputs))
        sequence = _joined(build, tops, layout.adds_up)
    if valid and not layout.holds_past_end:
        sequence = build.add(Select(), valid[0], sequence, build.scalar(0, 3), hint="until_end")
    return sequence


def _transformed(
    build: LayerBuilder,
    bottoms: Bottoms,
    sequence: Value,
    statics: Sequence[Value],
    weights: Sequence[InputWeights],
    gate: Value | None,
) -> list[Value]:
    """``W x + b [+ W_static x_static]`` of all passes, in one product for all steps: (T, N, R) each."""
    product = build.product(sequence, _stacked(build, [one.matrix for one in weights]), hint="x_product")
    bias = _stacked(build, [one.bias for one in weights])
    total = build.add(ADD, product, build.aligned(bias, 3), hint="x_sum")
    if gate is not None:
        total = build.add(MULTIPLY, total, gate, hint="x_gated")
    for index in range(len(statics)):
        flat = _static_rows(build, bottoms, index)
        matrix = _stacked(build, [one.statics[index] for one in weights])
        added = build.product(flat, matrix, hint="static_product")
        total = build.add(ADD, total, added, hint="x_static_sum")
    if len(weights) == 1:
        return [total]
    rows = fixed(weights[0].bias.shape[0], "the number of gates")
    return [
        build.add(Slice(2, place * rows, rows), total, hint="x_direction") for place in range(len(weights))
    ]


def _stacked(build: LayerBuilder, weights: Sequence[Value]) -> Value:
    """The rows of several constants one behind the other."""
    if len(weights) == 1:
        return weights[0]
    arrays = [value.data for value in weights if value.data is not None]
    if len(arrays) < len(weights):
        return build.add(Concat(0), *weights, hint="weights")
    return build.constant(stacked(arrays), "weights")


def _joined(build: LayerBuilder, tops: Sequence[Value], adds_up: bool) -> Value:
    if len(tops) == 1:
        return tops[0]
    forward, backward = tops
    if adds_up:
        return build.add(ADD, forward, backward, hint="directions_sum")
    return build.add(Concat(2), forward, backward, hint="directions")


def _valid(build: LayerBuilder, bottoms: Bottoms) -> list[Value]:
    """Where the streams have not ended yet: nothing, or (T, N, 1) of booleans."""
    if bottoms.lengths is None:
        return []
    lengths = bottoms.lengths
    if lengths.dtype is not DType.INT32:
        lengths = build.add(Cast(DType.INT32), lengths, hint="lengths")
    row = build.reshape(lengths, (1, bottoms.streams, 1), hint="lengths_row")
    return [build.add(GREATER, row, numbered_steps(build, bottoms.x), hint="valid")]


class _Deltas:
    """cont (T, N), as often as there are hidden units: (T, N, H). Made once for each size.

    cont is 0 where a sequence begins. To who reads backwards, it begins where the next one does:
    cont is moved by one step, and the last step continues. What cont says behind a stream's end says
    nothing: the step before it is the last one.
    """

    def __init__(
        self, build: LayerBuilder, bottoms: Bottoms, backwards: Sequence[bool], valid: Sequence[Value]
    ) -> None:
        self.build, self.bottoms, self.backwards, self.valid = build, bottoms, backwards, valid
        self.cont = None if build.options.cont == "drop" else bottoms.cont
        self._columns: dict[bool, Value] = {}
        self._made: dict[tuple[bool, int], Value] = {}

    def of(self, place: int, hidden: int) -> list[Value]:
        backwards = self.backwards[place]
        if self.cont is None or (backwards and self.bottoms.steps == 1):
            return []
        if (backwards, hidden) not in self._made:
            column = self._column(self.cont, backwards)
            tiled = self.build.tile(column, 2, hidden, hint="delta") if hidden > 1 else column
            self._made[backwards, hidden] = tiled
        return [self._made[backwards, hidden]]

    def column(self) -> Value | None:
        """cont for each step, to be broadcast: (T, N, 1)."""
        return None if self.cont is None else self._column(self.cont, False)

    def _column(self, cont: Value, backwards: bool) -> Value:
        if backwards not in self._columns:
            shape = (self.bottoms.steps, self.bottoms.streams, 1)
            column = self.build.reshape(cont, shape, hint="cont")
            self._columns[backwards] = self._later(column) if backwards else column
        return self._columns[backwards]

    def _later(self, column: Value) -> Value:
        """cont of the step behind each; 1 behind the last one of a stream."""
        for valid in self.valid:
            column = self.build.add(Select(), valid, column, self.build.scalar(1, 3), hint="cont_until_end")
        return self.build.add(Pad((-1, 0, 0), (1, 0, 0), 1.0), column, hint="cont_later")


def _static_rows(build: LayerBuilder, bottoms: Bottoms, place: int) -> Value:
    """A static input as (1, N, S), to be broadcast over the steps, or as it changes: (T, N, S)."""
    steps = bottoms.steps if bottoms.varies(place) else 1
    shape = (steps, bottoms.streams, bottoms.static_size(place))
    return build.reshape(bottoms.statics[place], shape, hint="static")

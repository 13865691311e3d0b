"""Cells: one step of a recurrence, in primitives; and the Scan that runs a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Op, fixed
from prototrt.surgery.ops import Clip, Identity, Scan, Sigmoid, TanH
from prototrt.surgery.recurrent.gates import ORDERS


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step: the new states, and one element of each output sequence."""

    states: Sequence[Value]
    outputs: Sequence[Value]


StepFunction: TypeAlias = Callable[[Builder, Sequence[Value], Sequence[Value]], Step]
"""``step(body, inputs of this step, states) -> Step``: one step, in primitives."""


def scan(
    build: Builder,
    step: StepFunction,
    sequences: Sequence[ir.Value],
    states: Sequence[ir.Value],
    *,
    reverse: bool = False,
    over_places: bool = False,
) -> Step:
    """Do a step for each element of axis 0 of the sequences, (T, ...) each, from these initial states.

    Returns the states after the last step and the output sequences (T, ...). Values that a step
    reads from outside become loop invariants. ``over_places``: the elements are no steps in time.
    """
    body = build.body()
    now = [body.body_input("state", value.shape, value.dtype) for value in states]
    here = [body.body_input("step", value.shape[1:], value.dtype) for value in sequences]
    made = step(body, here, now)
    results_of_step = [*made.states, *made.outputs]
    outside = _read_outside(body, results_of_step)
    inside = {value: body.body_input("invariant", value.shape, value.dtype) for value in outside}
    open_body = body.graph("", results_of_step)
    closed = open_body.with_nodes([node.with_replacements(inside) for node in body.nodes], inside)
    op = Scan(closed, len(states), len(sequences), reverse, over_places)
    read = [body.outside.get(value, value) for value in outside]
    results = build.add_all(op, *states, *sequences, *read, hint="scan")
    after = op.named_outputs(results)
    return Step(after.states, after.stacked)


def _read_outside(body: Builder, outputs: Sequence[ir.Value]) -> list[ir.Value]:
    """The outside values that the nodes and outputs of a body read."""
    own = {*body.inputs, *(value for node in body.nodes for value in node.outputs)}
    read = [*(value for node in body.nodes for value in node.inputs), *outputs]
    return [value for value in dict.fromkeys(read) if value not in own and not value.is_constant]


SIGMOID, TANH, IDENTITY = Sigmoid(), TanH(), Identity()
Product: TypeAlias = Callable[[Value, ir.Value], Value]
"""``product(h, weights)``: a matrix product of states (N, H), or a convolution of maps (N, C, height, width)."""


class Cell(ABC):
    """One step of a recurrence, in primitives.

    Called with the transformed x of a step (N, R) and the states (N, size) before it, or with maps
    (N, R, height, width) and (N, size, height, width). The caller has multiplied
    the states by cont, and holds them after a stream's end: a cell reads neither cont nor
    lengths. The first output of a step is h, the first state.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def states(self) -> Mapping[str, int]:
        """The size of each state, by its name: h first."""

    @property
    def stateless_outputs(self) -> Sequence[int]:
        """The sizes of outputs that are not states."""
        return ()

    @property
    def width(self) -> int:
        """The size of h."""
        return next(iter(self.states.values()))

    @abstractmethod
    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        """The states after the step, and its outputs."""


@dataclass(frozen=True, slots=True)
class LSTMForm:
    """Differences between the equations of an LSTM and Caffe's. The names are the fields of ``recurrent_param``.

    ``coupled_input_forget``: f is 1 - i, and there are three gates i, o, g. Clips of 0 do nothing.
    """

    states: ClassVar[Sequence[str]] = ("h", "c")

    gate_activation: Op = SIGMOID
    candidate_activation: Op = TANH
    cell_activation: Op = TANH
    projection_activation: Op = IDENTITY
    coupled_input_forget: bool = False
    cell_clip: float = 0.0
    proj_clip: float = 0.0

    @property
    def gates(self) -> str:
        """The gates in the order of the rows of a matrix."""
        order = ORDERS["LSTM"]["caffe"]
        return order.replace("f", "") if self.coupled_input_forget else order


CAFFE = LSTMForm()


@dataclass(frozen=True, slots=True)
class LSTMCell(Cell):
    """``c' = f c + i g``, ``m = o tanh(c')``, ``h' = m``; gates i, f, o (sigmoid) and g (tanh) in this order.

    x (N, 4H). States: h (N, P) and c (N, H). Outputs: h', and m if ``shows_cell_output``.
    ``recurrent`` is W_hc (4H, P), or the kernel of the ``product``. ``peephole`` are the rows p_i, p_f, p_o
    (1, H) or nothing; with ``projection`` W (P, H), ``h' = W m``.
    Source: caffe ``src/caffe/layers/lstm_layer.cpp``, ``lstm_unit_layer.cpp``; Greff et al. 2015,
    appendix A; Sak et al. 2014, equations 7 to 13.
    """

    recurrent: ir.Value
    form: LSTMForm = CAFFE
    peephole: tuple[ir.Value, ...] = ()
    projection: ir.Value | None = None
    shows_cell_output: bool = False
    product: Product = Value.product

    @property
    def states(self) -> Mapping[str, int]:
        width = self._units if self.projection is None else _size(self.projection, 0)
        return dict(zip(self.form.states, (width, self._units), strict=True))

    @property
    def stateless_outputs(self) -> Sequence[int]:
        # Without a projection, m is the state h.
        return (self._units,) if self.shows_cell_output and self.projection is not None else ()

    @property
    def _units(self) -> int:
        return _size(self.recurrent, 0) // len(self.form.gates)

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        h, c = states
        gates = (x + self.product(h, self.recurrent).named("recurrent_product")).named("gates")
        c, m = lstm_unit(gates, c, self.form, self.peephole, axis=1)
        h = m if self.projection is None else self._project(m, self.projection)
        return Step([h, c], [h, m] if self.shows_cell_output else [h])

    def _project(self, m: Value, weights: ir.Value) -> Value:
        r = m.product(weights).named("projection").apply(self.form.projection_activation).named("r")
        return clip(r, self.form.proj_clip).named("r_clip")


def lstm_unit(
    gates: Value, c: Value, form: LSTMForm = CAFFE, peephole: Sequence[ir.Value] = (), *, axis: int = -1
) -> tuple[Value, Value]:
    """The new cell state and the cell's output (..., H) from gates (..., 4H) in the order i, f, o, g.

    ``axis`` is the axis of the units.
    """
    raw = _GateSums(gates, form, fixed(c.shape[axis], "the number of hidden units"), axis)
    if peephole:
        i = raw.gate("i", c, peephole[0])
        f = None if form.coupled_input_forget else raw.gate("f", c, peephole[1])
        o = None
    else:
        i, f, o = raw.gates_without_peepholes()
    g = raw["g"].apply(form.candidate_activation).named("gate_g")
    if f is None:
        f = (1 - i).named("gate_f")
    c_new = ((f * c).named("kept") + (i * g).named("written")).named("c")
    c_new = clip(c_new, form.cell_clip).named("c_clip")
    if o is None:
        o = raw.gate("o", c_new, peephole[2])
    h = (o * c_new.apply(form.cell_activation).named("c_activated")).named("h")
    return c_new, h


@dataclass(frozen=True, slots=True)
class _GateSums:
    """The gates of an LSTM before their activation, concatenated in ``sums``. Each is cut out once."""

    sums: Value
    form: LSTMForm
    hidden: int
    axis: int

    def __getitem__(self, gate: str) -> Value:
        place = self.form.gates.index(gate)
        return units(self.sums, place, self.hidden, axis=self.axis).named(f"gates_{gate}")

    def gates_without_peepholes(self) -> tuple[Value, Value | None, Value]:
        """i, f (if there is one) and o, activated in one go. Cutting g off first would add a layer."""
        activated = self.sums.apply(self.form.gate_activation).named("gates_activated")
        gates = {
            name: units(activated, index, self.hidden, axis=self.axis).named(f"gate_{name}")
            for index, name in enumerate(self.form.gates[:-1])
        }
        return gates["i"], gates.get("f"), gates["o"]

    def gate(self, name: str, c: Value, peephole: ir.Value) -> Value:
        """One gate, with its peephole to the cell state."""
        view = (peephole * c).named(f"peephole_{name}")
        total = (self[name] + view).named(f"gate_{name}_sum")
        return total.apply(self.form.gate_activation).named(f"gate_{name}")


@dataclass(frozen=True, slots=True)
class RNNForm:
    """Differences between the equation of a plain RNN and Caffe's. The names are the fields of ``recurrent_param``."""

    states: ClassVar[Sequence[str]] = ("h",)

    candidate_activation: Op = TANH


@dataclass(frozen=True, slots=True)
class RNNCell(Cell):
    """``h' = tanh(x + W_hh h)``.

    x (N, H). State and output: h (N, H). ``recurrent`` is W_hh (H, H).
    Source: caffe ``src/caffe/layers/rnn_layer.cpp``.
    """

    recurrent: ir.Value
    form: RNNForm = RNNForm()

    @property
    def states(self) -> Mapping[str, int]:
        return dict.fromkeys(self.form.states, _size(self.recurrent, 1))

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        (h,) = states
        total = (x + h.product(self.recurrent).named("recurrent_product")).named("sum")
        h = total.apply(self.form.candidate_activation).named("h")
        return Step([h], [h])


def _size(matrix: ir.Value, axis: int) -> int:
    return fixed(matrix.shape[axis], "a size of the recurrent weights")


def clip(x: Value, limit: float) -> Value:
    """``x`` clipped to -limit and limit; 0 means no limit."""
    return x.apply(Clip(-limit, limit) if limit else IDENTITY)


def units(x: Value, gate: int, hidden: int, count: int = 1, *, axis: int = -1) -> Value:
    """The H elements of a gate in an axis, or those of ``count`` gates from this one on."""
    return x.slice(axis % len(x.shape), gate * hidden, count * hidden)

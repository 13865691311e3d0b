"""Cells: one step of a recurrence, in primitives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Op, Value, fixed
from prototrt.surgery.ops import ADD, MULTIPLY, SUBTRACT, Clip, Identity, Sigmoid, Slice, TanH
from prototrt.surgery.recurrent.gates import ORDERS
from prototrt.surgery.recurrent.scan import Step

SIGMOID, TANH, IDENTITY = Sigmoid(), TanH(), Identity()


class Cell(ABC):
    """One step of a recurrence, in primitives.

    Called with the transformed x of a step (N, R) and the states (N, size) before it. The caller has multiplied
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
    ``recurrent`` is W_hc (4H, P). ``peephole`` are the rows p_i, p_f, p_o (1, H) or nothing; with
    ``projection`` W (P, H), ``h' = W m``.
    Source: caffe ``src/caffe/layers/lstm_layer.cpp``, ``lstm_unit_layer.cpp``; Greff et al. 2015,
    appendix A; Sak et al. 2014, equations 7 to 13.
    """

    recurrent: Value
    form: LSTMForm = CAFFE
    peephole: tuple[Value, ...] = ()
    projection: Value | None = None
    shows_cell_output: bool = False

    @property
    def states(self) -> Mapping[str, int]:
        return dict(zip(self.form.states, (_size(self.recurrent, 1), self._hidden), strict=True))

    @property
    def stateless_outputs(self) -> Sequence[int]:
        # Without a projection, m is the state h.
        return (self._hidden,) if self.shows_cell_output and self.projection is not None else ()

    @property
    def _hidden(self) -> int:
        return _size(self.recurrent, 0) // len(self.form.gates)

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        h, c = states
        gates = body.add(ADD, x, body.product(h, self.recurrent, hint="recurrent_product"), hint="gates")
        c_new, m = lstm_unit(body, gates, c, self.form, self.peephole)
        h_new = m if self.projection is None else self._projected(body, m, self.projection)
        return Step([h_new, c_new], [h_new, m] if self.shows_cell_output else [h_new])

    def _projected(self, body: Builder, m: Value, weights: Value) -> Value:
        product = body.product(m, weights, hint="projection")
        r = activated(body, self.form.projection_activation, product, "r")
        return clipped(body, r, self.form.proj_clip, "r_clip")


def lstm_unit(
    body: Builder, gates: Value, c: Value, form: LSTMForm = CAFFE, peephole: Sequence[Value] = ()
) -> tuple[Value, Value]:
    """The new cell state and the cell's output (..., H) from gates (..., 4H) in the order i, f, o, g."""
    raw = _Rows(body, gates, form.gates, fixed(c.shape[-1], "the number of hidden units"))
    if peephole:
        i = raw.opened("i", form.gate_activation, c, peephole[0])
        f = None if form.coupled_input_forget else raw.opened("f", form.gate_activation, c, peephole[1])
        o = None
    else:
        i, f, o = raw.together(form.gate_activation)
    g = activated(body, form.candidate_activation, raw["g"], "gate_g")
    if f is None:
        f = body.add(SUBTRACT, body.scalar(1, len(i.shape)), i, hint="gate_f")
    kept = body.add(MULTIPLY, f, c, hint="kept")
    total = body.add(ADD, kept, body.add(MULTIPLY, i, g, hint="written"), hint="c")
    c_new = clipped(body, total, form.cell_clip, "c_clip")
    if o is None:
        o = raw.opened("o", form.gate_activation, c_new, peephole[2])
    return c_new, body.add(MULTIPLY, o, activated(body, form.cell_activation, c_new, "c_activated"), hint="h")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The gates of an LSTM before their activation, concatenated in ``gates``. Each is cut out once."""

    body: Builder
    gates: Value
    order: str
    hidden: int

    def __getitem__(self, gate: str) -> Value:
        return part(self.body, self.gates, self.order.index(gate), self.hidden, f"gates_{gate}")

    def together(self, activation: Op) -> tuple[Value, Value | None, Value]:
        """i, f (if there is one) and o, activated in one go. Cutting g off first would add a layer."""
        joined = activated(self.body, activation, self.gates, "gates_activated")
        opened = {
            name: part(self.body, joined, index, self.hidden, f"gate_{name}")
            for index, name in enumerate(self.order[:-1])
        }
        return opened["i"], opened.get("f"), opened["o"]

    def opened(self, gate: str, activation: Op, c: Value, row: Value) -> Value:
        """One gate, with its peephole to the cell state."""
        seen = self.body.add(MULTIPLY, row, c, hint=f"peephole_{gate}")
        total = self.body.add(ADD, self[gate], seen, hint=f"gate_{gate}_sum")
        return activated(self.body, activation, total, f"gate_{gate}")


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

    recurrent: Value
    form: RNNForm = RNNForm()

    @property
    def states(self) -> Mapping[str, int]:
        return dict.fromkeys(self.form.states, _size(self.recurrent, 1))

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        (h,) = states
        total = body.add(ADD, x, body.product(h, self.recurrent, hint="recurrent_product"), hint="sum")
        h_new = activated(body, self.form.candidate_activation, total, "h")
        return Step([h_new], [h_new])


def _size(matrix: Value, axis: int) -> int:
    return fixed(matrix.shape[axis], "a size of the recurrent weights")


def activated(body: Builder, activation: Op, x: Value, hint: str) -> Value:
    return x if isinstance(activation, Identity) else body.add(activation, x, hint=hint)


def clipped(body: Builder, x: Value, limit: float, hint: str) -> Value:
    """``x`` clipped to -limit and limit; 0 means no limit."""
    return body.add(Clip(-limit, limit), x, hint=hint) if limit else x


def part(body: Builder, x: Value, index: int, hidden: int, hint: str, count: int = 1) -> Value:
    """``count`` blocks of H elements of the last axis, from the block ``index`` on."""
    return body.add(Slice(len(x.shape) - 1, index * hidden, count * hidden), x, hint=hint)

"""Cells: one step of a recurrence, in primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prototrt.surgery.ir import Op, Value, fixed
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ops import ADD, MULTIPLY, SUBTRACT, Clip, Identity, Select, Sigmoid, Slice, TanH
from prototrt.surgery.recurrent.scan import Cell, Step

SIGMOID, TANH, IDENTITY = Sigmoid(), TanH(), Identity()


@dataclass(frozen=True, slots=True)
class LSTMForm:
    """In what the equations of an LSTM differ from Caffe's.

    ``coupled``: f is 1 - i, and there are three gates i, o, g. Clips of 0 do nothing.
    """

    gate: Op = SIGMOID
    candidate: Op = TANH
    cell: Op = TANH
    projection: Op = IDENTITY
    coupled: bool = False
    cell_clip: float = 0.0
    projection_clip: float = 0.0

    @property
    def gates(self) -> str:
        """The gates in the order of the rows of a matrix."""
        return "iog" if self.coupled else "ifog"


CAFFE = LSTMForm()


@dataclass(frozen=True, slots=True)
class LSTMCell:
    """``c' = f c + i g``, ``m = o tanh(c')``, ``h' = m``; gates i, f, o (sigmoid) and g (tanh) in this order.

    Inputs of a step: the transformed x (N, 4H) and, unless the state always continues,
    the delta (N, H) or (N, 1). States: h (N, P) and c (N, H). Outputs: h', and m if ``shows_cell_output``.
    ``recurrent`` is W_hc (4H, P). The delta multiplies h before the product with W_hc, and
    f before the product with c: it need not be 0 or 1.
    ``peephole`` are the rows p_i, p_f, p_o (1, H) or nothing; with ``projection`` W (P, H), ``h' = W m``.
    Source: caffe ``src/caffe/layers/lstm_layer.cpp``, ``lstm_unit_layer.cpp``; Greff et al. 2015,
    appendix A; Sak et al. 2014, equations 7 to 13.
    """

    recurrent: Value
    form: LSTMForm = CAFFE
    peephole: tuple[Value, ...] = ()
    projection: Value | None = None
    shows_cell_output: bool = False

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        (x, *delta), (h, c) = inputs, states
        gates = body.add(ADD, x, recurrent_product(body, h, self.recurrent, delta), hint="gates")
        c_new, m = lstm_unit(body, gates, c, delta, self.form, self.peephole)
        h_new = m if self.projection is None else self._projected(body, m, self.projection)
        return Step([h_new, c_new], [h_new, m] if self.shows_cell_output else [h_new])

    def _projected(self, body: Builder, m: Value, weights: Value) -> Value:
        r = activated(body, self.form.projection, body.product(m, weights, hint="projection"), "r")
        return clipped(body, r, self.form.projection_clip, "r_clip")


def lstm_unit(
    body: Builder,
    gates: Value,
    c: Value,
    delta: Sequence[Value],
    form: LSTMForm = CAFFE,
    peephole: Sequence[Value] = (),
) -> tuple[Value, Value]:
    """The new cell state and the cell's output (..., H) from gates (..., 4H) in the order i, f, o, g."""
    raw = _Rows(body, gates, form.gates, fixed(c.shape[-1], "the number of hidden units"))
    if peephole:
        # What a peephole sees is forgotten, too.
        c, delta = delta_product(body, c, delta, "c"), ()
        i = raw.opened("i", form.gate, c, peephole[0])
        f = None if form.coupled else raw.opened("f", form.gate, c, peephole[1])
        o = None
    else:
        i, f, o = raw.together(form.gate)
    g = activated(body, form.candidate, raw["g"], "gate_g")
    if f is None:
        f = body.add(SUBTRACT, body.scalar(1, len(i.shape)), i, hint="gate_f")
    kept = body.add(MULTIPLY, delta_product(body, f, delta, "f"), c, hint="kept")
    total = body.add(ADD, kept, body.add(MULTIPLY, i, g, hint="written"), hint="c")
    c_new = clipped(body, total, form.cell_clip, "c_clip")
    if o is None:
        o = raw.opened("o", form.gate, c_new, peephole[2])
    return c_new, body.add(MULTIPLY, o, activated(body, form.cell, c_new, "c_activated"), hint="h")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The gates of an LSTM before their activation, one behind the other in ``gates``, each cut out once."""

    body: Builder
    gates: Value
    order: str
    hidden: int

    def __getitem__(self, gate: str) -> Value:
        return part(self.body, self.gates, self.order.index(gate), self.hidden, f"gates_{gate}")

    def together(self, activation: Op) -> tuple[Value, Value | None, Value]:
        """i, f (if there is one) and o, activated in one go. Cutting g off before would be one more layer."""
        joined = activated(self.body, activation, self.gates, "gates_activated")
        opened = {
            name: part(self.body, joined, index, self.hidden, f"gate_{name}")
            for index, name in enumerate(self.order[:-1])
        }
        return opened["i"], opened.get("f"), opened["o"]

    def opened(self, gate: str, activation: Op, c: Value, row: Value) -> Value:
        """One gate, which looks at the cell through a peephole."""
        seen = self.body.add(MULTIPLY, row, c, hint=f"peephole_{gate}")
        total = self.body.add(ADD, self[gate], seen, hint=f"gate_{gate}_sum")
        return activated(self.body, activation, total, f"gate_{gate}")


@dataclass(frozen=True, slots=True)
class RNNCell:
    """``h' = tanh(x + W_hh h)``.

    Inputs of a step: the transformed x (N, H) and, unless the state always continues, the
    delta. State and output: h (N, H). ``recurrent`` is W_hh (H, H).
    Source: caffe ``src/caffe/layers/rnn_layer.cpp``.
    """

    recurrent: Value
    activation: Op = TANH

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        (x, *delta), (h,) = inputs, states
        total = body.add(ADD, x, recurrent_product(body, h, self.recurrent, delta), hint="sum")
        h_new = activated(body, self.activation, total, "h")
        return Step([h_new], [h_new])


@dataclass(frozen=True, slots=True)
class Masked:
    """A cell that stands still where a stream has ended.

    The last input of a step is ``valid`` (N, 1), true before the end. Behind it the ``states`` of the cell
    keep their value, and so do outputs which are states. Further states, if there are any, hold the
    outputs which are none of the cell's.
    """

    cell: Cell
    states: int

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        *own, valid = inputs
        step = self.cell(body, own, states[: self.states])
        shown = [output for output in step.outputs if output not in step.states]
        new_states = [*step.states, *shown][: len(states)]
        kept = {
            new: body.add(Select(), valid, new, old, hint="held")
            for new, old in zip(new_states, states, strict=True)
        }
        return Step([kept[new] for new in new_states], [kept.get(out, out) for out in step.outputs])


def recurrent_product(body: Builder, h: Value, weights: Value, delta: Sequence[Value]) -> Value:
    """``W (delta h)`` for all gates at once."""
    return body.product(delta_product(body, h, delta, "h"), weights, hint="recurrent_product")


def delta_product(body: Builder, x: Value, delta: Sequence[Value], name: str) -> Value:
    """``delta x``, or x where the state always continues."""
    for cont in delta:
        x = body.add(MULTIPLY, x, cont, hint=f"delta_product_{name}")
    return x


def activated(body: Builder, activation: Op, x: Value, hint: str) -> Value:
    return x if isinstance(activation, Identity) else body.add(activation, x, hint=hint)


def clipped(body: Builder, x: Value, limit: float, hint: str) -> Value:
    """``x`` between -limit and limit; a limit of 0 is none."""
    return body.add(Clip(-limit, limit), x, hint=hint) if limit else x


def part(body: Builder, x: Value, index: int, hidden: int, hint: str, count: int = 1) -> Value:
    """``count`` blocks of H elements of the last axis, from the block ``index`` on."""
    return body.add(Slice(len(x.shape) - 1, index * hidden, count * hidden), x, hint=hint)

"""Cells: one step of a recurrence, in primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prototrt.surgery.builder import Builder
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ops import ADD, MULTIPLY, Sigmoid, Slice, TanH
from prototrt.surgery.recurrent.scan import Step


@dataclass(frozen=True, slots=True)
class LSTMCell:
    """``c' = f c + i g``, ``h' = o tanh(c')``; gates i, f, o (sigmoid) and g (tanh) in this order.

    Inputs of a step: the transformed x (N, 4H) and, unless the state always continues,
    the delta (N, H) or (N, 1). States: h and c, (N, H). Output: h'.
    ``recurrent`` is W_hc (4H, H). The delta multiplies h before the product with W_hc, and
    f before the product with c: it need not be 0 or 1.
    Source: caffe ``src/caffe/layers/lstm_layer.cpp``, ``lstm_unit_layer.cpp``.
    """

    recurrent: Value

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        (x, *delta), (h, c) = inputs, states
        gates = body.add(ADD, x, recurrent_product(body, h, self.recurrent, delta), hint="gates")
        c_new, h_new = lstm_unit(body, gates, c, delta)
        return Step([h_new, c_new], [h_new])


def lstm_unit(body: Builder, gates: Value, c: Value, delta: Sequence[Value]) -> tuple[Value, Value]:
    """The new cell and hidden state (..., H) from gates (..., 4H) in the order i, f, o, g."""
    axis = len(gates.shape) - 1
    hidden = fixed(c.shape[-1], "the number of hidden units")

    def part(of: Value, start: int, size: int, hint: str) -> Value:
        return body.add(Slice(axis, start * hidden, size * hidden), of, hint=hint)

    ifo = body.add(Sigmoid(), part(gates, 0, 3, "gates_ifo"), hint="sigmoid_ifo")
    i, f, o = (part(ifo, index, 1, f"gate_{name}") for index, name in enumerate("ifo"))
    g = body.add(TanH(), part(gates, 3, 1, "gates_g"), hint="gate_g")
    for cont in delta:
        f = body.add(MULTIPLY, f, cont, hint="delta_product_f")
    kept = body.add(MULTIPLY, f, c, hint="kept")
    c_new = body.add(ADD, kept, body.add(MULTIPLY, i, g, hint="written"), hint="c")
    return c_new, body.add(MULTIPLY, o, body.add(TanH(), c_new, hint="c_tanh"), hint="h")


@dataclass(frozen=True, slots=True)
class RNNCell:
    """``h' = tanh(x + W_hh h)``.

    Inputs of a step: the transformed x (N, H) and, unless the state always continues, the
    delta. State and output: h (N, H). ``recurrent`` is W_hh (H, H).
    Source: caffe ``src/caffe/layers/rnn_layer.cpp``.
    """

    recurrent: Value

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        (x, *delta), (h,) = inputs, states
        total = body.add(ADD, x, recurrent_product(body, h, self.recurrent, delta), hint="sum")
        h_new = body.add(TanH(), total, hint="h")
        return Step([h_new], [h_new])


def recurrent_product(body: Builder, h: Value, weights: Value, delta: Sequence[Value]) -> Value:
    """``W (delta h)`` for all gates at once."""
    for cont in delta:
        h = body.add(MULTIPLY, h, cont, hint="delta_product")
    return body.product(h, weights, hint="recurrent_product")

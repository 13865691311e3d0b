"""The gated recurrent unit, in both orders of reset and product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Op, fixed
from prototrt.surgery.recurrent.cells import SIGMOID, TANH, Cell, Product, Step, units


@dataclass(frozen=True, slots=True)
class GRUForm:
    """The activations of a GRU, by the names of the fields of ``recurrent_param``."""

    states: ClassVar[Sequence[str]] = ("h",)

    gate_activation: Op = SIGMOID
    candidate_activation: Op = TANH


@dataclass(frozen=True, slots=True)
class GRUCell(Cell):
    """``h' = (1 - z) n + z h``; gates r (reset), z (update; both sigmoid) and n (new; tanh) in this order.

    ``recurrent`` are W_rz (2H, H) and W_n (H, H) for ``n = tanh(x_n + W_n (r h))``, or all of them in one (3H, H)
    for ``n = tanh(x_n + r (W_n h + b_n))`` with ``recurrent_bias`` b (1, 3H), if there is one.
    x (N, 3H). State and output: h (N, H).
    Source: Cho et al. 2014, equations 5 to 8; ONNX operator ``GRU``, ``linear_before_reset``.
    """

    recurrent: tuple[ir.Value, ...]
    recurrent_bias: ir.Value | None = None
    form: GRUForm = GRUForm()
    product: Product = Value.product

    @property
    def states(self) -> Mapping[str, int]:
        rows = fixed(self.recurrent[0].shape[0], "the number of hidden units")
        return dict.fromkeys(self.form.states, rows // (3 if len(self.recurrent) == 1 else 2))

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        (h,), sums = states, x
        z, total = self._reset_after(sums, h) if len(self.recurrent) == 1 else self._reset_before(sums, h)
        h = interpolate(h, z, n=total.apply(self.form.candidate_activation).named("gate_n"))
        return Step([h], [h])

    def _reset_before(self, x: Value, h: Value) -> tuple[Value, Value]:
        """z, and n before its activation."""
        w_rz, w_n = self.recurrent
        r, z = self._reset_and_update(x, self.product(h, w_rz).named("recurrent_product"))
        product = self.product((r * h).named("reset"), w_n).named("recurrent_product_n")
        return z, (units(x, 2, self.width, axis=1).named("x_n") + product).named("n")

    def _reset_after(self, x: Value, h: Value) -> tuple[Value, Value]:
        """z, and n before its activation; r multiplies the product with h, bias included."""
        (weights,), hidden = self.recurrent, self.width
        sums = self.product(h, weights).named("recurrent_product")
        if self.recurrent_bias is not None:
            sums = (sums + self.recurrent_bias).named("recurrent_sum")
        r, z = self._reset_and_update(x, units(sums, 0, hidden, 2, axis=1).named("h_rz"))
        product = (r * units(sums, 2, hidden, axis=1).named("h_n")).named("reset")
        return z, (units(x, 2, hidden, axis=1).named("x_n") + product).named("n")

    def _reset_and_update(self, x: Value, product: Value) -> tuple[Value, Value]:
        width = self.width
        total = (units(x, 0, width, 2, axis=1).named("x_rz") + product).named("gates_rz")
        gates = total.apply(self.form.gate_activation).named("gates_rz_activated")
        return units(gates, 0, width, axis=1).named("gate_r"), units(gates, 1, width, axis=1).named("gate_z")


def interpolate(h: Value, z: Value, n: Value) -> Value:
    """``(1 - z) n + z h``, written ``n + z (h - n)``."""
    return (n + (z * (h - n).named("h_minus_n")).named("kept")).named("h")

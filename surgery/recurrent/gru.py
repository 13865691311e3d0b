"""The gated recurrent unit, in both orders of reset and product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Op, Value, fixed
from prototrt.surgery.ops import ADD, MULTIPLY, SUBTRACT
from prototrt.surgery.recurrent.cells import SIGMOID, TANH, Cell, activated, part
from prototrt.surgery.recurrent.scan import Step


@dataclass(frozen=True, slots=True)
class GRUForm:
    """The activations of a GRU, by the names of the fields of ``recurrent_param``."""

    states: ClassVar[Sequence[str]] = ("h",)

    gate_activation: Op = SIGMOID
    candidate_activation: Op = TANH


@dataclass(frozen=True, slots=True)
class GRUCell(Cell):
    """``h' = (1 - z) n + z h``; gates r (reset), z (update; both sigmoid) and n (new; tanh) in this order.

    ``n = tanh(x_n + W_n (r h))``; with ``recurrent_bias`` b (1, 3H), ``n = tanh(x_n + r (W_n h + b_n))``.
    x (N, 3H). State and output: h (N, H). ``recurrent`` are W_rz (2H, H) and W_n (H, H), or all of
    them in one (3H, H) where there is a bias.
    Source: Cho et al. 2014, equations 5 to 8; ONNX operator ``GRU``, ``linear_before_reset``.
    """

    recurrent: tuple[Value, ...]
    recurrent_bias: Value | None = None
    form: GRUForm = GRUForm()

    @property
    def states(self) -> Mapping[str, int]:
        return dict.fromkeys(
            self.form.states, fixed(self.recurrent[0].shape[1], "the number of hidden units")
        )

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        (h,), hidden = states, self.width
        if self.recurrent_bias is None:
            z, total = self._reset_before(body, x, h, hidden)
        else:
            z, total = self._reset_after(body, x, h, hidden, self.recurrent_bias)
        h_new = updated(body, h, z, activated(body, self.form.candidate_activation, total, "gate_n"))
        return Step([h_new], [h_new])

    def _reset_before(self, body: Builder, x: Value, h: Value, hidden: int) -> tuple[Value, Value]:
        w_rz, w_n = self.recurrent
        r, z = self._reset_and_update(body, x, body.product(h, w_rz, hint="recurrent_product"), hidden)
        seen = body.product(body.add(MULTIPLY, r, h, hint="reset"), w_n, hint="recurrent_product_n")
        return z, body.add(ADD, part(body, x, 2, hidden, "x_n"), seen, hint="n")

    def _reset_after(
        self, body: Builder, x: Value, h: Value, hidden: int, bias: Value
    ) -> tuple[Value, Value]:
        (weights,) = self.recurrent
        product = body.add(
            ADD, body.product(h, weights, hint="recurrent_product"), bias, hint="recurrent_sum"
        )
        r, z = self._reset_and_update(body, x, part(body, product, 0, hidden, "h_rz", 2), hidden)
        seen = body.add(MULTIPLY, r, part(body, product, 2, hidden, "h_n"), hint="reset")
        return z, body.add(ADD, part(body, x, 2, hidden, "x_n"), seen, hint="n")

    def _reset_and_update(self, body: Builder, x: Value, product: Value, hidden: int) -> tuple[Value, Value]:
        total = body.add(ADD, part(body, x, 0, hidden, "x_rz", 2), product, hint="gates_rz")
        opened = activated(body, self.form.gate_activation, total, "gates_rz_activated")
        return part(body, opened, 0, hidden, "gate_r"), part(body, opened, 1, hidden, "gate_z")


def updated(body: Builder, h: Value, z: Value, n: Value) -> Value:
    """``(1 - z) n + z h``, written ``n + z (h - n)``."""
    change = body.add(MULTIPLY, z, body.add(SUBTRACT, h, n, hint="h_minus_n"), hint="kept")
    return body.add(ADD, n, change, hint="h")

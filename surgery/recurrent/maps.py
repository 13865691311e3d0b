"""Recurrence over maps: the states are (N, C, height, width), and convolutions take the place of products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import Convolution, Pad
from prototrt.surgery.recurrent.cells import Cell, Step, StepFunction, scan
from prototrt.surgery.recurrent.resets import GuardedCell


@dataclass(frozen=True, slots=True)
class MapProduct:
    """The convolution of h with a kernel: the ``product`` of a cell over maps."""

    op: Convolution

    def __call__(self, h: Value, kernel: ir.Value) -> Value:
        rows = fixed(kernel.shape[0], "the number of gates")
        no_bias = h.build.constant(np.broadcast_to(np.float32(0), (rows,)), "no_bias")
        return h.apply(self.op, kernel, no_bias)


@dataclass(frozen=True, slots=True)
class EarlyPeepholes:
    """Peepholes of i, f and o to c as it was before cont resets it: ``x + p c``.

    ``weights`` p broadcast to (N, 3, C, height, width).
    """

    step: StepFunction
    weights: Value

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        x, *marks = inputs
        streams, size, *sizes = states[1].shape
        channels = fixed(size, "the channels of the state")
        c = states[1].reshape(streams, 1, channels, *sizes).named("c")
        view = (c * self.weights).named("peepholes").reshape(streams, 3 * channels, *sizes).named("peepholes")
        view = view.apply(Pad((0, 0, 0, 0), (0, channels, 0, 0))).named("peepholes_of_gates")
        return self.step(body, [(view + x).named("x_peepholes"), *marks], states)


def run_over_maps(
    build: Builder,
    cell: Cell,
    x: Value,
    cont: Value | None,
    initial: Sequence[Value],
    *,
    reverse: bool = False,
    before: Callable[[StepFunction], StepFunction] | None = None,
) -> Step:
    """The states after the last step, and the top (T, N, C, height, width).

    ``x`` (T, N, R, height, width) is transformed already; ``cont`` (T, N); ``initial`` are states
    (N, C, height, width). ``before`` adds to a step what comes before the resets.
    """
    marks = [] if cont is None else [build.reshape(cont, (*x.shape[:2], 1, 1, 1), hint="cont")]
    step: StepFunction = GuardedCell(cell, resets=bool(marks))
    return scan(build, before(step) if before else step, [x, *marks], initial, reverse=reverse)

"""0, 1, 2, ...: a constant if they are few, counted by a Scan if they are many, and from a size that varies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Size, computable
from prototrt.surgery.ir.uniform_constants import MOST_WRITTEN_OUT
from prototrt.surgery.recurrent.cells import Step, scan


def numbers(build: Builder, count: Size, hint: str) -> Value:
    """The numbers from 0 to before ``count``: (count,), int32."""
    if not isinstance(count, int) or count <= MOST_WRITTEN_OUT:
        return build.counted_numbers(count, hint)
    nothing = build.constant(np.broadcast_to(np.int32(0), (count, 1)), "nothing")
    return build.reshape(_numbers_along(build, nothing), (count,), hint=hint)


def numbered_steps(build: Builder, x: Value) -> Value:
    """The numbers of the steps of a sequence (T, ...): (T, 1, 1), int32."""
    return build.aligned(numbers(build, computable(x.shape[0], "the number of steps"), "steps"), 3, 0)


def _numbers_along(build: Builder, sequence: Value) -> Value:
    """The numbers of the elements of axis 0 of a sequence (T, ...): (T, 1, 1), int32."""
    first = build.constant(np.zeros((1, 1), np.int32), "first_step")
    return scan(build, _next_step, [sequence], [first]).outputs[0]


def _next_step(body: Builder, _: Sequence[Value], states: Sequence[Value]) -> Step:
    (step,) = states
    return Step([(step + 1).named("next_step")], [step])

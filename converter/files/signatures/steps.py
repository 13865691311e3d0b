"""Several calls at once: each input is an array (steps, ...) with one row for each call."""

from __future__ import annotations

from collections.abc import Mapping

from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.converter.files.signatures.signature import Signature


def refuse_fed_states(signature: Signature, feeds: Mapping[str, object], to: str = "run_steps()") -> None:
    """Raise ``NetError`` for state among the inputs: each step takes it from the step before."""
    fed = [name for name in signature.states if name in feeds]
    if fed:
        raise NetError(
            f'the state "{fed[0]}" is given to {to}, which feeds it back itself',
            fix="give it to set_state() before",
        )


def shape_of_step(name: str, shape: tuple[int, ...], steps: int, to: str = "run_steps()") -> tuple[int, ...]:
    """The shape of one step of an array (steps, ...). Raises ``ShapeError`` if it has another number of rows."""
    if shape[:1] != (steps,):
        raise ShapeError(
            f'the array for "{name}" has the shape {shape}, expected {steps} as its first size',
            because=f"{to} runs {steps} steps and needs one row for each",
        )
    return shape[1:]


def refuse_no_steps(steps: int) -> None:
    """Raise ``ValueError`` for a number of steps below 1."""
    if steps < 1:
        raise ValueError(f"steps is {steps}, expected 1 or more")

"""Operators whose axes are an attribute or an input, as the opset has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import ReduceKind

_SINCE = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13}
"""The first opset in which the axes are an input."""
_OTHER_REDUCTIONS = 18


def squeeze(model: OnnxModel, x: Tensor | str, *axes: int) -> str:
    """The elements without these axes, which have size 1."""
    return _over_axes(model, "Squeeze", x, axes)


def unsqueeze(model: OnnxModel, x: Tensor | str, *axes: int) -> str:
    """The elements with further axes of size 1, at these places of the result."""
    return _over_axes(model, "Unsqueeze", x, axes)


def reduce_axes(
    model: OnnxModel, kind: ReduceKind, x: Tensor | str, axes: Sequence[int], *, keep: bool
) -> str:
    """A reduction over these axes, which stay with the size 1 if ``keep``."""
    return _over_axes(model, f"Reduce{kind.value.title()}", x, axes, keepdims=int(keep))


def _over_axes(model: OnnxModel, kind: str, x: Tensor | str, axes: Sequence[int], **attributes: Any) -> str:
    if model.opset >= _SINCE.get(kind, _OTHER_REDUCTIONS):
        return model.add(kind, x, model.integers(*axes), **attributes)
    return model.add(kind, x, axes=axes, **attributes)

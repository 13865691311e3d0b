"""The rules by kind of TensorRT layer, and what they share.

A rule is called once for each layer of the network. It reads the layer's attributes and returns a function
of the layer's inputs, which is called as often as the layer runs. A missing input is ``None``, or left out
at the end.

Floating-point tensors are float32 arrays here, whatever their type in the network: the values of a HALF or
BF16 tensor are float32 numbers which that type can hold (see ``dtypes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from prototrt.caffe_proto.common.errors import UnsupportedLayerError

Array: TypeAlias = npt.NDArray[Any]
Layer: TypeAlias = Any  # TensorRT's bindings carry no types
Shape: TypeAlias = tuple[int, ...]
Evaluate: TypeAlias = Callable[..., "Array | tuple[Array, ...]"]
Rule: TypeAlias = Callable[[Layer], Evaluate]

RULES: dict[str, Rule] = {}


def evaluates(layer_type: str) -> Callable[[Rule], Rule]:
    """Register the rule for the layers whose ``LayerType`` has this name."""

    def add(rule: Rule) -> Rule:
        if layer_type in RULES:
            raise RuntimeError(f"{layer_type} has two rules: {RULES[layer_type]} and {rule}")
        RULES[layer_type] = rule
        return rule

    return add


Function = TypeVar("Function", bound=Callable[..., Array])
OPEN_FOR_NAN: list[Callable[..., Array]] = []
"""Functions that make a number of NaN. NVIDIA's documentation does not cover that: they do as Caffe does.

That the read-back agrees with Caffe there proves nothing about an engine.
"""


def open_for_nan(function: Function) -> Function:
    """Mark a function as one of ``OPEN_FOR_NAN``."""
    OPEN_FOR_NAN.append(function)
    return function


def weights_array(weights: Any) -> Array | None:
    """The weights as a flat array, a view where the type allows it; None where there are none."""
    if weights.size == 0:
        return None
    if not isinstance(weights, np.ndarray):
        raise UnsupportedLayerError(
            f"weights of type {weights.dtype.name} cannot be read back",
            because="TensorRT's Python bindings keep their values to themselves",
            fix="store the weights as FLOAT and cast them in the network",
        )
    return weights.astype(np.float32) if weights.dtype == np.float16 else weights


T = TypeVar("T")


def kind_among(kinds: Mapping[str, T], kind: Any, what: str) -> T:
    """What a table has for a member of an enumeration. Raises ``UnsupportedLayerError`` for what no lowering makes."""
    if kind.name not in kinds:
        raise UnsupportedLayerError(f"{what} of kind {kind.name} has no rule here")
    return kinds[kind.name]


def refuse_other_kind(kind: Any, expected: str, what: str) -> None:
    """Raise ``UnsupportedLayerError`` for another member of an enumeration than the one that lowerings use."""
    kind_among({expected: None}, kind, what)


def axes_of_mask(mask: int) -> Shape:
    """TensorRT names a set of axes by the bits of an integer."""
    return tuple(axis for axis in range(32) if mask >> axis & 1)


def integers(values: Iterable[Any]) -> Shape:
    return tuple(int(value) for value in values)

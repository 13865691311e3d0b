"""Arguments of TensorRT's calls as Python, and the arrays that a program reads from its file of weights."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.naming import Names, literal
from prototrt.converter.backends.tensorrt_python.recording import ArrayOfCall
from prototrt.converter.backends.torch.expressions import in_tuple
from prototrt.surgery.ir import Array, Value

_MOST_INLINE = 8
"""Numbers that stand in a program."""
_SCALAR = re.compile(r"_scalar(_\d+)?$")
_MASKS = {("add_reduce", 2), ("add_topk", 3)}
"""Sets of axes, by the method and the place of the argument."""


class Arrays:
    """The arrays of a file of weights, each once: a constant under its name, others under that of their layer."""

    def __init__(self) -> None:
        self.by_key: dict[str, Array] = {}
        self._names = Names()
        self._keys: dict[object, str] = {}

    @property
    def by_alignment(self) -> dict[str, Array]:
        """The largest types first: so each array lies in the file where its type may lie in memory."""
        return dict(sorted(self.by_key.items(), key=lambda item: -item[1].itemsize))

    def text(self, weights: ArrayOfCall, layer: str) -> str:
        """An expression for the array: its numbers, if it is small and no weight of the net."""
        array, value = weights.array, weights.value
        is_plain = value is None or _SCALAR.search(value.name)
        is_nothing = value is not None and value.name.endswith("no_bias") and not array.any()
        if (is_plain or is_nothing) and (numbers := _numbers(array)) is not None:
            return numbers
        return f"weights[{literal(self._key(array, value, layer))}]"

    def _key(self, array: Array, value: Value | None, layer: str) -> str:
        identity = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if identity not in self._keys:
            hint = layer if value is None else value.name
            key = self._names.free(hint.removeprefix("__"))
            self._keys[identity], self.by_key[key] = key, array
        return self._keys[identity]


def _numbers(array: Array) -> str | None:
    """Numbers of NumPy's own types as Python; None if there are many, or NaN is among them."""
    kind = "bool" if array.dtype == np.bool_ else array.dtype.name
    if array.dtype.kind not in "bif" or (array.size and np.isnan(array.astype(np.float64)).any()):
        return None
    if array.size > 1 and _is_uniform(array):
        first = array.reshape(-1)[0]
        if not first and not np.signbit(first):
            return f"np.zeros({array.shape}, np.{kind})"
        return f"np.full({array.shape}, {_number(first)}, np.{kind})"
    if array.size > _MOST_INLINE:
        return None
    if array.size == 1 and array.ndim:
        return f"np.full({array.shape}, {_number(array.reshape(-1)[0])}, np.{kind})"
    return (
        f"np.array({_nested_lists(array)}, np.{kind})"
        if array.size
        else f"np.zeros({array.shape}, np.{kind})"
    )


def _is_uniform(array: Array) -> bool:
    return bool((array == array.reshape(-1)[0]).all()) and len({*np.signbit(array).reshape(-1)}) == 1


def _nested_lists(array: Array) -> str:
    return _number(array[()]) if array.ndim == 0 else f"[{', '.join(map(_nested_lists, array))}]"


def _number(number: Any) -> str:
    """The shortest text that reads as this number, in its type."""
    if isinstance(number, np.floating):
        if np.isinf(number):
            return "np.inf" if number > 0 else "-np.inf"
        short = float(str(number))
        return repr(short if type(number)(short) == number else float(number))
    return repr(number.item())


def argument_text(trt: Any, argument: Any) -> str:
    """A value of Python or of TensorRT, other than tensors and weights."""
    if isinstance(argument, bool | int | float | np.number):
        plain = argument.item() if isinstance(argument, np.number) else argument
        return repr(plain) if not isinstance(plain, float) or math.isfinite(plain) else f'float("{plain}")'
    if isinstance(argument, str):
        return literal(argument)
    if isinstance(argument, tuple | list):
        texts = [argument_text(trt, each) for each in argument]
        return in_tuple(texts)
    if isinstance(argument, trt.DataType):
        return f"trt.{_dtype_name(trt, argument)}"
    if isinstance(argument, trt.Permutation):
        return f"trt.Permutation({_order(argument)})"
    if isinstance(argument, trt.Weights):
        assert argument.size == 0, "weights come as arrays"
        kind = argument_text(trt, argument.dtype)
        return "trt.Weights()" if argument.dtype == trt.Weights().dtype else f"trt.Weights({kind})"
    return f"trt.{type(argument).__name__}.{argument.name}"


def _dtype_name(trt: Any, dtype: Any) -> str:
    """As in ``float32``."""
    kind, members = trt.DataType, vars(trt).items()
    return str(next(name for name, each in members if isinstance(each, kind) and each == dtype))


def _order(permutation: Any) -> tuple[int, ...]:
    """TensorRT fills up with zeros."""
    order = [int(axis) for axis in permutation]
    return tuple(order[: max(order) + 1])


def is_mask(method: str, place: int) -> bool:
    """Whether this argument of a method is a set of axes, by the bits of a number."""
    return (method, place) in _MASKS


def mask_text(mask: int) -> str:
    """As in ``1 << 2 | 1 << 3``."""
    bits = itertools.takewhile(lambda axis: mask >> axis, itertools.count())
    return " | ".join(f"1 << {axis}" for axis in bits if mask >> axis & 1) or "0"

"""Shared parts of operator rules: the registry, axes, and inputs that must be constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import GIVE_SHAPES_AND_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ShapeError, UnsupportedLayerError, WeightsError
from prototrt.surgery import ir
from prototrt.surgery.building import layer_builder
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerRule
from prototrt.surgery.ir import Array, Dim, DType, Node, Shape, element_count
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ir.uniform_constants import is_broadcast

operator_rule: Registry[str, LayerRule] = Registry("operator rule")
"""``rule(build, operator, *inputs) -> outputs``. A rule may omit outputs at the end that are not tensors."""

MOST_COMPUTED = 1 << 23
NO_RULE = "docs/caffe2.md lists the supported ones"


def axis_of(operator: Operator, shape: Shape, default: int, name: str = "axis") -> int:
    """An axis that the operator states, counted from the front."""
    return canonical(operator.arguments.integer(name, default), shape, name)


def canonical(axis: int, shape: Shape, name: str = "axis") -> int:
    """An axis counted from the front. Raises ``NetError`` if the shape lacks it."""
    return layer_builder.canonical_axis(axis, shape, name, "input")


def merge_sizes(shape: Shape) -> Dim:
    """The size of several axes merged into one. A single axis keeps its symbol."""
    sizes = [dim for dim in shape if dim != 1]
    return sizes[0] if len(sizes) == 1 else element_count(shape, "a flattened axis")


def constant_array(build: Builder, operator: Operator, index: int, value: Value) -> Array:
    """What an input holds that the graph depends on: weights, a shape, sizes."""
    array = _constant_data(build, value)
    if array is None:
        raise UnsupportedLayerError(
            "must be known when the engine is built",
            origin=operator.origin,
            blob=f'input "{operator.bottom_blob(index)}"',
            fix="fill it in the init net, or export it as an argument",
        )
    return array


def _constant_data(build: Builder, value: ir.Value) -> Array | None:
    """The data of a constant, or of a value that nodes compute from constants."""
    if value.data is not None:
        return np.asarray(value.data)
    node = build.writer(value)
    if node is None:
        return None
    inputs = [_constant_data(build, read) for read in node.inputs]
    if any(array is None for array in inputs):
        return None
    _refuse_growth(node, inputs)
    return np.asarray(node.op.evaluate(*inputs)[node.outputs.index(value)])


def _refuse_growth(node: Node, inputs: Sequence[Array | None]) -> None:
    """Raise if constants are much larger than the weights they are made from: they could fill any memory."""
    stored = sum(array.size for array in inputs if array is not None and not is_broadcast(array))
    written = sum(element_count(value.shape) for value in node.outputs)
    if written > max(MOST_COMPUTED, 4 * stored):
        raise WeightsError(
            f"{written} numbers would be computed from {stored} that are stored, expected at most {MOST_COMPUTED}",
            origin=node.origin,
            fix="store the result in the init net",
        )


def misfit(
    operator: Operator, index: int, value: Value | Array, expected: object, because: str | None = None
) -> ShapeError:
    """The error for an input of a shape that the operator has no use for."""
    return layer_builder.misfit(operator, index, value, expected, GIVE_SHAPES_AND_INIT_NET, because)


def expect_axes(operator: Operator, value: Value, count: int, meaning: str, index: int = 0) -> None:
    """Refuse an input with another number of axes."""
    if len(value.shape) != count:
        raise misfit(operator, index, value, meaning)


def expect_whole_numbers(operator: Operator, value: Value, index: int) -> None:
    """Refuse places and lengths that are not whole numbers."""
    if value.dtype is not DType.INT32:
        raise ShapeError(
            f"holds {value.dtype.value}, expected int32",
            blob=f'input "{operator.bottom_blob(index)}"',
            fix="insert a Cast before it",
        )


def channel_axis(operator: Operator, x: Value) -> int:
    """The axis of the channels: 1, or with ``order`` NHWC the last one."""
    axis = len(x.shape) - 1 if operator.arguments.text("order", "NCHW") == "NHWC" else 1
    if not 0 < axis < len(x.shape):
        raise misfit(operator, 0, x, "(N, C, ...)")
    return axis


def refuse_order(operator: Operator) -> None:
    """Images are NCHW here."""
    order = operator.arguments.text("order", "NCHW")
    if order != "NCHW":
        raise UnsupportedLayerError(f'order is "{order}", expected "NCHW"', fix="export the net in NCHW")


def sizes_of(build: Builder, operator: Operator, name: str, index: int, value: Value | None) -> list[int]:
    """Whole numbers that an input holds, or an argument where there is no such input."""
    if value is None:
        return list(operator.arguments.integers(name))
    return [int(size) for size in constant_array(build, operator, index, value).reshape(-1)]


def integers(build: Builder, sizes: Sequence[Dim]) -> Value:
    """Sizes as a constant."""
    return build.constant(np.array(sizes, np.int32), "sizes")

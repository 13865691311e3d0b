"""Operators that normalize values."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, centre
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    constant_array,
    expect_axes,
    merge_sizes,
    misfit,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.ir import Array
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.ops import LRN, Affine, Softmax


@operator_rule("Softmax")
def softmax(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``exp(x) / sum(exp(x))`` over all axes from ``axis`` on.

    Becomes: Softmax.
    """
    axis = axis_of(operator, x.shape, 1)
    if all(dim == 1 for dim in x.shape[axis + 1 :]):
        return [build.add(Softmax(axis), x)]
    rows = build.reshape(x, (merge_sizes(x.shape[:axis]), merge_sizes(x.shape[axis:])))
    return [build.reshape(build.add(Softmax(1), rows), x.shape)]


@operator_rule("LayerNorm")
def layer_norm(
    build: Builder, operator: Operator, x: Value, scale: Value | None = None, shift: Value | None = None
) -> list[Value]:
    """``(x - mean) / sqrt(variance + epsilon)`` over the axes from ``axis`` on, then scale and shift.

    Becomes: Reduce, Subtract, Multiply, Add, Sqrt, Divide.
    Inputs: x, and scale and shift with the sizes of those axes. Caffe2 ignores both without
    ``elementwise_affine``.
    Outputs: the result, means, standard deviations.
    """
    arguments, rank = operator.arguments, len(x.shape)
    axis = axis_of(operator, x.shape, 1)
    difference, variance, mean = centre(x, tuple(range(axis, rank)))
    variance_epsilon = (variance + arguments.number("epsilon", 1e-5)).named("variance_epsilon")
    deviation = variance_epsilon.sqrt().named("deviation")
    y = (difference / deviation).named("normalized")
    if arguments.flag("elementwise_affine"):
        if scale is None or shift is None:
            raise NetError(
                "elementwise_affine is 1, but the inputs scale and bias are missing",
                fix="add the two inputs after x, or set elementwise_affine to 0",
            )
        y = (y * _factor_of_axes(build, operator, 1, scale, x, axis)).named("scaled")
        y = (y + _factor_of_axes(build, operator, 2, shift, x, axis)).named("shifted")
    elif scale is not None:
        build.warn("elementwise_affine is not set: the inputs scale and bias are ignored, as in Caffe2")
    statistics = [each.reshape(*x.shape[:axis], 1) for each in (mean, deviation)]
    return [y, *statistics]


def _factor_of_axes(
    build: Builder, operator: Operator, index: int, factor: Value, x: Value, axis: int
) -> Value:
    if merge_sizes(factor.shape) != merge_sizes(x.shape[axis:]):
        raise misfit(operator, index, factor, x.shape[axis:])
    return build.aligned(build.reshape(factor, x.shape[axis:]), len(x.shape))


@operator_rule("SpatialBN")
def spatial_bn(
    build: LayerBuilder,
    operator: Operator,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    variance: Value,
) -> list[Value]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + shift`` per channel, with the stored statistics.

    Becomes: Affine.
    Inputs: x (N, C, ...); scale, shift, mean and variance (C,). Exporters call the last one
    ``riv``, but it is the variance.
    """
    refuse_order(operator)
    if not operator.arguments.flag("is_test"):
        build.warn("is_test is not set: prototrt assumes inference and uses the stored statistics")
    parts = [
        constant_array(build, operator, 1 + i, value)
        for i, value in enumerate((scale, shift, mean, variance))
    ]
    for index, part in enumerate(parts, 1):
        if part.shape != x.shape[1:2]:
            raise misfit(operator, index, part, x.shape[1:2])
    epsilon = operator.arguments.number("epsilon", 1e-5)

    def factor(gamma: Array, beta: Array, center: Array, spread: Array) -> Array:
        return np.asarray(gamma / np.sqrt(spread + epsilon))

    def summand(gamma: Array, beta: Array, center: Array, spread: Array) -> Array:
        return np.asarray(beta - center * factor(gamma, beta, center, spread))

    wide = [map_elements(lambda part: part.astype(np.float64), part) for part in parts]
    exact = map_elements(factor, *wide), map_elements(summand, *wide)
    narrow = [map_elements(lambda array: array.astype(np.float32), array) for array in exact]
    constants = [build.constant(array, "bn") for array in narrow]
    for blob, array in zip((scale, shift), narrow, strict=True):
        build.set_equivalent(blob, array)
    build.set_equivalent(mean, 0.0)
    build.set_equivalent(variance, 1 - epsilon)
    return [build.add(Affine(), x, *constants)]


@operator_rule("LRN")
def lrn(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x / (bias + alpha / size * sum of squares of the size channels around)^beta``.

    Becomes: LRN.
    Inputs: (N, C, H, W). Outputs: the result; the scale is not given.
    """
    refuse_order(operator)
    expect_axes(operator, x, 4, "(N, C, H, W)")
    arguments = operator.arguments
    size = arguments.integer("size", 0)
    if size < 1 or size % 2 == 0:
        raise UnsupportedLayerError(f"size is {size}, expected an odd number", fix=CUT_BEFORE)
    numbers = (
        arguments.number(name, default) for name, default in (("alpha", 0.0), ("beta", 0.0), ("bias", 1.0))
    )
    return [build.add(LRN(size, *numbers), x)]

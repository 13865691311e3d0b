"""Sliding kernels with learned weights."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import ShapeError, UnsupportedLayerError, WeightsError
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.operator_rule import known, operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import Geometry, geometry_of
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ops import Convolution, Deconvolution, Pad, Slice


@operator_rule("Conv")
def convolution(
    build: Builder, operator: Operator, x: Value, weights: Value, bias: Value | None = None
) -> list[Value]:
    """Cross-correlation. Sizes round down.

    Becomes: Convolution; Pad where the padding differs between the ends.
    Inputs: x (N, C, ...), weights (outputs, C / group, kernel...), bias (outputs,).
    """
    refuse_order(operator)
    kernel, geometry, group = _kernel(build, operator, x, weights)
    channels = fixed(x.shape[1], "axis 1 (channels)")
    if kernel.shape[1] * group != channels or kernel.shape[0] % group:
        raise _unfit(operator, kernel.shape, channels, group)
    pad = geometry.before
    if geometry.before != geometry.after:
        x = build.add(Pad((0, 0, *geometry.before), (0, 0, *geometry.after)), x)
        pad = (0,) * len(pad)
    op = Convolution(geometry.stride, pad, geometry.dilation, group)
    return [build.add(op, x, build.constant(kernel, "kernel"), _bias(build, operator, bias, kernel.shape[0]))]


@operator_rule("ConvTranspose")
def transposed(
    build: Builder, operator: Operator, x: Value, weights: Value, bias: Value | None = None
) -> list[Value]:
    """The transpose of Conv: every element adds a scaled kernel to the result.

    Becomes: Deconvolution; Slice where the padding differs between the ends; Pad for ``adj``.
    Inputs: x (N, C, ...), weights (C, outputs / group, kernel...), bias (outputs,).
    """
    refuse_order(operator)
    kernel, geometry, group = _kernel(build, operator, x, weights)
    channels = fixed(x.shape[1], "axis 1 (channels)")
    if kernel.shape[0] != channels or channels % group:
        raise _unfit(operator, kernel.shape, channels, group)
    arguments = operator.arguments
    if any(arguments.has(name) and arguments.integer(name, 0) for name in ("adj", "adj_h", "adj_w")):
        raise UnsupportedLayerError("adj is set, expected 0", fix="cut the net before it with --output BLOB")
    outputs = kernel.shape[1] * group
    pad = tuple(min(ends) for ends in zip(geometry.before, geometry.after, strict=True))
    op = Deconvolution(geometry.stride, pad, geometry.dilation, group)
    y = build.add(op, x, build.constant(kernel, "kernel"), _bias(build, operator, bias, outputs))
    for axis, (least, before, after) in enumerate(zip(pad, geometry.before, geometry.after, strict=True), 2):
        if before != after:
            size = fixed(y.shape[axis], f"axis {axis}") - (before - least) - (after - least)
            y = build.add(Slice(axis, before - least, size), y)
    return [y]


def _kernel(build: Builder, operator: Operator, x: Value, weights: Value) -> tuple[np.ndarray, Geometry, int]:
    """The weights, which must be known, and the geometry, which they must fit."""
    kernel = known(build, operator, 1, weights)
    geometry = geometry_of(operator, x.shape, default_kernel=kernel.shape[2:])
    if kernel.shape[2:] != geometry.kernel:
        raise WeightsError(
            f"shape is {kernel.shape}, expected a kernel of {geometry.kernel}",
            blob=f'input "{operator.bottom_blob(1)}"',
            fix="give the init net of this predict net",
        )
    group = operator.arguments.integer("group", 1)
    if group < 1:
        raise UnsupportedLayerError(f"group is {group}, expected at least 1")
    return kernel, geometry, group


def _bias(build: Builder, operator: Operator, bias: Value | None, outputs: int) -> Value:
    if bias is None:
        return build.constant(np.zeros(outputs, np.float32), "no_bias")
    array = known(build, operator, 2, bias)
    if array.size != outputs:
        raise ShapeError(
            f"shape is {array.shape}, expected ({outputs},)", blob=f'input "{operator.bottom_blob(2)}"'
        )
    return build.constant(array.reshape(outputs), "bias")


def _unfit(operator: Operator, kernel: tuple[int, ...], channels: int, group: int) -> WeightsError:
    return WeightsError(
        f"shape is {kernel}, which does not fit {channels} channels in {group} groups",
        blob=f'input "{operator.bottom_blob(1)}"',
        fix="give the init net of this predict net, and the shape of its input",
    )

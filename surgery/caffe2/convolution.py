"""Sliding kernels with learned weights."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import UnsupportedLayerError, WeightsError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import (
    constant_array,
    expect_axes,
    misfit,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.caffe2.windows import crop, transposed_window_of, window_of
from prototrt.surgery.images.windows import SlidingWindow
from prototrt.surgery.ir import computable, fixed
from prototrt.surgery.ops import Convolution, Deconvolution, LeakyReLU, Pad, Slice


@operator_rule("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu")
def convolution(
    build: Builder, operator: Operator, x: Value, weights: Value, bias: Value | None = None
) -> list[Value]:
    """Cross-correlation. Sizes round down.

    Becomes: Convolution, and LeakyReLU for ConvRelu; Pad where the padding differs between the ends.
    Inputs: x (N, C, ...), weights (outputs, C / group, kernel...), bias (outputs,).
    """
    refuse_order(operator)
    kernel = constant_array(build, operator, 1, weights)
    window, x = crop(build, window_of(build, operator, x.shape), x)
    group, channels = _group(operator, kernel, window), fixed(x.shape[1], "axis 1 (channels)")
    if kernel.shape[1] * group != channels or kernel.shape[0] % group:
        raise _unfit(operator, kernel.shape, channels, group)
    pad = window.before
    if window.before != window.after:
        x = build.add(Pad((0, 0, *window.before), (0, 0, *window.after)), x)
        pad = (0,) * len(pad)
    op = Convolution(window.stride, pad, window.dilation, group)
    y = build.add(op, x, build.constant(kernel, "kernel"), _bias(build, operator, bias, kernel.shape[0]))
    return [build.add(LeakyReLU(), y) if operator.type == "ConvRelu" else y]


@operator_rule("ConvTranspose")
def conv_transpose(
    build: Builder, operator: Operator, x: Value, weights: Value, bias: Value | None = None
) -> list[Value]:
    """The transpose of Conv: every element adds a scaled kernel to the result.

    Becomes: Deconvolution; Slice where the padding differs between the ends; Pad, Add for ``adj``.
    Inputs: x (N, C, ...), weights (C, outputs / group, kernel...), bias (outputs,).
    """
    refuse_order(operator)
    kernel = constant_array(build, operator, 1, weights)
    expect_axes(operator, x, 4, "(N, C, H, W)")
    window = transposed_window_of(build, operator, x.shape)
    group, channels = _group(operator, kernel, window), fixed(x.shape[1], "axis 1 (channels)")
    if kernel.shape[0] != channels or channels % group:
        raise _unfit(operator, kernel.shape, channels, group)
    shift = _bias(build, operator, bias, kernel.shape[1] * group)
    grows = min(window.after) < 0
    # The elements that adj adds after the last kernel hold only the bias.
    inner = _bias(build, operator, None, kernel.shape[1] * group) if grows else shift
    y = _cut(build, window, x, build.constant(kernel, "kernel"), inner, group)
    if not grows:
        return [y]
    more = tuple(max(-after, 0) for after in window.after)
    y = build.add(Pad((0,) * len(y.shape), (0, 0, *more)), y, hint="grown")
    return [y + build.aligned(shift, len(y.shape), 1)]


def _cut(build: Builder, window: SlidingWindow, x: Value, kernel: Value, bias: Value, group: int) -> Value:
    """The transposed convolution without its padding, which may differ between the ends."""
    after = [max(pad, 0) for pad in window.after]
    pad = tuple(map(min, window.before, after))
    y = build.add(Deconvolution(window.stride, pad, window.dilation, group), x, kernel, bias)
    for axis, (least, first, last) in enumerate(zip(pad, window.before, after, strict=True), 2):
        if first != last:
            size = computable(y.shape[axis], f"axis {axis}") - (first - least) - (last - least)
            y = build.add(Slice(axis, first - least, size), y, hint="cut")
    return y


def _group(operator: Operator, kernel: np.ndarray, window: SlidingWindow) -> int:
    """The number of groups. Raises if the window does not match the kernel."""
    if kernel.shape[2:] != window.kernel:
        raise WeightsError(
            f"shape is {kernel.shape}, expected a kernel of {window.kernel}",
            blob=f'input "{operator.bottom_blob(1)}"',
            fix=GIVE_INIT_NET,
        )
    group = operator.arguments.integer("group", 1)
    if group < 1:
        raise UnsupportedLayerError(f"group is {group}, expected at least 1", fix=CUT_BEFORE)
    return group


def _bias(build: Builder, operator: Operator, bias: Value | None, outputs: int) -> Value:
    if bias is None:
        return build.constant(np.broadcast_to(np.float32(0), (outputs,)), "no_bias")
    array = constant_array(build, operator, 2, bias)
    if array.size != outputs:
        raise misfit(operator, 2, array, f"({outputs},)")
    return build.constant(array.reshape(outputs), "bias")


def _unfit(operator: Operator, kernel: tuple[int, ...], channels: int, group: int) -> WeightsError:
    return WeightsError(
        f"shape is {kernel}, which does not fit {channels} channels in {group} groups",
        blob=f'input "{operator.bottom_blob(1)}"',
        fix="give the init net of this predict net, and the shape of its input",
    )

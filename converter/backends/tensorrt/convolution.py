"""Lowerings of convolution, of its transpose, and of what their windows see."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import shuffle
from prototrt.converter.backends.tensorrt.windows import (
    gather_windows,
    lift_of,
    pad_spatially,
    refuse_many_spatial_axes,
    with_unit_axes,
)
from prototrt.surgery.ir import Array, DType
from prototrt.surgery.ops import Convolution, Deconvolution, Patches


@lowers(Convolution)
def convolution(
    network: Network, op: Convolution, x: Tensor, kernel: Array | Tensor, bias: Array
) -> list[Tensor]:
    refuse_many_spatial_axes(network, len(op.stride))
    return [_convolve(network, op, x, kernel, bias)]


@lowers(Deconvolution)
def deconvolution(
    network: Network, op: Deconvolution, x: Tensor, kernel: Array | Tensor, bias: Array
) -> list[Tensor]:
    refuse_many_spatial_axes(network, len(op.stride))
    is_constant = isinstance(kernel, np.ndarray)
    if is_constant and max(op.stride, default=1) > 1 and max(op.dilation, default=1) > 1:
        # RTX: "Strided & Dilated Deconv are currently not supported".
        kernel, op = _with_holes(kernel, op.dilation), replace(op, dilation=(1,) * len(op.dilation))
    return [_convolve(network, op, x, kernel, bias)]


def _convolve(
    network: Network, op: Convolution | Deconvolution, x: Tensor, kernel: Array | Tensor, bias: Array
) -> Tensor:
    lift, window = lift_of(op.stride), tuple(kernel.shape)[2:]
    weights = [_weights(network, each) for each in (kernel, bias)]

    def convolved(image: Tensor) -> Tensor:
        layer = network.add(
            "convolution_nd" if isinstance(op, Convolution) else "deconvolution_nd",
            image,
            bias.size,
            (1,) * lift + window,
            *(network.no_weights if each is None else each for each in weights),
        )
        layer.padding_nd = (0,) * lift + op.pad
        layer.stride_nd = (1,) * lift + op.stride
        layer.dilation_nd = (1,) * lift + op.dilation
        layer.num_groups = op.group
        for position, (each, held) in enumerate(zip((kernel, bias), weights, strict=True), 1):
            if held is None:
                layer.set_input(position, _lifted_tensor(network, each, lift if position == 1 else 0))
        return layer.get_output(0)

    return with_unit_axes(network, x, lift, convolved)


def _weights(network: Network, operand: Array | Tensor) -> Any:
    """``Weights`` of what is known; None for a tensor, and for bfloat16, which cannot be read back as weights."""
    if not isinstance(operand, np.ndarray) or operand.dtype.name == DType.BFLOAT16.value:
        return None
    return network.weights(operand)


def _lifted_tensor(network: Network, operand: Array | Tensor, lift: int) -> Tensor:
    """A kernel as a tensor, with ``lift`` axes of size 1 after its channels."""
    tensor = network.constant_array(operand) if isinstance(operand, np.ndarray) else operand
    sizes = tuple(tensor.shape)
    return shuffle(network, tensor, (*sizes[:2], *(1,) * lift, *sizes[2:])) if lift else tensor


def _with_holes(kernel: Array, dilation: tuple[int, ...]) -> Array:
    """The kernel (C, O, ...) with zeros in the place of its dilation."""
    sizes = [d * (size - 1) + 1 for size, d in zip(kernel.shape[2:], dilation, strict=True)]
    wide = np.zeros((*kernel.shape[:2], *sizes), kernel.dtype)
    places: Any = (..., *(slice(None, None, d) for d in dilation))
    wide[places] = kernel
    return wide


@lowers(Patches)
def patches(network: Network, op: Patches, x: Tensor) -> list[Tensor]:
    refuse_many_spatial_axes(network, len(op.window))
    channels = x.shape[1]
    seen = gather_windows(
        network, pad_spatially(network, x, op.pad, op.pad, 0.0), op.window, op.stride, op.dilation
    )
    joined = network.add("shuffle", seen)
    joined.reshape_dims = (0, channels * math.prod(op.window), *tuple(seen.shape)[2 + len(op.window) :])
    return [joined.get_output(0)]

"""Lowerings of what moves elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.errors import ShapeError
from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Shape
from prototrt.surgery.ops import Concat, Gather, Pad, Reshape, Reverse, Slice, Tile, Transpose


@lowers(Reshape)
def reshape(network: Network, op: Reshape, x: Tensor) -> list[Tensor]:
    layer = network.add("shuffle", x)
    # 0 copies the size at the same place, one -1 takes what is left.
    layer.reshape_dims = tuple(
        dim if isinstance(dim, int) else 0 if dim.index == place else -1
        for place, dim in enumerate(op.target)
    )
    if sum(size == -1 for size in layer.reshape_dims) > 1:
        raise ShapeError(
            f"more than one unknown size changes its place in {op.target}",
            origin=network.origin,
            fix="fix one of them",
        )
    return [layer.get_output(0)]


@lowers(Transpose)
def transpose(network: Network, op: Transpose, x: Tensor) -> list[Tensor]:
    layer = network.add("shuffle", x)
    layer.first_transpose = network.trt.Permutation(op.order)
    return [layer.get_output(0)]


@lowers(Slice)
def slice_(network: Network, op: Slice, x: Tensor) -> list[Tensor]:
    start = [0] * len(x.shape)
    start[op.axis] = op.start
    return [_sliced(network, x, start, network.shape, "STRICT_BOUNDS")]


@lowers(Tile)
def tile(network: Network, op: Tile, x: Tensor) -> list[Tensor]:
    return [_sliced(network, x, [0] * len(x.shape), network.shape, "WRAP")]


@lowers(Pad)
def pad(network: Network, op: Pad, x: Tensor) -> list[Tensor]:
    return [pad_with(network, x, op.before, op.after, op.value)]


def pad_with(
    network: Network, x: Tensor, before: Sequence[int], after: Sequence[int], value: float
) -> Tensor:
    """``value`` around each axis of the node's first input: a slice that begins before the tensor."""
    (shape,) = Pad(tuple(before), tuple(after)).shape(network.input_shape)
    return _sliced(network, x, [-b for b in before], shape, "FILL", value)


def _sliced(
    network: Network, x: Tensor, start: list[int], shape: Shape, mode: str, fill: float = 0.0
) -> Tensor:
    """Elements from ``start`` on, as many as ``shape`` says; what lies outside follows ``mode``."""
    sizes = [dim if isinstance(dim, int) else 1 for dim in shape]
    layer = network.add("slice", x, start, sizes, [1] * len(sizes))
    layer.mode = network.enum("SampleMode", mode)
    if any(isinstance(dim, str) for dim in shape):
        layer.set_input(2, network.sizes(shape))
    if fill:
        layer.set_input(4, network.constant_array(np.array(fill, np.float32)))
    return layer.get_output(0)


@lowers(Concat)
def concat(network: Network, op: Concat, *inputs: Tensor) -> list[Tensor]:
    layer = network.add("concatenation", list(inputs))
    layer.axis = op.axis
    return [layer.get_output(0)]


@lowers(Gather)
def gather(network: Network, op: Gather, table: Tensor, index: Tensor) -> list[Tensor]:
    return [network.add("gather", table, index, 0).get_output(0)]


@lowers(Reverse)
def reverse(network: Network, op: Reverse, x: Tensor) -> list[Tensor]:
    """A slice with the stride -1. Where the size is known later, so is where it begins."""
    shape = network.input_shape
    sizes = [dim if isinstance(dim, int) else 1 for dim in shape]
    along = [int(axis == op.axis) for axis in range(len(sizes))]
    start = [(size - 1) * step for size, step in zip(sizes, along, strict=True)]
    layer = network.add("slice", x, start, sizes, [1 - 2 * step for step in along])
    if any(isinstance(dim, str) for dim in shape):
        layer.set_input(1, _last_place(network, network.sizes(shape), along))
        layer.set_input(2, network.sizes(shape))
    return [layer.get_output(0)]


def _last_place(network: Network, sizes: Tensor, along: Sequence[int]) -> Tensor:
    """The last place along one axis, the first along the others."""
    steps = network.constant_array(np.array(along, np.int32))
    of_axis = network.add("elementwise", sizes, steps, network.enum("ElementWiseOperation", "PROD"))
    minus = network.enum("ElementWiseOperation", "SUB")
    return network.add("elementwise", of_axis.get_output(0), steps, minus).get_output(0)

"""Lowerings of what moves elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.converter.backends.tensorrt.elementwise import elementwise
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Shape, Size
from prototrt.surgery.ops import Axis, Concat, Pad, Reshape, Reverse, ReverseSequence, Slice, Tile, Transpose


@lowers(Reshape)
def reshape(network: Network, op: Reshape, x: Tensor) -> list[Tensor]:
    layer = network.add("shuffle", x)
    # 0 copies the size at the same place, one -1 takes what is left.
    sizes = tuple(
        dim if isinstance(dim, int) else 0 if dim == Axis(place) else -1
        for place, dim in enumerate(op.target)
    )
    if sizes.count(-1) > 1:
        layer.set_input(1, network.sizes(network.shape))
    else:
        layer.reshape_dims = sizes
    return [layer.get_output(0)]


def shuffle(network: Network, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The same elements in a shape of known sizes."""
    layer = network.add("shuffle", x)
    layer.reshape_dims = sizes
    return layer.get_output(0)


@lowers(Transpose)
def transpose(network: Network, op: Transpose, x: Tensor) -> list[Tensor]:
    layer = network.add("shuffle", x)
    layer.first_transpose = network.trt.Permutation(op.order)
    return [layer.get_output(0)]


@lowers(Slice)
def slice_(network: Network, op: Slice, x: Tensor) -> list[Tensor]:
    start: list[Size] = [0] * len(x.shape)
    start[op.axis] = op.start
    return [slice_from(network, x, start, network.shape, "STRICT_BOUNDS")]


@lowers(Reverse)
def reverse(network: Network, op: Reverse, x: Tensor) -> list[Tensor]:
    start, step = [0] * len(x.shape), [1] * len(x.shape)
    start[op.axis], step[op.axis] = max(x.shape[op.axis] - 1, 0), -1
    layer = network.add("slice", x, start, [max(size, 1) for size in x.shape], step)
    shape = network.input_shape
    if any(isinstance(dim, str) for dim in shape):
        sizes = network.sizes(shape)
        last = np.array([axis == op.axis for axis in range(len(shape))], np.int32)
        ends = elementwise(network, sizes, network.constant_array(last), "SUB")
        layer.set_input(1, elementwise(network, ends, network.constant_array(last), "PROD"))
        layer.set_input(2, sizes)
    return [layer.get_output(0)]


@lowers(ReverseSequence)
def reverse_sequence(network: Network, op: ReverseSequence, x: Tensor, lengths: Tensor) -> list[Tensor]:
    layer = network.add("reverse_sequence", x, lengths)
    layer.sequence_axis, layer.batch_axis = 0, 1
    return [layer.get_output(0)]


@lowers(Tile)
def tile(network: Network, op: Tile, x: Tensor) -> list[Tensor]:
    if network.tile == "plugin" and isinstance(op.copies, int):
        from prototrt.converter.backends.tensorrt.tile_plugin import tile_by_plugin  # few engines have it

        return [tile_by_plugin(network, op, x)]
    return [slice_from(network, x, [0] * len(x.shape), network.shape, "WRAP")]


@lowers(Pad)
def pad(network: Network, op: Pad, x: Tensor) -> list[Tensor]:
    return [pad_with(network, x, op.before, op.after, op.value)]


def pad_with(
    network: Network, x: Tensor, before: Sequence[int], after: Sequence[int], value: float
) -> Tensor:
    """``value`` around each axis of the node's first input: a slice that begins before the tensor."""
    (shape,) = Pad(tuple(before), tuple(after)).shape(network.input_shape)
    return slice_from(network, x, [-b for b in before], shape, "FILL", value)


def slice_from(
    network: Network, x: Tensor, start: Sequence[Size], shape: Shape, mode: str, fill: float = 0.0
) -> Tensor:
    """``shape`` elements from ``start`` on; ``mode`` decides the values outside."""
    sizes = [dim if isinstance(dim, int) else 1 for dim in shape]
    begin = [place if isinstance(place, int) else 0 for place in start]
    layer = network.add("slice", x, begin, sizes, [1] * len(sizes))
    layer.mode = network.enum("SampleMode", mode)
    if any(isinstance(place, str) for place in start):
        layer.set_input(1, network.sizes(tuple(start)))
    if any(isinstance(dim, str) for dim in shape):
        layer.set_input(2, network.sizes(shape))
    if fill:
        layer.set_input(4, network.constant_array(np.array(fill, network.dtype_of(x))))
    return layer.get_output(0)


@lowers(Concat)
def concat(network: Network, op: Concat, *inputs: Tensor) -> list[Tensor]:
    layer = network.add("concatenation", list(inputs))
    layer.axis = op.axis
    return [layer.get_output(0)]

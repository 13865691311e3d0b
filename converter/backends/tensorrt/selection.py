"""Lowerings that choose elements: by a condition, or by an index."""

from __future__ import annotations

from prototrt.converter.backends.tensorrt.counting import size_like
from prototrt.converter.backends.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import slice_from
from prototrt.surgery.ir import computable, range_of
from prototrt.surgery.ops import Gather, Scatter, Select


@lowers(Select)
def select(network: Network, op: Select, condition: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
    return [network.add("select", condition, a, b).get_output(0)]


@lowers(Gather)
def gather(network: Network, op: Gather, table: Tensor, index: Tensor) -> list[Tensor]:
    return [network.add("gather", table, index, 0).get_output(0)]


@lowers(Scatter)
def scatter(network: Network, op: Scatter, x: Tensor, index: Tensor) -> list[Tensor]:
    """TensorRT does not define an index outside: such indices go to an additional place, which is cut off."""
    last = len(x.shape) - 1
    start = [0] * last
    wide = (*network.shape[:last], op.size + 1)
    beyond = range_of(computable(network.input_shape[last])).max
    zeros = slice_from(network, x, [*start, beyond], wide, "FILL")
    below = elementwise(network, index, number_like(network, index, 0), "LESS")
    above = elementwise(network, index, size_like(network, index, op.size - 1), "GREATER")
    is_outside = elementwise(network, below, above, "OR")
    spare = size_like(network, index, op.size)
    places = network.add("select", is_outside, spare, index).get_output(0)
    layer = network.add("scatter", zeros, places, x, network.enum("ScatterMode", "ELEMENT"))
    layer.axis = last
    return [slice_from(network, layer.get_output(0), [*start, 0], network.shape, "STRICT_BOUNDS")]

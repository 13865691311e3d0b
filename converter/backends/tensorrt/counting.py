"""Lowering of numbers from sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.converter.backends.tensorrt.elementwise import number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import shuffle
from prototrt.surgery.ir import Size
from prototrt.surgery.ops import Count


@lowers(Count)
def count(network: Network, op: Count) -> list[Tensor]:
    return [count_from(network, op.size, op.first, op.step)]


def count_from(
    network: Network, size: Size, first: Size = 0, step: Size = 1, shape: Sequence[int] = (-1,)
) -> Tensor:
    """``first``, ``first + step``, ..., ``size`` numbers, int32; a constant if all three are known.

    ``shape`` is 1 but for one axis of -1.
    """
    if isinstance(size, int) and isinstance(first, int) and isinstance(step, int):
        numbers = np.arange(first, first + size * step, step, dtype=np.int32)
        return network.constant_array(numbers.reshape(shape))
    layer = network.add("fill", (1,), network.enum("FillOperation", "LINSPACE"), network.trt.int32)
    ends = (network.sizes((size,)), network.scalar_size(first), network.sizes((step,)))
    for place, tensor in enumerate(ends):
        layer.set_input(place, tensor)
    row = layer.get_output(0)
    return row if len(shape) == 1 else shuffle(network, row, tuple(shape))


def size_like(network: Network, x: Tensor, size: Size) -> Tensor:
    """A size of the rank and the type of x, which broadcasts against it."""
    if isinstance(size, int):
        return number_like(network, x, size)
    row = shuffle(network, network.sizes((size,)), (1,) * len(x.shape))
    return row if x.dtype == network.trt.int32 else network.add("cast", row, x.dtype).get_output(0)

"""Lowerings that choose elements: by a condition, or by an index."""

from __future__ import annotations

from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import Gather, Select


@lowers(Select)
def select(network: Network, op: Select, condition: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
    return [network.add("select", condition, a, b).get_output(0)]


@lowers(Gather)
def gather(network: Network, op: Gather, table: Tensor, index: Tensor) -> list[Tensor]:
    return [network.add("gather", table, index, 0).get_output(0)]

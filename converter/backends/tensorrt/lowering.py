"""A Graph becomes a network: one function per primitive, and the walk that calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import BuildError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.files.readers.tensorrt_limits import refuse_beyond_tensorrt
from prototrt.surgery.ir import Graph, Op, Value, takes_array
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ops import NonMaxSuppression
from prototrt.surgery.ops.families import FAMILIES, family_of

Lowering: TypeAlias = Callable[..., list[Tensor]]
"""``lowering(network, op, *inputs) -> outputs``. Inputs that the op lists in ``constants``
come as arrays, those in ``weights`` also if they are constant; all others as tensors."""

lowers: Registry[type[Op], Lowering] = Registry("TensorRT lowering")
lowers.places_rules_in(__package__, FAMILIES, family_of)


def lower(graph: Graph, network: Network) -> None:
    """Fill the network with the graph, and mark its outputs."""
    refuse_beyond_tensorrt(graph)
    tensors = {value: network.input(value) for value in graph.inputs}
    lower_nodes(network, graph, tensors)
    for value in graph.outputs:
        assert value not in graph.inputs, f"{value.name} is an input and an output under the same name"
        tensor = tensor_of(network, value, tensors)
        # TensorRT takes no constant as an output.
        is_ready = not value.is_constant
        network.output(tensor if is_ready else network.add("identity", tensor).get_output(0), value.name)


def refuse_not_run(graph: Graph, backend: Backend) -> None:
    """Raise where TensorRT for RTX takes a layer into a network, but has nothing that runs it."""
    raise_all(
        [
            BuildError(
                "TensorRT for RTX cannot run NMS layers",
                origin=origin,
                fix=Worded("compute it with other layers: {}", Option("nms", "primitives")),
            )
            for origin in dict.fromkeys(
                node.origin
                for node in graph.nodes
                if backend.name == "rtx" and isinstance(node.op, NonMaxSuppression)
            )
        ]
    )


def lower_nodes(network: Network, graph: Graph, tensors: dict[Value, Tensor]) -> None:
    """Lower the nodes of a graph or of a body; ``tensors`` knows the inputs and learns the rest."""
    for node in graph.nodes:
        with network.at(node):
            inputs = [
                value.data if takes_array(node, position) else tensor_of(network, value, tensors)
                for position, value in enumerate(node.inputs)
            ]
            results = lowers.get(type(node.op))(network, node.op, *inputs)
            for value, tensor in zip(node.outputs, results, strict=True):
                tensor.name = value.name
                tensors[value] = tensor


def tensor_of(network: Network, value: Value, tensors: Mapping[Value, Tensor]) -> Tensor:
    """The tensor of a value; a constant becomes one when it is first asked for."""
    return network.constant(value) if value.is_constant else tensors[value]

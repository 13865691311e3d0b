"""A Graph becomes a network: one function per primitive, and the walk that calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import BuildError, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.tensorrt.api import Backend
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Graph, Node, Op, Value, takes_array, walk
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ops import NonMaxSuppression
from prototrt.surgery.ops.families import FAMILIES, family_of

Lowering: TypeAlias = Callable[..., list[Tensor]]
"""``lowering(network, op, *inputs) -> outputs``. Inputs that the op lists in ``constants``
come as arrays, those in ``weights`` also if they are constant; all others as tensors."""

lowers: Registry[type[Op], Lowering] = Registry("TensorRT lowering")
lowers.found_in(__package__, FAMILIES, family_of)

WITHOUT_ENGINE = Worded(
    "run it as `prototrt run` does with {}, or cut the net before it with {}",
    Option("on", "reference"),
    Option("outputs", ["BLOB"]),
)
"""What to do about what TensorRT cannot."""
MOST_AXES = 8
"""Axes that a tensor of TensorRT may have."""


def lower(graph: Graph, network: Network) -> None:
    """Fill the network with the graph, and mark its outputs."""
    refuse_data_dependent(graph)
    refuse_many_axes(graph)
    tensors = {value: network.input(value) for value in graph.inputs}
    lower_nodes(network, graph, tensors)
    for value in graph.outputs:
        network.output(_own_tensor(network, graph, value, tensors), value.name)


def refuse_data_dependent(graph: Graph) -> None:
    """Raise where the size of a result depends on the values of the inputs."""
    raise_all(
        [
            UnsupportedLayerError(
                "its output size depends on input values",
                origin=origin,
                because="sizes in an engine depend only on the sizes of its inputs",
                fix=WITHOUT_ENGINE,
            )
            for origin in dict.fromkeys(node.origin for node in walk(graph) if node.op.data_dependent)
        ]
    )


def refuse_many_axes(graph: Graph) -> None:
    """Raise where something has more axes than TensorRT's tensors may have."""
    large = {
        node.origin: len(value.shape)
        for node in walk(graph)
        for value in (*node.inputs, *node.outputs)
        if len(value.shape) > MOST_AXES
    }
    raise_all(
        [
            UnsupportedLayerError(
                f"works on {axes} axes, expected at most {MOST_AXES}",
                origin=origin,
                because="TensorRT's tensors have at most that many",
                fix=WITHOUT_ENGINE,
            )
            for origin, axes in large.items()
        ]
    )


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
            results = lowers.get(type(node.op))(network, node.op, *_inputs(network, node, tensors))
            for value, tensor in zip(node.outputs, results, strict=True):
                tensor.name = value.name
                tensors[value] = tensor


def tensor_of(network: Network, value: Value, tensors: Mapping[Value, Tensor]) -> Tensor:
    """The tensor of a value; a constant becomes one when it is first asked for."""
    return network.constant(value) if value.is_constant else tensors[value]


def _inputs(network: Network, node: Node, tensors: Mapping[Value, Tensor]) -> list[object]:
    return [
        value.data if takes_array(node, position) else tensor_of(network, value, tensors)
        for position, value in enumerate(node.inputs)
    ]


def _own_tensor(network: Network, graph: Graph, value: Value, tensors: Mapping[Value, Tensor]) -> Tensor:
    """A tensor that may be marked as output: TensorRT takes no constants."""
    assert value not in graph.inputs, f"{value.name} cannot be an input and, under the same name, an output"
    tensor = tensor_of(network, value, tensors)
    return network.add("identity", tensor).get_output(0) if value.is_constant else tensor

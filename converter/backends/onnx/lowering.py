"""A Graph becomes an ONNX model: one function per primitive, and the walk that calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from prototrt.converter.backends.onnx.model import OnnxModel, Proto, Tensor
from prototrt.surgery.ir import Graph, Node, Op, Value, takes_array
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ops.families import FAMILIES, family_of

Lowering: TypeAlias = Callable[..., list[str]]
"""``lowering(model, op, *inputs) -> names of the outputs``. Inputs that the op lists in
``constants`` come as arrays, those in ``weights`` also if they are constant; all others as tensors."""

lowers: Registry[type[Op], Lowering] = Registry("ONNX lowering")
lowers.places_rules_in(__package__, (*FAMILIES, "lstm"), family_of)


def lower(graph: Graph, opset: int) -> OnnxModel:
    """The graph's nodes and weights as ONNX has them."""
    model = OnnxModel(graph, opset)
    for value in graph.outputs:
        if value.data is not None:  # ONNX needs a node for each output
            copy = model.add("Identity", model.array(value.data))
            _rename(model, [copy], [model.name(value)], 0)
    lower_nodes(model, graph)
    return model


def lower_nodes(model: OnnxModel, graph: Graph) -> None:
    """Lower the nodes of a graph or of a body."""
    for node in graph.nodes:
        with model.at(node):
            since = len(model.nodes)
            results = lowers.get(type(node.op))(model, node.op, *_inputs(model, node))
            _rename(model, results, [model.name(value) for value in node.outputs], since)


def lower_body(
    model: OnnxModel, body: Graph, invariants: Iterable[tuple[Value, Tensor]]
) -> tuple[Sequence[Proto], list[str]]:
    """The nodes of a body, and the names of its results. Its invariants keep the names that they have outside."""
    with model.body() as nodes:
        for inner, outer in invariants:
            model.alias(inner, outer)
        lower_nodes(model, body)
        return nodes, _results(model, body)


def _results(model: OnnxModel, body: Graph) -> list[str]:
    """Names for the outputs of a body: each must be written in it, and by its own node."""
    written = {value for node in body.nodes for value in node.outputs}
    names: list[str] = []
    for value in body.outputs:
        name = model.tensor(value).name
        names.append(model.add("Identity", name) if value not in written or name in names else name)
    return names


def _inputs(model: OnnxModel, node: Node) -> list[object]:
    return [
        value.data if takes_array(node, position) else model.tensor(value)
        for position, value in enumerate(node.inputs)
    ]


def _rename(model: OnnxModel, old: Sequence[str], new: Sequence[str], since: int) -> None:
    """Let the nodes since ``since`` write under the names that the graph has for their results."""
    names = dict(zip(old, new, strict=True))
    for node in model.nodes[since:]:
        for place in (node.input, node.output):
            for index, name in enumerate(place):
                place[index] = names.get(name, name)

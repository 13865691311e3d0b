"""Values inside a graph as outputs of it, so that whatever runs the graph shows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ops import Identity, Scan


@dataclass(frozen=True, slots=True)
class ExposedGraph:
    """``outputs`` are, by the names of values, the names of the outputs that show them."""

    graph: Graph
    outputs: Mapping[str, str]


def expose(graph: Graph, targets: Collection[str]) -> ExposedGraph:
    """Make outputs of the values with these names; of a value in the body of a Scan, all steps.

    Before: ``y = ReLU(x)``, ``z = Scan(y)`` with ``p = MatMul(s, const w)`` in its body; ``return z``
    After:  ``y = ReLU(x)``, ``z, p_steps = Scan(y)``; ``return y, p_steps, z``
    The steps are stacked on a new first axis: (T, ...), and (T, T', ...) for a Scan in a Scan.
    Left alone: inputs of the graph, which the caller knows, constants, and values in the body of a While, which
    runs as often as the data want.
    """
    return _Exposure(names_in(graph), targets).of(graph)


class _Exposure:
    def __init__(self, taken: set[str], targets: Collection[str]) -> None:
        self.names, self.targets = Names(taken), set(targets)

    def of(self, graph: Graph) -> ExposedGraph:
        nodes: list[Node] = []
        shown: dict[str, Value] = {}
        states = graph.state_outputs
        for node in graph.nodes:
            node, stacked = self._over_body(node)
            nodes.append(node)
            shown |= stacked
            for value in node.outputs:
                if value.name in self.targets:
                    shown[value.name] = self._copy(value, node, nodes) if value in states else value
        own = [value for value in graph.outputs if value not in states]
        further = [value for value in shown.values() if value not in own]
        outputs = (*own, *further, *states)
        exposed = replace(graph, nodes=tuple(nodes), outputs=outputs) if shown else graph
        return ExposedGraph(exposed, {name: value.name for name, value in shown.items()})

    def _over_body(self, node: Node) -> tuple[Node, Mapping[str, Value]]:
        """The node with further outputs: all steps of what is wanted in its body, by the names there."""
        if not isinstance(node.op, Scan):
            return node, {}
        body, shown = self._body(node.op.body)
        steps = node.op.steps([value.shape for value in node.inputs])
        stacked = {
            name: Value(
                self.names.free(f"{value.name}:steps"), value.dtype, (steps, *value.shape), is_surgical=True
            )
            for name, value in shown.items()
        }
        if not stacked:
            return node, {}
        outputs = (*node.outputs, *stacked.values())
        return replace(node, op=replace(node.op, body=body), outputs=outputs), stacked

    def _body(self, body: Graph) -> tuple[Graph, Mapping[str, Value]]:
        """The body with further outputs, and the values that they are."""
        inner = self.of(body)
        values = {value.name: value for value in inner.graph.outputs}
        shown = {name: values[output] for name, output in inner.outputs.items()}
        shown |= {value.name: value for value in body.inputs if value.name in self.targets}
        outputs = (*body.outputs, *shown.values())
        return replace(inner.graph, outputs=outputs), shown

    def _copy(self, value: Value, node: Node, nodes: list[Node]) -> Value:
        """A copy of a state: the outputs that are states stand last."""
        copy = replace(value, name=self.names.free(f"{value.name}:copy"), is_surgical=True)
        name = self.names.free(f"__{copy.name}")
        nodes.append(Node(name, Identity(), (value,), (copy,), node.origin, is_surgical=True))
        return copy

"""Replace nodes one by one, for a reader that computes a primitive differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Op, Value

Rule: TypeAlias = Callable[..., Value | None]
"""``rule(build, op, *inputs)``: the value that replaces the result of the op, or None if it stays."""


def rewrite_nodes(graph: Graph, rules: Mapping[type[Op], Rule]) -> Graph:
    """Replace each node that has a rule by the nodes that its rule adds. Bodies stay as they are."""
    build = Builder(names_in(graph))
    for node in graph.nodes:
        rule: Any = rules.get(type(node.op))
        since, build.origin = len(build.nodes), node.origin
        result = None if rule is None else rule(build, node.op, *node.inputs)
        if result is None:
            build.nodes.append(node)
        else:
            build.write(result, node.outputs[0], since, None if node.is_surgical else node.name)
    return graph.with_nodes(build.nodes)

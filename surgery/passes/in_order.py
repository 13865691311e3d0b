"""Nodes in topological order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from prototrt.surgery.ir import Node


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in topological order, otherwise in their old order."""
    place = {value: at for at, node in enumerate(nodes) for value in node.outputs}
    missing = [len({place[value] for value in node.inputs if value in place}) for node in nodes]
    readers: list[set[int]] = [set() for _ in nodes]
    for at, node in enumerate(nodes):
        for value in node.inputs:
            if value in place:
                readers[place[value]].add(at)
    ready = [at for at, count in enumerate(missing) if not count]
    ordered: list[Node] = []
    while ready:
        at = heapq.heappop(ready)
        ordered.append(nodes[at])
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    assert len(ordered) == len(nodes), "nodes that wait for each other"
    return ordered

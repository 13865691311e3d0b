"""Random inputs for a net without given inputs; the same for the same seed."""

from __future__ import annotations

import zlib

import numpy as np

from prototrt.surgery.ir import Array, DType, Graph, Value, size_at
from prototrt.surgery.ops import Cast, Gather, Identity, Reshape, Slice, Tile, Transpose

_MOVES = (Cast, Identity, Reshape, Slice, Tile, Transpose)


def seeded_feeds(graph: Graph, calls: int = 1, seed: int = 0) -> list[dict[str, Array]]:
    """For each call, an array for each input of the net; state is left to be carried.

    Numbers are between 0 and 1, which suits images, cont and logarithms alike; what picks
    rows of a table is a whole number that the table has. A symbol takes its usual size.
    """
    limits = _limits(graph)
    inputs = [value for value in graph.inputs if value not in graph.state_inputs]
    return [
        {value.name: _draw(value, graph, limits.get(value), [seed, call]) for value in inputs}
        for call in range(calls)
    ]


def _draw(value: Value, graph: Graph, limit: int | None, seed: list[int]) -> Array:
    random = np.random.default_rng([*seed, zlib.crc32(value.name.encode())])
    usual = {symbol: span.opt for symbol, span in graph.symbols.items()}
    shape = [size_at(dim, usual) for dim in value.shape]
    if limit is not None or value.dtype in (DType.INT32, DType.BOOL):
        return random.integers(0, limit or 2, shape).astype(value.dtype.numpy)
    return random.uniform(0, 1, shape).astype(value.dtype.numpy)


def _limits(graph: Graph) -> dict[Value, int]:
    """Values which pick rows of a table, and how many rows the smallest table has."""
    limits: dict[Value, int] = {}

    def limit(value: Value, rows: int) -> None:
        limits[value] = min(rows, limits.get(value, rows))

    for node in reversed(graph.nodes):
        if isinstance(node.op, Gather) and isinstance(rows := node.inputs[0].shape[0], int):
            limit(node.inputs[1], rows)
        elif isinstance(node.op, _MOVES) and node.outputs[0] in limits:
            limit(node.inputs[0], limits[node.outputs[0]])
    return limits

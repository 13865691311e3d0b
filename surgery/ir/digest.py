"""A hash of everything in a graph: graphs with equal hashes compute the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from prototrt.surgery.ir.graph import Graph, walk
from prototrt.surgery.ir.types import Array


def sha256_of_graph(graph: Graph) -> str:
    """SHA-256 of primitives, attributes, names, sizes and constants, in hexadecimal. Reads all weights."""
    digest = hashlib.sha256(graph.text().encode())
    for symbol, span in sorted(graph.symbols.items()):
        digest.update(f"{symbol} {span.min} {span.opt} {span.max}\n".encode())
    for node in walk(graph):
        for value in node.inputs:
            if value.data is not None:
                for piece in _pieces(value.data):
                    digest.update(piece)
    return digest.hexdigest()


def _pieces(array: Array) -> Iterator[memoryview]:
    """The bytes, row by row. A view that is not contiguous is copied, but never as a whole."""
    if array.flags.c_contiguous or array.ndim < 2:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        return
    for row in array:
        yield from _pieces(row)

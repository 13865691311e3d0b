"""The intermediate representation: a graph of primitives, in static single assignment, every value typed."""

from prototrt.surgery.ir.digest import sha256_of_graph
from prototrt.surgery.ir.graph import (
    Graph,
    LeftOut,
    Node,
    Op,
    Recurrence,
    Source,
    Value,
    bodies,
    describe,
    node_count,
    read,
    takes_array,
    walk,
    wiring,
)
from prototrt.surgery.ir.shapes import AtMost, DataSize, Dim, Range, Shape, element_count, fixed
from prototrt.surgery.ir.types import EIGHT_BITS, FLOATS, HALVES, Array, DType

__all__ = [
    "EIGHT_BITS",
    "FLOATS",
    "HALVES",
    "Array",
    "AtMost",
    "DType",
    "DataSize",
    "Dim",
    "Graph",
    "LeftOut",
    "Node",
    "Op",
    "Range",
    "Recurrence",
    "Shape",
    "Source",
    "Value",
    "bodies",
    "describe",
    "element_count",
    "fixed",
    "node_count",
    "read",
    "sha256_of_graph",
    "takes_array",
    "walk",
    "wiring",
]

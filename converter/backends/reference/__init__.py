"""The first opinion: a Graph evaluated by the NumPy meaning of its primitives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.pipeline import lowered


class ReferenceEvaluator:
    """Runs a graph on arrays by name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = lowered(graph, "reference")

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, states included, for these inputs, states included."""
        # Overflow and division by zero mean in NumPy what they mean in Caffe.
        with np.errstate(all="ignore"):
            results = self.graph.evaluate(*(feeds[value.name] for value in self.graph.inputs))
        return {value.name: array for value, array in zip(self.graph.outputs, results, strict=True)}

"""InnerProduct where its weights are one number, as of a filler."""

from __future__ import annotations

import numpy as np

import prototrt
from prototrt.surgery.ir.uniform_constants import is_broadcast
from prototrt.tests.small_nets import float32, op, rewritten, stored

FIELDS = (
    "inner_product_param { num_output: 2 bias_term: false normalize: true"
    ' weight_filler { type: "constant" value: 2 } }'
)
PLAIN = (
    'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "z"'
    " inner_product_param { num_output: 1 bias_term: false } }"
)


def test_rows_of_one_number_stay_one_number() -> None:
    """A layer that the weights file lacks keeps its filler's numbers."""
    graph = rewritten(op("InnerProduct", FIELDS) + PLAIN, {"x": (1, 3)}, stored("fc", [[[1, 1, 1]]]))
    found = prototrt.Session(graph).run({"x": float32([[3, 4, 5]])})
    np.testing.assert_allclose(found["y"], np.full((1, 2), 12 / np.sqrt(3)), rtol=1e-6)
    (rows,) = [
        value.data for node in graph.nodes for value in node.inputs if value.name.endswith("unit_rows")
    ]
    assert rows is not None
    assert is_broadcast(rows)

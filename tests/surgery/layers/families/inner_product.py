"""Corners of InnerProduct in forks, against numbers worked by hand."""

from __future__ import annotations

from prototrt.tests.layer_cases import Case, Message

# Rows of the lengths 5, 13 and, by the 1e-6 under the root, 0.001.
WEIGHTS = [[3, 4], [5, -12], [0, 0]]
CASES = [
    Case("rows of length one", "InnerProduct", "inner_product_param { num_output: 3 normalize: true }", [[[10, 5]]],
         [[11, -9 / 13, 2.5]], [WEIGHTS, [1, 1 / 13, 2.5]]),
    Case("as many outputs as the weights have", "InnerProduct", "", [[[10, 5]]], [[51, -9, 1]],
         [WEIGHTS, [1, 1, 1]]),
    Case("as many as transposed weights have", "InnerProduct",
         "inner_product_param { transpose: true bias_term: false }",
         [[[10, 5]]], [[50, -10, 0]], [[[3, 5, 0], [4, -12, 0]]]),
]  # fmt: skip
VARYING: list[Case] = []

REFUSALS = [
    Message("InnerProduct", "", [(1, 2)],
            'net.prototxt:2: layer "op" (InnerProduct): num_output is 0, expected at least 1\n'
            "  fix: give the weights, which say it, or state it:"
            ' overrides={"op.inner_product_param.num_output": "COUNT"}'),
    Message("InnerProduct", "inner_product_param { num_output: 0 }", [(1, 2)],
            'net.prototxt:2: layer "op" (InnerProduct): num_output is 0, expected at least 1\n'
            "  fix: set num_output in inner_product_param"),
    Message("InnerProduct", "inner_product_param { num_output: 3 normalize: true transpose: true }", [(1, 2)],
            'net.prototxt:2: layer "op" (InnerProduct): states both normalize and transpose\n'
            "  because the fork then divides by lengths that are not the lengths of rows\n"
            '  fix: cut the net before this layer with outputs=["BLOB"]', [[[3, 5, 0], [4, -12, 0]]]),
]  # fmt: skip

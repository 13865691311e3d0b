"""A size in the way is told in words of the option that states its range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.surgery.ir import Range
from prototrt.surgery.ir.range_words import another_range, larger_smallest, one_size
from prototrt.tests.small_nets import failure, op, rewritten

KERNEL = op(
    "Convolution", "convolution_param { num_output: 1 kernel_size: 5 weight_filler { type: 'xavier' } }"
)
WEIGHTS = op("InnerProduct", "inner_product_param { num_output: 2 }")
OF_SHAPES = {"min_shapes": {"x": (1, 2, 4, 6)}, "max_shapes": {"x": (1, 2, 12, 6)}}
OF_SIZES = {"shapes": {"x": (1, 2, "H", 6)}, "sizes": {"H": (4, 8, 12)}}
OF_DYNAMIC = {"dynamic": ["size"]}


@pytest.mark.parametrize(
    ("layer", "options", "fix"),
    [
        (KERNEL, OF_SHAPES, "give H a larger smallest size in min_shapes"),
        (KERNEL, OF_SIZES, "give H a larger smallest size in sizes"),
        (KERNEL, OF_DYNAMIC, "use shapes and sizes instead of dynamic, and give H a larger smallest size"),
        (WEIGHTS, OF_SHAPES, "give H one size in min_shapes and max_shapes, or put"),
        (WEIGHTS, OF_SIZES, "write a number for H in shapes, or put"),
        (
            WEIGHTS,
            OF_DYNAMIC,
            "use shapes and sizes instead of dynamic, and write a number for H and W, or put",
        ),
    ],
)
def test_of_a_net(layer: str, options: Mapping[str, Any], fix: str) -> None:
    message = failure(lambda: rewritten(layer, {"x": (1, 2, 8, 6)}, **options))
    assert message.partition("\n  fix: ")[2].startswith(fix)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (OF_SHAPES, "give the net another range with min_shapes and max_shapes"),
        (OF_SIZES, "give the net another range with sizes"),
        (OF_DYNAMIC, "give the net another range with shapes and sizes instead of dynamic"),
    ],
)
def test_of_a_call(options: Mapping[str, Any], fix: str) -> None:
    session = prototrt.Session(rewritten(op("TanH"), {"x": (1, 2, 8, 6)}, **options))
    message = failure(lambda: session.run({"x": np.zeros((1, 2, 99, 6), np.float32)}))
    assert message.endswith(f"\n  fix: give it such a size, or {fix}")


def test_of_several_options() -> None:
    symbols = {"N": Range(1, 2, 3), "H": Range(4, 5, 6, source="sizes"), "W": Range(4, 5, 6, source="sizes")}
    assert larger_smallest(symbols) == (
        "give N a larger smallest size in min_shapes, and give H and W a larger smallest size in sizes"
    )
    assert one_size(symbols) == (
        "give N one size in min_shapes and max_shapes, and write a number for H and W in shapes"
    )
    assert another_range({"N": symbols["N"]}) == (
        "convert the net again, with another range in min_shapes and max_shapes, or sizes"
    )


def test_a_name_with_one_size_is_a_number() -> None:
    options: dict[str, Any] = {"shapes": {"x": (1, 2, "2*H", "W")}, "sizes": {"H": (4, 4), "W": (3, 6, 9)}}
    graph = rewritten(op("TanH"), {"x": (1, 2, 8, 6)}, **options)
    assert graph.inputs[0].shape == (1, 2, 8, "W")
    graph = rewritten(op("TanH"), {"x": (1, 2, 8, 6)}, shapes={"x": (1, 2, "H", 6)}, sizes={"H": (8, 8)})
    assert graph.inputs[0].shape == (1, 2, 8, 6)

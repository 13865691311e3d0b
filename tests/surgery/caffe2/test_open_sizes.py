"""Operators of Caffe2 over images whose sizes vary, at five sizes: one graph against the net for each size alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.caffe2_nets import graph_of, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers

LEAST, MOST = (2, 3, 4, 5), (2, 3, 20, 16)
SIZES = [(4, 5), (20, 16), (7, 16), (13, 6), (16, 9)]


@dataclass(frozen=True, eq=False)
class OpenCase:
    """An operator over an image x, its arguments and its weights."""

    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    weights: tuple[Array, ...] = ()
    outputs: int = 1

    def __str__(self) -> str:
        return f"{self.kind}-{self.arguments}"

    def graph(self, height: int, width: int, **ranges: Any) -> Graph:
        weights = {f"w{place}": array for place, array in enumerate(self.weights)}
        tops = [f"y{place}" for place in range(self.outputs)]
        one = operator(self.kind, ["x", *weights], tops, **self.arguments)
        return graph_of([one], {"x": numbers(2, 3, height, width)}, weights, **ranges)


KERNEL = {"kernel": 3, "stride": 2}
CASES = [
    OpenCase("ResizeNearest", {"height_scale": 2.0, "width_scale": 3.0}),
    OpenCase("ResizeNearest", {"height_scale": 1.5, "width_scale": 0.75}),
    OpenCase("ResizeNearest", {"width_scale": 0.5}),
    OpenCase("ResizeNearest", {}, (np.array([2, 2], np.float32),)),
    OpenCase("UpsampleBilinear", {"height_scale": 2.0, "width_scale": 2.0}),
    OpenCase("UpsampleBilinear", {"height_scale": 0.25, "width_scale": 2.5}),
    OpenCase("PadImage", {"pad": 3, "mode": "reflect"}),
    OpenCase("PadImage", {"pad_t": 1, "pad_l": 4, "pad_b": 0, "pad_r": 2, "mode": "edge"}),
    OpenCase("MaxPool", {**KERNEL, "pad": 1}),
    OpenCase("MaxPool", {**KERNEL, "legacy_pad": 3}),
    OpenCase("MaxPool", {"kernel": 2, "stride": 2, "pad": 1, "legacy_pad": 3}),
    OpenCase("MaxPool", {"kernel": 2, "legacy_pad": 2}),
    OpenCase("MaxPool", {"global_pooling": 1}),
    OpenCase("AveragePool", {**KERNEL, "pad": 1, "count_include_pad": 1}),
    OpenCase("AveragePool", {**KERNEL, "pad": 1, "legacy_pad": 3}),
    OpenCase("AveragePool", {"global_pooling": 1}),
    OpenCase("Conv", {**KERNEL, "legacy_pad": 1}, (numbers(4, 3, 3, 3), numbers(4))),
    OpenCase("Conv", {"kernel": 4, "legacy_pad": 2}, (numbers(4, 3, 4, 4), numbers(4))),
    OpenCase(
        "ConvTranspose",
        {**KERNEL, "pad_t": 1, "pad_l": 1, "pad_b": 0, "pad_r": 1},
        (numbers(3, 2, 3, 3), numbers(2)),
    ),
    OpenCase("Slice", {"starts": [0, 0, 1, 2], "ends": [-1, -1, -2, 4]}),
    OpenCase("Slice", {"starts": [0, 0, -3, 0], "ends": [-1, -1, 100, -1]}),
    OpenCase("Split", {"axis": 1}, outputs=3),
]


@cache
def fixed_at(case: OpenCase, size: tuple[int, int]) -> tuple[Array, dict[str, Array]]:
    x = numbers(2, 3, *size, seed=sum(size))
    return x, prototrt.Session(case.graph(*size)).run({"x": x})


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_five_sizes(case: OpenCase, on: Way) -> None:
    graph = case.graph(10, 10, min_shapes={"x": LEAST}, max_shapes={"x": MOST})
    session = prototrt.Session(graph, on=on)
    for size in SIZES:
        x, wanted = fixed_at(case, size)
        found = session.run({"x": x})
        for name, array in wanted.items():
            assert found[name].shape == array.shape
            np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=f"{name} at {size}")


@pytest.mark.parametrize("on", WAYS)
def test_padding_of_sizes_in_steps(on: Way) -> None:
    """What SAME adds does not vary where the stride divides the size; a part of it can be split."""
    pool = operator("MaxPool", ["x"], ["p"], kernel=3, stride=2, legacy_pad=2)
    cut = operator("Split", ["p"], ["y", "z"], axis=2)

    def graph(shape: tuple[int | str, ...], **sizes: Any) -> Graph:
        return graph_of([pool, cut], {}, {}, shapes={"x": shape}, **sizes)

    session = prototrt.Session(graph((1, 2, "4*H", 6), sizes={"H": (1, 2, 5)}), on=on)
    for height in (4, 8, 20):
        x = numbers(1, 2, height, 6)
        wanted = prototrt.Session(graph(x.shape)).run({"x": x})
        for name, array in session.run({"x": x}).items():
            np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (
            "ResizeNearest",
            {"height_scale": 1.3},
            ": the scale is 1.3, but the size H varies\n"
            "  because Caffe2 rounds the product in 32 bits, which is known only for fractions such as 1.5 or 0.25\n"
            "  fix: use such a scale, or give H one size in min_shapes and max_shapes",
        ),
        (
            "UpsampleBilinear",
            {"height_scale": 0.125},
            ": a size of 4 times 0.125 is less than 1\n  fix: give H a larger smallest size in min_shapes",
        ),
        (
            "PadImage",
            {"pad": 4, "mode": "reflect"},
            ": axis 2 has 4 to 20 elements, expected more than 4, which are mirrored\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            "MaxPool",
            {"kernel": 5},
            ": the window (5, 5) is larger than the shape (2, 3, H, W) with its padding\n"
            "  because H is 4 to 20\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            "MaxPool",
            {"kernel": 1, "stride": 2, "legacy_pad": 3},
            ": the last window of axis 2 starts after the end of the input (2, 3, H, W)\n"
            "  because H is 4 to 20\n"
            "  fix: use a larger window, or give H one size in min_shapes and max_shapes",
        ),
        (
            "MaxPool",
            {"kernel": 3, "stride": 2, "legacy_pad": 2},
            ": legacy_pad is 2, the stride is 2, and the size H varies\n"
            "  because the padding is another one at some sizes\n"
            "  fix: name a size that 2 divides, such as 2*H, in shapes",
        ),
        (
            "Slice",
            {"starts": [0, 0, 0, 0], "ends": [-1, -1, 6, -1]},
            ": is cut at 6, but the size H varies\n"
            "  because H is 4 to 20\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
    ],
)
def test_refusal(kind: str, arguments: dict[str, Any], message: str) -> None:
    ranges = {"min_shapes": {"x": LEAST}, "max_shapes": {"x": MOST}}
    one = operator(kind, ["x"], ["y"], **arguments)
    told = refusal([one], {"x": numbers(2, 3, 10, 10)}, {}, **ranges)
    assert told.partition(f"({kind})")[2] == message

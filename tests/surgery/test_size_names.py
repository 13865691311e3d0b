"""The names of sizes that vary: T and N wherever the net says which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from prototrt.surgery.ir import Range, Shape
from prototrt.surgery.ir.profiles import SizeNames

T, N, OTHER = Range(1, 5, 9), Range(1, 2, 4), Range(3, 3, 7)
ONE, CHANNELS = Range(1, 1, 1), Range(3, 3, 3)
IMAGE, SEQUENCE, ROWS = ("N",), ("T", "N"), ("N",)


@pytest.mark.parametrize(
    ("letters", "inputs", "shapes"),
    [
        pytest.param(
            {"x": SEQUENCE, "cont": SEQUENCE, "xs": ROWS},
            {"x": (T, N, CHANNELS), "cont": (T, N), "xs": (N, CHANNELS)},
            [("T", "N", 3), ("T", "N"), ("N", 3)],
            id="a sequence",
        ),
        pytest.param(
            {"data": IMAGE, "cont": SEQUENCE},
            {"data": (T, CHANNELS), "cont": (T, ONE)},
            [("T", 3), ("T", 1)],
            id="the images are the steps of one stream",
        ),
        pytest.param(
            {"data": IMAGE, "cont": SEQUENCE},
            {"data": (N, CHANNELS), "cont": (ONE, N)},
            [("N", 3), (1, "N")],
            id="the images are one step of the streams",
        ),
        pytest.param(
            {"data": IMAGE, "cont": SEQUENCE},
            {"data": (OTHER, CHANNELS), "cont": (T, N)},
            [("data.0", 3), ("T", "N")],
            id="the images are neither",
        ),
        pytest.param(
            {"x": SEQUENCE, "cont": SEQUENCE},
            {"x": (T, T, CHANNELS), "cont": (T, T)},
            [("T", "N", 3), ("T", "N")],
            id="the ranges are equal",
        ),
        pytest.param(
            {"x": SEQUENCE, "xs": ROWS},
            {"x": (T, T, CHANNELS), "xs": (T, CHANNELS)},
            [("T", "N", 3), ("N", 3)],
            id="and those of a static input are the same",
        ),
        pytest.param(
            {"a": IMAGE, "b": IMAGE},
            {"a": (N, CHANNELS), "b": (OTHER, CHANNELS)},
            [("N", 3), ("b.0", 3)],
            id="two batches",
        ),
        pytest.param(
            {"data": IMAGE},
            {"data": (N, CHANNELS, OTHER, OTHER)},
            [("N", 3, "H", "W")],
            id="the size of an image",
        ),
        pytest.param({"boxes": ()}, {"boxes": (N, CHANNELS)}, [("boxes.0", 3)], id="nobody knows"),
    ],
)
def test_sizes_are_called_after_what_they_are(
    letters: Mapping[str, Sequence[str]], inputs: Mapping[str, Sequence[Range]], shapes: Sequence[Shape]
) -> None:
    names = SizeNames(lambda name, axes: letters[name], inputs)
    symbols: dict[str, Range] = {}
    assert [names.symbolic(name, ranges, symbols) for name, ranges in inputs.items()] == shapes
    spans = {
        symbol: span
        for shape, ranges in zip(shapes, inputs.values(), strict=True)
        for symbol, span in zip(shape, ranges, strict=True)
        if isinstance(symbol, str)
    }
    assert symbols == spans

"""Repeated blocks of a drawing in frames."""

from __future__ import annotations

import random

import pytest

from prototrt.converter.showing.page.order import nodes_in
from prototrt.converter.showing.page.repeats import FEWEST_BLOCKS, Repeat, with_repeats
from prototrt.surgery.views.drawing import USER, Drawing, Item


def chain(blocks: list[tuple[str, list[str]]]) -> Drawing:
    """Blocks of layers by a stem and their types, one after the other, with an arrow round each."""
    drawing = Drawing("net")
    before = drawing.node("data", ("data", "Input"), USER)
    for stem, types in blocks:
        entry = before
        for number, type_ in enumerate(types):
            name = f"{stem}/part{number}"
            drawn = drawing.node(name, (name, type_), USER)
            drawing.edge(before, drawn, "")
            before = drawn
        drawing.edge(entry, before, "")
    return drawing


def titles(items: list[Item]) -> list[str]:
    return [item.lines[0] for item in items]


EQUAL = [(f"res{number}", ["Convolution", "Pooling", "Eltwise"]) for number in range(2, 14)]


@pytest.mark.parametrize(
    ("blocks", "shown"),
    [
        (EQUAL, ["data", "res2 … res13"]),
        (EQUAL[:9], ["data", *(f"res{block}/part{part}" for block in range(2, 11) for part in range(3))]),
        (
            [*EQUAL[:6], ("other", ["LRN"]), *EQUAL[6:]],
            ["data", "res2 … res7", "other/part0", "res8 … res13"],
        ),
        (
            [("last", ["Slice"]), *EQUAL, ("end", ["Softmax"])],
            ["data", "last/part0", "res2 … res13", "end/part0"],
        ),
    ],
    ids=["equal blocks", "a small net", "another layer between", "layers around"],
)
def test_runs_are_in_frames(blocks: list[tuple[str, list[str]]], shown: list[str]) -> None:
    drawing = chain(blocks)
    assert titles(with_repeats(drawing, drawing.items)) == shown


def test_a_run_tells_what_its_blocks_are() -> None:
    drawing = chain(EQUAL)
    (run,) = (item for item in with_repeats(drawing, drawing.items) if isinstance(item, Repeat))
    assert run.lines == ("res2 … res13", "12 x (Convolution, Pooling,", "Eltwise)")
    assert titles(run.items) == [stem for stem, _ in EQUAL]
    assert titles(run.items[0].items) == ["res2/part0", "res2/part1", "res2/part2"]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(20))
def test_folding_loses_no_layer_and_keeps_their_order(seed: int) -> None:
    chance = random.Random(seed)
    kinds = [
        [chance.choice(("Convolution", "LRN", "Pooling")) for _ in range(chance.randint(1, 4))] for _ in "abc"
    ]
    blocks = [
        (f"stage{stage}_{number}", kind)
        for stage in range(6)
        for kind in [chance.choice(kinds)]
        for number in range(chance.randint(1, 12))
    ]
    drawing = chain(blocks)
    items = with_repeats(drawing, drawing.items)
    assert [node.id for item in items for node in nodes_in(item)] == [node.id for node in drawing.items]
    stack = list(items)
    for item in stack:
        if isinstance(item, Repeat):
            stack += item.items
            assert item.blocks in (1, len(item.items))
            assert item.blocks == 1 or item.blocks >= FEWEST_BLOCKS

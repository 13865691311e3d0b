"""Repeated blocks of a drawing, each run of them in a frame that the page folds."""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

import numpy as np

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.showing.page.order import nodes_in, places_of
from prototrt.surgery.views.drawing import (
    FED_BACK,
    Drawing,
    DrawnEdge,
    DrawnFrame,
    DrawnNode,
    Item,
    wrap,
)

FEWEST_BOXES = 30
"""A drawing of so few is shown as it is."""
FEWEST_BLOCKS = 3
_FEWEST_REPEATED, _FEWEST_OF_LAYER = 8, 24
"""Boxes of a run of layers, and of parts of one layer: fewer are as easily read as the name of their frame."""
_INDEX = re.compile(r"\d+(?:[a-zA-Z](?![a-zA-Z]))?|(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])")
_WIDTH = re.compile(r"num_output \d+")


@dataclass(frozen=True, slots=True)
class Repeat(DrawnFrame):
    """A frame around equal blocks, or around one of them, which counts 1. A block of one box has no frame."""

    blocks: int


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks of ``size`` items that follow one another."""

    start: int
    size: int
    blocks: int

    @property
    def end(self) -> int:
        return self.start + self.size * self.blocks


def with_repeats(drawing: Drawing, items: Sequence[Item]) -> list[Item]:
    """The items of a net as written, where runs of equal blocks are in frames, also within blocks."""
    if sum(1 for item in items for _ in nodes_in(item)) <= FEWEST_BOXES:
        return list(items)
    return _fold(items, drawing.edges, [_layer_signature(item) for item in items], "repeat", _FEWEST_REPEATED)


def with_repeats_like(drawing: Drawing, items: Sequence[Item], written: Sequence[Item]) -> list[Item]:
    """The items of a graph in the frames that their layers have in the drawing ``written``.

    The equal parts of one layer have frames too, as the steps of an unrolled loop.
    """
    frames = dict(_frames_of_layers(written, ()))
    if len(items) <= FEWEST_BOXES:
        return list(items)
    alike = _in_frames(items, 0, frames)
    return _fold(alike, drawing.edges, [_part_signature(item) for item in alike], "steps", _FEWEST_OF_LAYER)


# ---------------------------------------------------------------- what is equal


def pattern(name: str) -> str:
    """A name without its indices: ``res4b12_branch2a``, ``inception_4a/1x1``, ``step_a``."""
    return _INDEX.sub("#", name)


def _layer_signature(item: Item) -> Hashable:
    """Names that differ in an index, and equal settings but for the number of outputs."""
    parts = item.parts if isinstance(item, DrawnNode) else ()
    settings = tuple(_WIDTH.sub("", " ".join(part.lines[1:])) for part in parts)
    return type(item), getattr(item, "kind", None), tuple(pattern(part.lines[0]) for part in parts), settings


def _part_signature(item: Item) -> Hashable:
    """The layer that a node is a part of, and its lines without numbers. Other boxes equal none."""
    if isinstance(item, DrawnNode) and item.parts[0].origin is not None:
        return item.parts[0].origin, tuple(map(pattern, item.lines))
    return item.id


def runs_of(
    signatures: Sequence[Hashable],
    reads: Sequence[Collection[int]],
    names: Sequence[str],
    fewest: int = _FEWEST_REPEATED,
) -> Iterator[Run]:
    """The runs of the smallest blocks that repeat, with ``fewest`` items or more, which do not overlap.

    ``reads`` are the places that each item reads. Blocks are equal if their items have equal signatures, read each
    other alike, and read as many others. Of the ways to cut a run into blocks, the one that cuts the fewest values
    is taken, and then the one where the names of a block have most in common.
    """
    numbers: dict[Hashable, int] = {}
    kinds = np.array([numbers.setdefault(each, len(numbers)) for each in signatures])
    crossing = _crossing_counts(reads)

    def cost(start: int, end: int, size: int) -> tuple[int, int]:
        """Of a way to cut a stretch into blocks."""
        cut = max(crossing[start + size : end - size + 1 : size])
        return cut, -len(_common_prefix(names[start : start + size]))

    for size in range(1, len(kinds) // FEWEST_BLOCKS + 1):
        runs = [
            run
            for start, end in _stretches(kinds[size:] == kinds[:-size], (FEWEST_BLOCKS - 1) * size)
            if (run := _best_run(start, end + size, size, reads, cost)) and run.end - run.start >= fewest
        ]
        if runs:
            yield from runs
            return


def _stretches(matches: np.ndarray, shortest: int) -> Iterator[tuple[int, int]]:
    """Where matches follow one another."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], matches.astype(np.int8), [0]))))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= shortest:
            yield start, end


def _crossing_counts(reads: Sequence[Collection[int]]) -> list[int]:
    """For each place, how many items before it are read by one there or after it."""
    last = list(range(len(reads)))
    for place, sources in enumerate(reads):
        for source in sources:
            last[source] = max(last[source], place)
    change = [0] * (len(reads) + 2)
    for place, end in enumerate(last):
        change[place + 1] += 1
        change[end + 1] -= 1
    return list(itertools.accumulate(change))


def _best_run(
    first: int,
    end: int,
    size: int,
    reads: Sequence[Collection[int]],
    cost: Callable[[int, int, int], tuple[int, int]],
) -> Run | None:
    """The run of blocks of a size in a stretch of items that repeat."""
    starts = range(first, min(first + size, end - FEWEST_BLOCKS * size + 1))
    for start in sorted(starts, key=lambda start: cost(start, end, size)):
        wiring = [_wiring(place, size, reads) for place in range(start, end - size + 1, size)]
        matches = np.array([wiring[index] == wiring[index + 1] for index in range(len(wiring) - 1)])
        longest = max(
            _stretches(matches, FEWEST_BLOCKS - 1), key=lambda stretch: stretch[1] - stretch[0], default=None
        )
        if longest:
            return Run(start + longest[0] * size, size, longest[1] - longest[0] + 1)
    return None


def _wiring(start: int, size: int, reads: Sequence[Collection[int]]) -> list[tuple[int, ...]]:
    """What each item of a block reads: places in the block, and -1 for each place outside of it."""
    return [
        tuple(sorted(source - start if source >= start else -1 for source in reads[place]))
        for place in range(start, start + size)
    ]


# ---------------------------------------------------------------- frames


def _fold(
    items: Sequence[Item],
    edges: Sequence[DrawnEdge],
    signatures: Sequence[Hashable],
    prefix: str,
    fewest: int,
) -> list[Item]:
    """The items with runs in frames, small blocks before the larger ones that contain them."""
    numbers = itertools.count()
    items, signatures = list(items), list(signatures)
    while runs := list(
        runs_of(signatures, reads_of(items, edges), [item.lines[0] for item in items], fewest)
    ):
        for run in reversed(runs):  # places after it stay
            blocks = [items[start : start + run.size] for start in range(run.start, run.end, run.size)]
            title, titles = _titles(blocks)
            frames = [
                block[0] if run.size == 1 else _frame(f"{prefix} {next(numbers)}", 1, of_block, block)
                for block, of_block in zip(blocks, titles, strict=True)
            ]
            signature = run.blocks, tuple(signatures[run.start : run.start + run.size])
            items[run.start : run.end] = [_frame(f"{prefix} {next(numbers)}", run.blocks, title, frames)]
            signatures[run.start : run.end] = [signature]
    return items


def reads_of(items: Sequence[Item], edges: Sequence[DrawnEdge]) -> list[set[int]]:
    """The places of the other items that each item reads."""
    places = places_of(items)
    reads: list[set[int]] = [set() for _ in items]
    for edge in edges:
        source, target = places[edge.source], places[edge.target]
        if edge.kind != FED_BACK and source != target:
            reads[target].add(source)
    return reads


def _frame(name: str, blocks: int, title: str, items: Sequence[Item]) -> Repeat:
    """A frame that tells what is in it, or in each of its blocks."""
    shown = nodes_in(items[0]) if blocks > 1 else (node for item in items for node in nodes_in(item))
    words = Counter(_word(node) for node in shown)
    summary = ", ".join(f"{many} {word}" if many > 1 else word for word, many in words.items())
    if blocks > 1:
        summary = f"{blocks} x ({summary})"
    return Repeat(name, (title, *wrap(summary.split(", "))), False, None, list(items), blocks)


def _word(node: DrawnNode) -> str:
    """The type of a box."""
    return re.split(r"[\[ ]", node.lines[1])[0] if len(node.lines) > 1 else "output"


def _titles(blocks: Sequence[Sequence[Item]]) -> tuple[str, list[str]]:
    """The titles of a run and of its blocks: what the names of a block have in common, if that is its own.

    Else they are the names of the first and of the last box.
    """
    names = [[node.lines[0] for item in block for node in nodes_in(item)] for block in blocks]
    stems = [_stem(each) for each in names]
    if all(map(_INDEX.search, stems)) and len(set(stems)) == len(stems):
        return f"{stems[0]} … {stems[-1]}", stems
    return f"{names[0][0]} … {names[-1][-1]}", [f"{each[0]} … {each[-1]}" for each in names]


def _common_prefix(names: Sequence[str]) -> str:
    """The letters that all names begin with."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike)


def _stem(names: Sequence[str]) -> str:
    """The common beginning, without a part of a word: of ``conv10`` and ``conv11`` it is empty."""
    stem = _common_prefix(names)
    if any(name[len(stem) : len(stem) + 1].isalnum() for name in names):
        stem = stem.rstrip(string.ascii_letters + string.digits)
    return stem.rstrip("_-/. ")


# ---------------------------------------------------------------- the same frames in another drawing


def _frames_of_layers(
    items: Sequence[Item], frames: tuple[Repeat, ...]
) -> Iterator[tuple[Origin | None, tuple[Repeat, ...]]]:
    """The frames around each layer, the outermost first."""
    for item in items:
        if isinstance(item, Repeat):
            yield from _frames_of_layers(item.items, (*frames, item))
        elif isinstance(item, DrawnNode):
            yield from ((part.origin, frames) for part in item.parts)


def _in_frames(
    items: Sequence[Item], depth: int, frames: Mapping[Origin | None, tuple[Repeat, ...]]
) -> list[Item]:
    """The items by the frames of their layers. A frame stands where its first item stood."""
    groups: dict[tuple[bool, str], list[Item]] = {}
    repeats: dict[tuple[bool, str], Repeat] = {}
    for item in items:
        origin = item.parts[0].origin if isinstance(item, DrawnNode) else item.origin
        around = frames.get(origin, ()) if origin else ()
        is_inside = len(around) > depth
        key = (is_inside, around[depth].id if is_inside else item.id)
        groups.setdefault(key, []).append(item)
        if is_inside:
            repeats[key] = around[depth]
    made: list[Item] = []
    for key, group in groups.items():
        if key in repeats:
            group = _in_frames(group, depth + 1, frames)
            frame = repeats[key]
            made += group if len(group) == 1 else [_frame(frame.id, frame.blocks, frame.lines[0], group)]
        else:
            made += group
    return made

"""A drawing in pieces: Graphviz draws a hundred nodes at once, but needs minutes for thousands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prototrt.surgery.views.drawing import (
    CONSTANT,
    END,
    FED_BACK,
    Drawing,
    DrawnEdge,
    DrawnFrame,
    DrawnNode,
    Item,
)

FEWEST, MOST = 40, 90
"""Items of a piece; the cut is made where the fewest arrows cross it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is drawn together, and the arrows from the pieces before or to the pieces after."""

    items: tuple[Item, ...]
    edges: tuple[DrawnEdge, ...]
    arriving: tuple[DrawnEdge, ...]
    leaving: tuple[DrawnEdge, ...]


def pieces_of(drawing: Drawing) -> list[Piece]:
    """The drawing cut across. State that is fed back across a cut is not drawn: the page lists it."""
    items = _ordered(drawing)
    places = _places(items)
    bounds = _bounds(items, [edge for edge in drawing.edges if edge.kind != FED_BACK], places)
    number = {place: index for index, (start, end) in enumerate(bounds) for place in range(start, end)}
    own: list[list[DrawnEdge]] = [[] for _ in bounds]
    arriving: list[list[DrawnEdge]] = [[] for _ in bounds]
    leaving: list[list[DrawnEdge]] = [[] for _ in bounds]
    for edge in drawing.edges:
        source, target = number[places[edge.source]], number[places[edge.target]]
        if source == target:
            own[source].append(edge)
        elif edge.kind != FED_BACK:
            leaving[source].append(edge)
            arriving[target].append(edge)
    return [
        Piece(tuple(items[start:end]), tuple(own[i]), tuple(arriving[i]), tuple(leaving[i]))
        for i, (start, end) in enumerate(bounds)
    ]


def _ordered(drawing: Drawing) -> list[Item]:
    """Inputs and constants just before their first reader, outputs just after what they show."""
    places = _places(drawing.items)
    readers: dict[int, int] = {}
    writers: dict[int, int] = {}
    for edge in drawing.edges:
        if edge.kind != FED_BACK:
            source, target = places[edge.source], places[edge.target]
            readers[source] = min(target, readers.get(source, target))
            writers[target] = max(source, writers.get(target, source))

    def place(position: int) -> tuple[int, int, int]:
        item = drawing.items[position]
        if isinstance(item, DrawnNode) and item.kind in (END, CONSTANT):
            if position not in writers and position in readers:
                return readers[position], 0, position
            if position in writers and position not in readers:
                return writers[position], 2, position
        return position, 1, position

    return [drawing.items[position] for position in sorted(range(len(drawing.items)), key=place)]


def _places(items: Sequence[Item]) -> dict[str, int]:
    """The item that contains each node."""
    return {node.id: position for position, item in enumerate(items) for node in nodes_in(item)}


def nodes_in(item: Item) -> Iterator[DrawnNode]:
    """The nodes of a frame and the frames in it; a node itself."""
    if isinstance(item, DrawnFrame):
        for inner in item.items:
            yield from nodes_in(inner)
    else:
        yield item


def _bounds(
    items: Sequence[Item], edges: Sequence[DrawnEdge], places: dict[str, int]
) -> list[tuple[int, int]]:
    """Where each piece begins and ends."""
    crossing = _crossing(len(items), edges, places)
    bounds, start = [], 0
    while len(items) - start > MOST:
        cut = min(range(start + FEWEST, start + MOST + 1), key=lambda place: (crossing[place], -place))
        bounds.append((start, cut))
        start = cut
    return [*bounds, (start, len(items))]


def _crossing(count: int, edges: Sequence[DrawnEdge], places: dict[str, int]) -> list[int]:
    """How many arrows cross the line before each item."""
    change = [0] * (count + 1)
    for edge in edges:
        first, last = sorted((places[edge.source], places[edge.target]))
        change[first + 1] += 1
        change[last + 1] -= 1
    total, crossing = 0, []
    for step in change:
        total += step
        crossing.append(total)
    return crossing

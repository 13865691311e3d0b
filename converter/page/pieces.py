"""A drawing in pieces, so that a long net fills a screen in columns, and Graphviz never gets thousands of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.surgery.views.drawing import (
    END,
    FED_BACK,
    Drawing,
    DrawnEdge,
    DrawnFrame,
    DrawnNode,
    Item,
)

FEWEST, MOST = 3, 9
"""Items of a piece; the cut is made where the fewest arrows cross it."""


def pieces_of(drawing: Drawing) -> list[list[Item]]:
    """The items of the drawing, cut across. The page joins pieces into columns that fit a screen."""
    items = _ordered(drawing)
    forward = [edge for edge in drawing.edges if edge.kind != FED_BACK]
    return [items[start:end] for start, end in _bounds(items, forward, _places(items))]


def _ordered(drawing: Drawing) -> list[Item]:
    """Inputs just before their first reader, outputs just after what they show."""
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
        if isinstance(item, DrawnNode) and item.kind == END:
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

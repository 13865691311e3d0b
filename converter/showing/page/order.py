"""The order in which a page shows the items of a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.surgery.views.drawing import (
    END,
    FED_BACK,
    Drawing,
    DrawnFrame,
    DrawnNode,
    Item,
)


def in_order(drawing: Drawing) -> list[Item]:
    """The items, inputs just before their first reader and outputs just after what they show.

    The page cuts this order into columns.
    """
    places = places_of(drawing.items)
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


def places_of(items: Sequence[Item]) -> dict[str, int]:
    """The item that contains each node."""
    return {node.id: position for position, item in enumerate(items) for node in nodes_in(item)}


def nodes_in(item: Item) -> Iterator[DrawnNode]:
    """The nodes of a frame and the frames in it; a node itself."""
    if isinstance(item, DrawnFrame):
        for inner in item.items:
            yield from nodes_in(inner)
    else:
        yield item

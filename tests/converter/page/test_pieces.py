"""Drawings are cut so that nothing is lost, and few edges are cut."""

from __future__ import annotations

from prototrt.converter.page.pieces import FEWEST, MOST, nodes_in, pieces_of
from prototrt.surgery.views.drawing import END, FED_BACK, USER, Drawing


def chain(length: int, block: int = 0) -> Drawing:
    """Nodes in a row; with ``block`` each that many an arrow skips the nodes between."""
    drawing = Drawing("chain")
    for index in range(length):
        drawing.node(f"n{index}", (f"n{index}",), USER)
        if index:
            drawing.edge(f"n{index - 1}", f"n{index}", "")
        if block and index and index % block == 0:
            drawing.edge(f"n{index - block}", f"n{index}", "skip")
    return drawing


def test_small_drawings_are_one_piece() -> None:
    drawing = chain(MOST)
    (piece,) = pieces_of(drawing)
    assert piece == drawing.items


def test_every_node_is_kept_in_order() -> None:
    drawing = chain(1000, block=7)
    pieces = pieces_of(drawing)
    assert [item for piece in pieces for item in piece] == drawing.items
    assert all(FEWEST <= len(piece) <= MOST for piece in pieces[:-1])


def crossing(drawing: Drawing) -> list[int]:
    """How many arrows leave each piece for a later one."""
    place = {
        node.id: at
        for at, piece in enumerate(pieces_of(drawing))
        for item in piece
        for node in nodes_in(item)
    }
    ends = [(place[edge.source], place[edge.target]) for edge in drawing.edges]
    return [sum(source <= at < target for source, target in ends) for at in range(max(place.values()))]


def test_a_cut_goes_where_the_fewest_arrows_cross() -> None:
    blocks = chain(101, block=5)
    for index in range(0, 100, 5):
        blocks.edge(f"n{index}", f"n{index + 4}", "")
    assert max(crossing(blocks)) == 2  # the chain, and one that skips a block; in a block there are three
    drawing = chain(MOST + FEWEST)
    for index in range(MOST):
        if index != MOST - 2:
            drawing.edge("n0", f"n{index}", "")
    assert crossing(drawing) == [1]


def test_inputs_and_outputs_stand_with_what_reads_or_writes_them() -> None:
    drawing = Drawing("net")
    drawing.node("late input", ("late input",), END)
    for index in range(300):
        drawing.node(f"n{index}", (f"n{index}",), USER)
        if index:
            drawing.edge(f"n{index - 1}", f"n{index}", "")
    drawing.edge("late input", "n250", "")
    drawing.edge("n5", drawing.node("early output", ("early output",), END), "")
    drawing.edge("early output", "late input", "next call", FED_BACK)
    order = [node.id for piece in pieces_of(drawing) for item in piece for node in nodes_in(item)]
    assert order[order.index("n250") - 1] == "late input"
    assert order[order.index("n5") + 1] == "early output"


def test_a_frame_is_never_cut() -> None:
    drawing = Drawing("net")
    with drawing.frame("scan", ("scan",), False):
        for index in range(3 * MOST):
            drawing.node(f"n{index}", (f"n{index}",), USER)
    (piece,) = pieces_of(drawing)
    assert len(list(nodes_in(piece[0]))) == 3 * MOST

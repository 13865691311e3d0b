"""Drawings are cut so that nothing is lost, and few edges are cut."""

from __future__ import annotations

from prototrt.converter.page.pieces import FEWEST, MOST, nodes_in, pieces_of
from prototrt.surgery.views.drawing import CONSTANT, END, FED_BACK, FROM_CONSTANT, USER, Drawing


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
    assert (list(piece.items), list(piece.edges)) == (drawing.items, drawing.edges)
    assert (piece.arriving, piece.leaving) == ((), ())


def test_every_node_and_arrow_is_kept() -> None:
    drawing = chain(1000, block=7)
    pieces = pieces_of(drawing)
    assert [item for piece in pieces for item in piece.items] == drawing.items
    assert all(FEWEST <= len(piece.items) <= MOST for piece in pieces[:-1])
    inside = [edge for piece in pieces for edge in piece.edges]
    leaving = [edge for piece in pieces for edge in piece.leaving]
    assert sorted([*inside, *leaving], key=repr) == sorted(drawing.edges, key=repr)
    assert sorted(leaving, key=repr) == sorted(
        (edge for piece in pieces for edge in piece.arriving), key=repr
    )


def test_a_cut_goes_where_the_fewest_arrows_cross() -> None:
    pieces = pieces_of(chain(1000, block=7))
    assert all(len(piece.leaving) == 2 for piece in pieces[:-1])  # in a block: the chain, and one that skips
    drawing = chain(2 * FEWEST + 10)
    for index in range(FEWEST + 5):
        if index != FEWEST + 3:
            drawing.edge("n0", f"n{index}", "")
    assert len(pieces_of(drawing)) == 1


def test_ends_and_constants_stand_with_what_reads_or_writes_them() -> None:
    drawing = Drawing("net")
    drawing.node("late input", ("late input",), END)
    for index in range(300):
        drawing.node(f"n{index}", (f"n{index}",), USER)
        if index:
            drawing.edge(f"n{index - 1}", f"n{index}", "")
    drawing.edge("late input", "n250", "")
    drawing.edge(drawing.node("w", ("3x3",), CONSTANT), "n150", "", FROM_CONSTANT)
    drawing.edge("n5", drawing.node("early output", ("early output",), END), "")
    drawing.edge("early output", "late input", "next call", FED_BACK)
    place = {
        node.id: index
        for index, piece in enumerate(pieces_of(drawing))
        for item in piece.items
        for node in nodes_in(item)
    }
    assert place["late input"] == place["n250"]
    assert place["w"] == place["n150"]
    assert place["early output"] == place["n5"]


def test_a_frame_is_never_cut() -> None:
    drawing = Drawing("net")
    with drawing.frame("scan", ("scan",), False, "lstm"):
        for index in range(3 * MOST):
            drawing.node(f"n{index}", (f"n{index}",), USER)
    (piece,) = pieces_of(drawing)
    assert len(list(nodes_in(piece.items[0]))) == 3 * MOST

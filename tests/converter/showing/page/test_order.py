"""The order of a page: ends stand with what reads or writes them."""

from __future__ import annotations

from prototrt.converter.showing.page.order import in_order, nodes_in
from prototrt.surgery.views.drawing import END, FED_BACK, USER, Drawing


def test_inputs_and_outputs_stand_with_what_reads_or_writes_them() -> None:
    drawing = Drawing("net")
    drawing.node("late input", ("late input",), END)
    for index in range(9):
        drawing.node(f"n{index}", (f"n{index}",), USER)
        if index:
            drawing.edge(f"n{index - 1}", f"n{index}", "")
    drawing.edge("late input", "n7", "")
    drawing.edge("n2", drawing.node("early output", ("early output",), END), "")
    drawing.edge("early output", "late input", "next call", FED_BACK)
    order = [node.id for item in in_order(drawing) for node in nodes_in(item)]
    assert order == ["n0", "n1", "n2", "early output", "n3", "n4", "n5", "n6", "late input", "n7", "n8"]


def test_a_frame_stays_together() -> None:
    drawing = Drawing("net")
    with drawing.frame("scan", ("scan",), False):
        for index in range(3):
            drawing.node(f"n{index}", (f"n{index}",), USER)
    (frame,) = in_order(drawing)
    assert [node.id for node in nodes_in(frame)] == ["n0", "n1", "n2"]

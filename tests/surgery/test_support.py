"""The table of supported layers says what the rules say."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.views.support import LayerSupport, markdown_table, page_list, supported_layers


def test_every_rule_says_what_its_layer_is_and_becomes() -> None:
    rows = supported_layers()
    python = [f"Python: {name}" for name in python_rule.rules]
    assert [row.type for row in rows] == sorted([*layer_rule.rules, *python])
    assert [row.type for row in rows if not (row.becomes and row.notes)] == []


def test_markdown_escapes_the_bar() -> None:
    assert markdown_table([LayerSupport("AbsVal", "Abs", "`|x|`")]) == (
        "| layer | becomes | notes |\n| --- | --- | --- |\n| AbsVal | Abs | `\\|x\\|` |"
    )


def test_types_that_compute_the_same_share_a_line_of_the_page() -> None:
    rows = [
        LayerSupport("Axpy", "Add", "a"),
        LayerSupport("Bias", "Add", "b"),
        LayerSupport("AxpyFast", "Add", "a"),
    ]
    assert page_list(rows) == "- **Axpy, AxpyFast**: a\n- **Bias**: b"

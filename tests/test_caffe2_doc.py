"""docs/caffe2.md says what is registered."""

from __future__ import annotations

from prototrt.tests.caffe2_cases import GOLDENS
from prototrt.tests.tools.support_lists import supported_operators

DOC = GOLDENS.parents[1] / "docs" / "caffe2.md"


def test_the_list_of_operators() -> None:
    names = sorted(name for row in supported_operators() for name in row.type.split(", "))
    assert DOC.read_text().endswith(f"\n\n{', '.join(names)}\n")


def test_what_an_operator_becomes_is_a_whole_sentence() -> None:
    """Also where the docstring of its rule has it in several lines."""
    becomes = {row.type: row.becomes for row in supported_operators()}
    assert becomes["ResizeNearest"].endswith("Reshape, Tile where the scales are whole numbers")
    assert becomes["RowMul"] == "Multiply"

"""docs/caffe2.md says what is registered."""

from __future__ import annotations

from prototrt.surgery.views.support import markdown_table, supported_operators
from prototrt.tests.caffe2_cases import GOLDENS

DOC = GOLDENS.parents[1] / "docs" / "caffe2.md"


def test_the_table_of_operators() -> None:
    assert DOC.read_text().endswith(f"\n\n{markdown_table(supported_operators(), 'operator')}\n")

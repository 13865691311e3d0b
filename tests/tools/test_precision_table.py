"""The table of docs/precision.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from prototrt.tests.tools import precision_table
from prototrt.tests.tools.page_table import END
from prototrt.tests.tools.precision_table import BEGIN, HEAD, NETS, main

PAGE = Path(__file__).parents[2] / "docs" / "precision.md"


def rows(text: str) -> list[str]:
    return text.partition(BEGIN)[2].partition(END)[0].removeprefix(HEAD).splitlines()


def test_images_are_the_same_every_time() -> None:
    first, again, other = (precision_table._images((2, 3, 8, 9), seed) for seed in (0, 0, 1))
    assert first.shape == (2, 3, 8, 9)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert 0 <= first.min() < first.max() <= 255


@pytest.mark.trt
@pytest.mark.slow
def test_the_table_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    result = CliRunner().invoke(main, [str(tmp_path / "absent"), str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    (row,) = rows(text)
    assert re.fullmatch(r"\| digits sample \(CRNN\)( \| \d\.\d MB){4} .* (99|100)\.\d% \|", row)
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_the_page_has_a_row_for_each_net() -> None:
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows(PAGE.read_text())]
    assert names == ["digits sample (CRNN)", *(net.name for net in NETS)]

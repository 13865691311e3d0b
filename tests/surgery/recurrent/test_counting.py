"""What is written out and what is counted are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ops import Scan
from prototrt.surgery.recurrent import counting
from prototrt.surgery.recurrent.counting import numbers


@pytest.mark.parametrize("most", [5, 4], ids=["written out", "counted"])
def test_numbers(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_WRITTEN_OUT", most)
    build = Builder()
    value = numbers(build, 5, "steps")
    assert (value.shape, value.dtype.value) == ((5,), "int32")
    assert any(isinstance(node.op, Scan) for node in build.nodes) == (most == 4)
    (found,) = build.graph("", [value]).evaluate()
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 4])

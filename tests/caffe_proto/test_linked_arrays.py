"""Arrays filled from those whose numbers are known."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.caffe_proto.weights.linked_arrays import Link, fill, view_at
from prototrt.surgery.ir import Array

A: Array = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
B: Array = np.array([7, 8], np.float32)


def test_numbers_go_both_ways() -> None:
    """Piece 0 was made of 1, transposed, and 2 is made of the negative of 0."""
    links: list[Link] = [
        ((2, 3), (0, 0, 12, 4), [(1, 0, 4, 8)], 1, 0),
        ((6,), (2, 0, 4), [(0, 0, 4)], -1, 0.5),
    ]
    memory, agrees = fill([24, 24, 24], [((0, 0, 12, 4), A)], links)
    assert agrees
    np.testing.assert_array_equal(view_at(memory, (1, 0, 8, 4), (3, 2)), A.T)
    np.testing.assert_array_equal(view_at(memory, (2, 0, 4), (6,)), 0.5 - A.reshape(-1))


def test_sums() -> None:
    """One of two summands follows from the other and the sum; none from the sum alone."""
    link: Link = ((2,), (0, 0, 4), [(1, 0, 4), (2, 0, 4)], 1, 0)
    memory, agrees = fill([8, 8, 8], [((0, 0, 4), B), ((2, 0, 4), np.ones(2, np.float32))], [link])
    assert agrees
    np.testing.assert_array_equal(view_at(memory, (1, 0, 4), (2,)), B - 1)
    memory, agrees = fill([8, 8, 8], [((0, 0, 4), B)], [link])
    assert agrees
    assert np.isnan(view_at(memory, (1, 0, 4), (2,))).all()


@pytest.mark.parametrize("second", [1, 2])
def test_numbers_may_differ(second: int) -> None:
    """Two elements are made of one."""
    known = ((0, 0, 4), np.array([1, second], np.float32))
    _, agrees = fill([8, 4], [known], [((2,), (0, 0, 4), [(1, 0, 0)], 1, 0)])
    assert agrees == (second == 1)


@pytest.mark.parametrize("place", [(0, 4, 4), (0, -4, 4), (0, 0, 8), (0, 0, -4)])
def test_places_outside(place: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"buffer|offset|strides"):
        view_at([np.zeros(8, np.uint8)], place, (2,))

"""Arrays that remember of which others they were made."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.surgery.ir.made_arrays import join_of, links_of, owner_of, sum_of, unit_matrix
from prototrt.surgery.ir.uniform_constants import concatenate


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_views_lead_to_what_they_were_made_of() -> None:
    a, b = numbers(2, 3), numbers(1, 3)
    made = join_of([a, b])
    view = np.asarray(made)[1:].T.reshape(3, 2, 1)
    assert owner_of(view) is made
    assert owner_of(view.copy()) is None
    assert owner_of(a) is None
    first, second = links_of([view])
    assert (first.sources, second.sources) == ((a,), (b,))
    np.testing.assert_array_equal(first.made, a)
    np.testing.assert_array_equal(second.made, b)


def test_links_go_on() -> None:
    a, b = numbers(2), numbers(2)
    inner = sum_of(a, b, factor=-1, summand=3)
    np.testing.assert_array_equal(inner, 3 - a - b)
    _, _, link = links_of([join_of([inner, a])])
    assert (link.sources, link.factor, link.summand) == ((a, b), -1, 3)


def test_a_result_is_not_what_it_was_computed_of() -> None:
    assert owner_of(join_of([numbers(2), numbers(2)]) * 2) is None


def test_repeated_numbers_stay_so() -> None:
    zeros = np.broadcast_to(np.float32(0), (2, 3))
    assert not any(concatenate([zeros, zeros]).strides)


def test_unit_matrix() -> None:
    np.testing.assert_array_equal(unit_matrix(2, 3), np.eye(2, 3))
    np.testing.assert_array_equal(unit_matrix(3, 3), np.eye(3))

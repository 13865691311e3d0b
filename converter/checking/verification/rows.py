"""Lists of rows that suppression orders: rows whose scores are as good as equal may change places."""

from __future__ import annotations

import numpy as np

from prototrt.converter.checking.verification.tolerances import Tolerance
from prototrt.surgery.ir import Array, AtMost, Shape

NEAR = 8
"""How many places a row may move: more rows are not tied."""


def row_axis(shape: Shape) -> int | None:
    """The axis of the rows of a list whose length depends on the data; None for other values."""
    return next((axis for axis, dim in enumerate(shape) if isinstance(dim, AtMost)), None)


def in_order_of(expected: Array, actual: Array, axis: int, tolerance: Tolerance) -> Array:
    """``actual`` with rows back in the places of ``expected`` that changed places with tied ones."""
    if actual.shape != expected.shape or not actual.size:
        return actual
    moved = np.moveaxis(actual, axis, 0)
    a, b = (np.moveaxis(array, axis, 0).reshape(actual.shape[axis], -1) for array in (actual, expected))
    allowed, order, scores = tolerance.limit(float(np.abs(b).max())), [*range(len(b))], _scores(b)
    for place, row in enumerate(b):
        if not _close(a[order[place]], row, allowed):
            tied = (other for other in range(place + 1, len(b)) if _is_tie(scores, place, other, tolerance))
            twin = next((other for other in tied if _close(a[order[other]], row, allowed)), None)
            if twin is not None:
                order.insert(place, order.pop(twin))
    return np.moveaxis(moved[order], 0, axis)


def _close(a: Array, b: Array, allowed: float) -> bool:
    return bool((np.abs(a - b) <= allowed).all())


def _is_tie(scores: Array | None, place: int, other: int, tolerance: Tolerance) -> bool:
    """Without scores among the columns, only neighbours are taken for tied."""
    if scores is None:
        return other == place + 1
    allowed = tolerance.limit(float(np.abs(scores).max()))
    return other <= place + NEAR and bool(abs(scores[place] - scores[other]) <= allowed)


def _scores(rows: Array) -> Array | None:
    """The first column of fractions, if it falls but for where whole numbers before it change: image and class."""
    changes = np.zeros(max(len(rows) - 1, 0), bool)
    for column in rows.T:
        steps = np.diff(column)
        if (column != np.round(column)).any():
            return None if (steps[~changes] > 0).any() else column
        changes |= steps != 0
    return None

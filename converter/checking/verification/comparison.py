"""What is compared, how far an array is from the expected one, and how far it may be."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.records import asdict, dataclass, replace
from prototrt.converter.options import Way
from prototrt.surgery.ir import Array, AtMost, Graph, Shape
from prototrt.surgery.options import Precision

REFERENCE: Final = "reference"
EXPECTED: Final = "expected"
"""What a way is compared with: the meaning of the primitives, or expected outputs."""
NEAR = 8
"""How many places a row may move: more rows are not tied."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an array is from what was expected.

    ``max_rel`` is ``max_abs`` divided by the largest expected magnitude; ``cosine`` is that
    of the angle between the two. If only one side has NaN or infinity at an element, all are infinite.
    """

    max_abs: float
    max_rel: float
    rms: float
    cosine: float
    allowed: float

    @property
    def is_small(self) -> bool:
        return self.max_abs <= self.allowed

    @property
    def excess(self) -> float:
        """More than 1 where the tolerance is broken."""
        if not self.allowed:
            return math.inf if self.max_abs else 0.0
        return self.max_abs / self.allowed


@dataclass(frozen=True, slots=True)
class Comparison:
    """One blob on one way, in the call in which it was farthest off."""

    way: Way
    against: str
    blob: str
    origin: Origin | None
    call: int
    difference: Difference
    doubt: str | None = None
    """Why agreement on this blob proves little."""
    begun_by: Origin | None = None
    """The layer that wrote the blob before others wrote over it: outputs from elsewhere hold the last result alone."""

    @property
    def holds(self) -> bool:
        return self.difference.is_small

    def as_dict(self) -> dict[str, Any]:
        numbers = {  # JSON has no infinities
            name: number if math.isfinite(number) else None
            for name, number in asdict(self.difference).items()
        }
        layer = self.origin.layer if self.origin else None
        facts = {"way": self.way, "against": self.against, "blob": self.blob, "layer": layer}
        return {**facts, "call": self.call, **numbers, "holds": self.holds}


def difference_of(actual: Array, expected: Array, tolerance: Tolerance) -> Difference:
    """How far ``actual`` is from ``expected``, in float64: infinitely far for another shape."""
    if actual.shape != expected.shape:
        return _beyond(tolerance)
    a, b = (np.asarray(array, np.float64).reshape(-1) for array in (actual, expected))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    a, b = np.where(same & ~np.isfinite(b), 0, a), np.where(same & ~np.isfinite(b), 0, b)
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return _beyond(tolerance)
    error = np.abs(a - b)
    max_abs, largest = float(error.max(initial=0)), float(np.abs(b).max(initial=0))
    rms = math.sqrt(float(np.mean(error * error))) if error.size else 0.0
    max_rel = max_abs / largest if largest else (math.inf if max_abs else 0.0)
    return Difference(max_abs, max_rel, rms, _cosine(a, b), tolerance.limit(largest))


def doubt_about(base: Array, tolerance: Tolerance) -> str | None:
    """Why agreement with this array proves little: other ways agree with it for another reason. Else None."""
    numbers = np.asarray(base, np.float64)
    finite = numbers[np.isfinite(numbers)]
    if finite.size < numbers.size:
        return f"is NaN or infinite at {numbers.size - finite.size} of {numbers.size} elements"
    spread = float(np.ptp(finite)) if numbers.size > 1 else math.inf
    if spread == 0:
        return f"is {finite[0]:.6g} at each of {numbers.size} elements"
    allowed = tolerance.limit(float(np.abs(finite).max(initial=0)))
    return f"varies by {spread:.2g} only, and {allowed:.2g} is allowed" if spread <= allowed else None


def _beyond(tolerance: Tolerance) -> Difference:
    return Difference(math.inf, math.inf, math.inf, math.nan, tolerance.limit(0))


def _cosine(a: Array, b: Array) -> float:
    """1 where both point the same way, also where both are zero."""
    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else float(not a.any() and not b.any())


def with_all_tops(graph: Graph) -> Graph:
    """The graph with every blob of the net as an output."""
    tops = [value for node in graph.nodes for value in node.outputs if not value.is_surgical]
    outputs = [value for value in graph.outputs if value not in tops]
    states = graph.state_outputs
    return replace(graph, outputs=(*(value for value in (*tops, *outputs) if value not in states), *states))


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


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A blob may be off by ``absolute + relative * (its largest expected magnitude)``.

    The magnitude is that of the largest element, not of each: an element near zero is a difference
    of large numbers, and carries their rounding.
    """

    relative: float
    absolute: float
    reason: str | None  # None where the user chose the numbers

    def limit(self, largest: float) -> float:
        return self.absolute + self.relative * largest


TOLERANCES = {
    "fp32": Tolerance(
        1e-4,
        1e-6,
        "sums of thousands of products, in another order, change by some hundred roundings of 2^-24",
    ),
    "fp16": Tolerance(2e-2, 1e-3, "every layer rounds values to 10 bits, and to fewer below 2^-14"),
    "bf16": Tolerance(8e-2, 8e-3, "every layer rounds values to 7 bits"),
    **dict.fromkeys(
        ("int8", "fp8", "int8,bf16", "fp8,bf16"),
        Tolerance(8e-2, 8e-3, "a number halfway between two steps of 8 bits is rounded to either of them"),
    ),
}
"""Two ways to compute the same graph. What a precision costs against float32 is another question."""


def tolerance_for(precision: Precision, atol: float | None = None, rtol: float | None = None) -> Tolerance:
    """That of the precision, with the numbers that the user states instead of its own."""
    usual = TOLERANCES[precision]
    absolute, relative = usual.absolute if atol is None else atol, usual.relative if rtol is None else rtol
    if (absolute, relative) == (usual.absolute, usual.relative):
        return usual
    return replace(usual, absolute=absolute, relative=relative, reason=None)

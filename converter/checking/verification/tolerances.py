"""How far the results of two ways may differ: a tolerance for each precision, with its reason."""

from __future__ import annotations

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.options import Precision


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

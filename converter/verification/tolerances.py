"""How far two ways of computing the same net may be apart: one tolerance a precision, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A blob may be off by ``absolute + relative * (its largest expected magnitude)``.

    The largest magnitude counts, not each element's own: an element near zero is a difference
    of large ones, and carries their rounding.
    """

    relative: float
    absolute: float
    reason: str

    def allowed(self, largest: float) -> float:
        return self.absolute + self.relative * largest


TOLERANCES = {
    "fp32": Tolerance(
        1e-4, 1e-6, "a sum of thousands of products in another order moves by some hundred roundings of 2^-24"
    ),
    "fp16": Tolerance(2e-2, 1e-3, "values are rounded to 10 bits at every layer, and lose more below 2^-14"),
    "bf16": Tolerance(1e-1, 1e-2, "values are rounded to 7 bits at every layer"),
}

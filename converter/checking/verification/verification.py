"""What a verification found: each comparison, the verdict, and the error where results diverge."""

from __future__ import annotations

import math
from typing import Any

from prototrt.caffe_proto.common.errors import VerificationError
from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.checking.verification.comparison import EXPECTED, Comparison, Tolerance
from prototrt.converter.checking.verification.quantization import QuantizationCost
from prototrt.surgery.options import Precision


@dataclass(frozen=True, slots=True)
class Verification:
    """All comparisons, in the order in which the net computes, way by way.

    ``outputs`` are those of the net, without states. ``parts`` holds the first blob that is out of tolerance, for each
    way that has one. ``cost`` is that of 8 bits.
    """

    precision: Precision
    tolerance: Tolerance
    calls: int
    outputs: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    parts: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()
    cost: QuantizationCost | None = None

    @property
    def holds(self) -> bool:
        return all(comparison.holds for comparison in self.comparisons)

    @property
    def proves_little(self) -> bool:
        """Whether each output is constant, or has NaN or infinity: wrong ways would agree, too."""
        return bool(self.outputs) and all(
            any(each.doubt for each in self.comparisons if each.blob == output) for output in self.outputs
        )

    @property
    def verdict(self) -> str:
        """One line that begins with PASS or FAIL."""
        if not self.holds:
            first, difference = self.parts[0], self.parts[0].difference
            return (
                f'FAIL: {first.way} and {first.against} differ by {difference.max_abs:.2g} at blob "{first.blob}",'
                f" {difference.allowed:.2g} is allowed"
            )
        names = {name for comparison in self.comparisons for name in (comparison.way, comparison.against)}
        count = len(names - {EXPECTED})
        ways = f"{count} ways agree" if count > 1 else "1 way agrees"
        expected = " with the expected outputs" if EXPECTED in names else ""
        worst = max(comparison.difference.max_abs for comparison in self.comparisons)
        distance = f"within {_round_up(worst)}" if worst else "exactly"
        return f"PASS: {ways}{expected} {distance}{', which proves little' if self.proves_little else ''}"

    @property
    def covers(self) -> str:
        """What the comparisons say, and what they do not say, in one sentence."""
        if any(comparison.against == EXPECTED for comparison in self.comparisons):
            return "compared: this conversion, prototrt's reading of the net and the expected outputs"
        return Worded(
            "compared: this conversion and prototrt's reading of the net, not the outputs of Caffe or your program:"
            " give them with {}",
            Option("expect", "FILE.npz"),
        )

    def _repr_html_(self) -> str:
        rows = []
        for comparison in self.comparisons:
            numbers = (f"{comparison.difference.max_abs:.2e}", f"{comparison.difference.max_rel:.2e}")
            rows.append(
                (
                    comparison.way,
                    comparison.against,
                    comparison.blob,
                    *numbers,
                    "" if comparison.holds else "differs",
                )
            )
        columns = ("way", "against", "blob", "max abs", "max rel", "")
        return table(self.verdict, columns, rows, self.warnings)

    def as_dict(self) -> dict[str, Any]:
        """For a manifest, and for programs."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "precision": self.precision,
            "tolerance": {"relative": self.tolerance.relative, "absolute": self.tolerance.absolute},
            "calls": self.calls,
            "covers": self.covers,
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "parts": [comparison.as_dict() for comparison in self.parts],
            **({} if self.cost is None else {"quantization": self.cost.as_dict()}),
            "warnings": list(self.warnings),
        }

    def refuse(self) -> None:
        """Raise ``VerificationError`` where a tolerance is broken."""
        if self.holds:
            return
        first, difference = self.parts[0], self.parts[0].difference
        before = first.begun_by
        written = f', which layer "{before.layer}" (line {before.line}) wrote before' if before else ""
        raise VerificationError(
            f"{first.way} and {first.against} diverge here by {difference.max_abs:.3g},"
            f" expected at most {difference.allowed:.3g}",
            origin=first.origin,
            blob=f'blob "{first.blob}"{written}' if first.origin else None,
            because=f"in call {first.call}, {self._why(first)}",
            fix=self._fix(first),
        )

    def _why(self, first: Comparison) -> str:
        """What is wrong with the results, also where the error is no part of the largest magnitude."""
        difference = first.difference
        if not math.isfinite(difference.max_abs):
            return "only one of them has NaN or infinity at some elements"
        if not math.isfinite(difference.max_rel):
            return f"{first.against} is zero everywhere, but {first.way} is not"
        share = f"the error is {100 * difference.max_rel:.3g} % of the largest magnitude"
        if self.tolerance.reason is None:
            return share
        return f"{share}, more than rounding in {self.precision} explains: {self.tolerance.reason}"

    def _fix(self, first: Comparison) -> str:
        if first.against == EXPECTED:
            return Worded(
                "check that the expected outputs were computed with these weights and inputs: preprocessing, cont or"
                " state may differ; to find where it begins, record every blob, and compare with {}",
                Option("outputs", ["all"]),
            )
        if self.tolerance.reason is None:
            return Worded("allow more with {} and {}", Option("atol"), Option("rtol"))
        if self.precision != "fp32":
            return Worded("use {}", Option("precision", "fp32"))
        return "report this net: prototrt, or a library that it uses, computes it wrongly"


def _round_up(number: float) -> str:
    """With one digit, and never less: 2.1e-06 is within 3e-06."""
    unit = 10.0 ** math.floor(math.log10(number))
    return f"{math.ceil(number / unit) * unit:.1g}"

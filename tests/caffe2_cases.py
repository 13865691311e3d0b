"""What real Caffe2 and cuDNN's formulas computed: nets with their inputs and outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt import Form, Precision
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.samples import families_of

GOLDENS = Path(__file__).parent / "goldens"


@dataclass(frozen=True)
class Caffe2Case:
    """One predict net and init net, with arrays by the names of the net's blobs."""

    folder: Path

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"

    def load(self, suffix: str = "pb") -> prototrt.Model:
        return prototrt.load(self.folder / f"predict_net.{suffix}", self.folder / "init_net.pb")

    def rewritten(self, sequence: Form = "auto", suffix: str = "pb", precision: Precision = "fp32") -> Graph:
        return _rewritten(self, sequence, suffix, precision)

    def arrays(self, kind: str) -> dict[str, Array]:
        """``inputs`` or ``outputs``. Those of cuDNN have names of their own in the file."""
        arrays = dict(np.load(self.folder / f"{kind}.npz"))
        names = self._facts().get("caffe2_net")
        if names is None:
            return arrays
        return {blob: arrays[name] for blob, name in names[kind].items()}

    @property
    def operators(self) -> set[str]:
        return set(re.findall(r'type: "(\w+)"', (self.folder / "predict_net.pbtxt").read_text()))

    @property
    def families(self) -> set[str]:
        return families_of(self.operators, "caffe2")

    @property
    def has_one_step(self) -> bool:
        return self._facts().get("T") == 1

    @property
    def is_recurrent(self) -> bool:
        return not self.folder.name.startswith("ff_")

    def check(self, results: Mapping[str, Array]) -> None:
        """Every output within the tolerance that came with the goldens."""
        tolerance = self._facts()["tolerance"]
        for name, wanted in self.arrays("outputs").items():
            assert results[name].shape == wanted.shape, name
            np.testing.assert_allclose(
                results[name], wanted, tolerance["rtol"], tolerance["atol"], err_msg=name
            )

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / "meta.json").read_text())
        return facts


@lru_cache(maxsize=8)  # one case after the other runs in several ways
def _rewritten(case: Caffe2Case, sequence: Form, suffix: str, precision: Precision) -> Graph:
    shapes = {name: array.shape for name, array in case.arrays("inputs").items()}
    return prototrt.rewrite(case.load(suffix), shapes=shapes, sequence=sequence, precision=precision)


def caffe2_cases() -> list[Caffe2Case]:
    folders = [
        path.parent for family in ("caffe2", "cudnn") for path in GOLDENS.glob(f"{family}/*/predict_net.pb")
    ]
    return [Caffe2Case(folder) for folder in sorted(folders)]

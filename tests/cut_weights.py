"""Weights that are cut short while they are mapped, as when they are downloaded again into the same file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prototrt.tests.tools.caffemodel_writer import write

SIZE = 2100
"""Rows and columns of the weights: enough to be mapped, not read."""


@dataclass(frozen=True)
class CutWeights:
    """A net, its weights, a file of rules that cuts these when it runs, and the message that is due."""

    net: Path
    weights: Path
    rules: Path

    @property
    def message(self) -> str:
        return (
            f"{self.weights}: the file changed while it was read\n"
            "  fix: try again when nothing writes to the file"
        )


def cut_short(folder: Path) -> CutWeights:
    net, weights, rules = (folder / f"large.{suffix}" for suffix in ("prototxt", "caffemodel", "py"))
    net.write_text(
        f"""layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: 1 dim: {SIZE} }} }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "fc"
  inner_product_param {{ num_output: {SIZE} bias_term: false }} }}
"""
    )
    write(weights, {"fc": [np.ones((SIZE, SIZE), np.float32)]})
    rules.write_text(f"import os\nos.truncate({str(weights)!r}, 4096)\n")
    return CutWeights(net, weights, rules)

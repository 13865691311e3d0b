"""Measures what each precision costs, as the table of docs/precision.md.

    python -m prototrt.tests.tools.precision_table NAME PROTOTXT WEIGHTS INPUTS.npz [NAME ...]

WEIGHTS are ``-`` for random weights, INPUTS are ``-`` for random numbers from 0 to 1. Half of the calls calibrate, the
other half are compared. Plans are built with TensorRT for RTX, which needs no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import prototrt
from prototrt.converter.calibration.calibration import calibrate
from prototrt.converter.options import CalibrateOptions
from prototrt.converter.sessions.feeds import read_feeds
from prototrt.converter.verification.quantization import Truth
from prototrt.converter.verification.seeded import seeded_feeds
from prototrt.surgery.ir import Array
from prototrt.surgery.options import RewriteOptions

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
RANDOM_CALLS = 8
HEAD = "| net | precision | plan | max abs | RMS | cosine | agreement |\n| --- | --- | --- | --- | --- | --- | --- |"


def rows(name: str, prototxt: str, weights: str, inputs: str) -> Iterator[str]:
    """A row for each precision, of the output that changes most."""
    model = prototrt.load(prototxt, random_weights=1) if weights == "-" else prototrt.load(prototxt, weights)
    full = prototrt.rewrite(model)
    names = [value.name for value in full.inputs if value not in full.state_inputs]
    feeds = seeded_feeds(full, RANDOM_CALLS) if inputs == "-" else read_feeds(inputs, names, None)
    ranges = measured(model, feeds[::2])
    truth = Truth.of(full, feeds[1::2] or feeds)
    for precision in PRECISIONS:
        options = RewriteOptions(precision=precision, ranges=ranges)
        graph = prototrt.rewrite(model, options=options)
        size = prototrt.build(graph, backend="rtx").plan.nbytes
        worst = min(truth.costs(graph), key=lambda cost: (cost.score, -cost.rms))
        agreement = "-" if worst.agreement is None else f"{worst.agreement:.4f}"
        numbers = f"{worst.max_abs:.2g} | {worst.rms:.2g} | {worst.cosine:.5f} | {agreement}"
        yield f"| {name if precision == 'fp32' else ''} | {precision} | {size / 1e6:.1f} MB | {numbers} |"


def measured(model: prototrt.Model, feeds: Sequence[dict[str, Array]]) -> dict[str, float]:
    """The ranges on these calls, by the default method."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        numbered = {
            f"{name}/{call}": array for call, feed in enumerate(feeds) for name, array in feed.items()
        }
        np.savez(file, **numbered)  # type: ignore[arg-type]  # numpy's stub wants flags there
        scales = calibrate(model, CalibrateOptions(inputs=str(file))).scales
    return {name: record.range for name, record in scales.records.items() if record.range}


def main(arguments: Sequence[str]) -> None:
    print(HEAD)
    for start in range(0, len(arguments), 4):
        for row in rows(*arguments[start : start + 4]):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

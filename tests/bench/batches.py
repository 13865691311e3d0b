"""``prototrt batch`` over many small models, by one worker or by several."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from prototrt.tests.bench.measuring import report

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 20 dim: 2 dim: 5 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 20 dim: 2 } } }
layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 7 } }
"""


def main(models: str, jobs: str) -> None:
    from prototrt.cli import main as prototrt

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("net.prototxt").write_text(NET)
        seeds = list(range(int(models)))
        entry = f"- prototxt: net.prototxt\n  backend: rtx\n  matrix: {{random-weights: {seeds}}}\n"
        Path("models.yaml").write_text(f"models:\n{entry}")
        began = time.perf_counter()
        arguments = ["batch", "models.yaml", "-o", "out", "-q", "--jobs", jobs]
        assert prototrt(arguments, prog_name="prototrt", standalone_mode=False) in (None, 0)
        seconds = time.perf_counter() - began
        assert len(list(Path("out").glob("*.plan"))) == len(seeds)
        os.chdir("/")
    report({"seconds": seconds})


if __name__ == "__main__":
    main(*sys.argv[2:])

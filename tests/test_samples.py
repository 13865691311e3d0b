"""The sample does what its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "samples" / "digits"


@pytest.mark.trt
def test_strips_are_read_as_caffe_reads_them() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    result = subprocess.run(
        [sys.executable, DIGITS / "read_strips.py"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    _, *lines = [line.split(maxsplit=3) for line in result.stdout.splitlines()]
    labels = [line.split() for line in (DIGITS / "strips" / "labels.txt").read_text().splitlines()]
    assert [[name, printed] for name, _, printed, *_ in lines] == labels
    assert [line for line in lines if line[1] != line[2]] == [
        ["12.png", "72076185", "7076185", "wrong, and so does Caffe read it"]
    ]

"""The commands as tests call them, and the sample that they are given."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from prototrt.cli import main
from prototrt.tests.fresh_python import ROOT

DIGITS = ROOT / "samples" / "digits"
DEPLOY, WEIGHTS = str(DIGITS / "deploy.prototxt"), str(DIGITS / "digits.caffemodel")
STREAM = str(DIGITS / "deploy_stream.prototxt")


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments), prog_name="prototrt")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def strips() -> Any:
    return np.load(DIGITS / "expected.npz")


def without_measures(text: str) -> str:
    """The size of a plan and the seconds it took depend on TensorRT's version and the machine."""
    text = re.sub(r"(?<=TensorRT for RTX )\d[.\d]*", "#", text)
    return re.sub(r"\d+\.\d (MB|kB|s)\b", r"# \1", text)

"""What an import brings along: reading and rewriting need no TensorRT, the commands' help needs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def imported_by(*modules: str) -> set[str]:
    """The modules in a fresh interpreter after it imported these, by the first part of their names."""
    code = f"import {', '.join(modules)}, sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("modules", "strangers"),
    [
        (["prototrt"], {"numpy", "google", "click"}),
        (["prototrt.cli"], {"numpy", "google", "tensorrt_rtx", "rich"}),
        (["prototrt.caffe_proto"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.surgery.pipeline"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.converter.session"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.converter.tensorrt.builder"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else "",
)
def test_import_leaves_alone(modules: list[str], strangers: set[str]) -> None:
    assert imported_by(*modules) & strangers == set()

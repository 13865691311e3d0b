"""What ``convert`` reports at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt import BackendName, BuildOptions
from prototrt.converter.conversion import Converted
from prototrt.converter.front.commandline.summaries import conversion_report
from prototrt.converter.product import Product
from prototrt.tests.small_nets import inputs_of, loaded, op

RTX = {"flavour": "rtx", "version": "1.7.1.116"}
A10 = {
    "flavour": "enterprise",
    "version": "10.13.0",
    "gpu": {"name": "NVIDIA A10", "compute_capability": "8.6"},
}


@pytest.mark.parametrize(
    ("backend", "tensorrt", "told"),
    [
        (
            "auto",
            RTX,
            """\
runs on  TensorRT for RTX 1.7.1.116: GeForce and RTX GPUs of compute capability 8.0, 8.6, 8.9, 12.0 and newer
backend  auto chose rtx; where TensorRT itself can build, it chooses enterprise (--backend rtx: always rtx)""",
        ),
        (
            "rtx",
            RTX,
            "runs on  TensorRT for RTX 1.7.1.116: GeForce and RTX GPUs of compute capability 8.0, 8.6, 8.9, 12.0 and"
            " newer",
        ),
        (
            "auto",
            A10,
            """\
runs on  TensorRT 10.13.0: NVIDIA A10, the kind of GPU that it was built on
backend  auto chose enterprise; where TensorRT itself cannot build, it chooses rtx (--backend enterprise:\
 never rtx)""",
        ),
        (
            "enterprise",
            {"flavour": "enterprise", "version": "10.13.0"},
            "runs on  TensorRT 10.13.0: the kind of GPU that it was built on",
        ),
    ],
)
def test_the_summary_says_what_runs_the_engine(
    tmp_path: Path, backend: BackendName, tensorrt: dict[str, Any], told: str
) -> None:
    model = loaded(tmp_path, inputs_of({"x": (1, 4)}) + op("ReLU"))
    manifest = {
        "nodes": 1,
        "layers": 1,
        "precision": "fp32",
        "tensorrt": tensorrt,
        "plan": {"build_seconds": 0.2},
    }
    product = Product(file="net.plan", building=BuildOptions(backend))
    conversion = conversion_report(Converted(model, prototrt.rewrite(model), product, manifest, 0.3))
    runs_on, _, *lines, _ = conversion.summary
    assert "\n".join([runs_on, *lines]) == told
    assert conversion.as_dict()["runs_on"] == told.splitlines()[0].removeprefix("runs on  ")

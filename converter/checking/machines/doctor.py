"""What is installed on this machine, and what can be built and run with it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.backends.driver import INSTALL_A_DRIVER, NO_DRIVER, Driver, Gpu, find_driver
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.checking.machines.gpu_support import BACKEND_NAMES, can_run, refusal_of_driver
from prototrt.converter.checking.machines.targets import PROGRAM
from prototrt.converter.options import BackendName
from prototrt.converter.running.runtime.devices import find_device

PACKAGES = {
    "numpy": "",
    "protobuf": "",
    "tensorrt-rtx": "engines for GeForce and RTX GPUs",
    "tensorrt": "engines for data centre GPUs: extra enterprise",
    "cuda-python": "running engines: extra gpu",
    "pycuda": "running engines, instead of cuda-python: extra pycuda",
    "onnx": "ONNX models: extra onnx",
    "onnxruntime": "running and checking ONNX models: extra onnx",
    "h5py": "weights in HDF5: extra hdf5",
    "Jinja2": "pages that show a net: extra html",
    "Pillow": "images as inputs, and drawing boxes: extra samples",
    "PyYAML": "lists of models: extra batch",
    "torch": "running PyTorch modules: extra torch",
    "safetensors": "running PyTorch modules: extra torch",
    "Graphviz": "pictures in SVG, PNG and PDF: a program of the system",
}
"""By name, what a package or program is for."""
_SAME_MODULE = {"cuda-python": "cuda-bindings", "onnxruntime": "onnxruntime-gpu"}
"""Packages by which another one's module may be there, too."""
NO_GPU = "the driver finds no GPU"


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that a user may want to do here. ``verdict`` is "yes", "no" or "untried"."""

    what: str
    verdict: str
    reason: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Versions by package, None where it is not installed; ``driver`` is the CUDA that it knows."""

    python: str
    packages: dict[str, str | None]
    driver: str | None
    gpus: tuple[Gpu, ...]
    abilities: tuple[Ability, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def diagnose() -> Diagnosis:
    """Look at everything once. Runs nothing on a GPU."""
    driver = find_driver()
    abilities = (
        *(_build_ability(backend, name, driver) for backend, name in BACKEND_NAMES.items()),
        *(
            ability
            for backend, name in BACKEND_NAMES.items()
            for ability in _run_abilities(backend, name, driver)
        ),
    )
    return Diagnosis(
        f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        {"prototrt": __version__, **{name: _version(name) for name in PACKAGES}},
        f"CUDA {driver.cuda}" if driver else None,
        driver.gpus if driver else (),
        abilities,
    )


def _version(package: str) -> str | None:
    if package == "Graphviz":
        return shutil.which("dot")
    for name in (package, _SAME_MODULE.get(package)):
        with suppress(metadata.PackageNotFoundError):
            return f"{metadata.version(name)}{'' if name == package else f' ({name})'}" if name else None
    return None


def _build_ability(backend: BackendName, name: str, driver: Driver | None) -> Ability:
    """Whether plans can be built. Nothing that could be installed helps TensorRT itself where there is no GPU."""
    check = _try(f"build with {name}", partial(_build, backend))
    if check.verdict == "yes" or backend == "rtx" or (driver and driver.gpus):
        return check
    reason = f"it builds only where it finds a GPU, and {NO_DRIVER if driver is None else NO_GPU}"
    return Ability(
        check.what,
        "no",
        reason,
        Worded(
            "`{}` with {} needs none; `{}` writes a program that builds elsewhere",
            Command("convert"),
            Option("backend", "rtx"),
            Command("convert", typed=("--target", PROGRAM)),
        ),
    )


def _build(name: BackendName) -> None:
    backend = find_backend(name)
    backend.builder(backend.trt.Logger(backend.trt.Logger.INTERNAL_ERROR))


def _try(what: str, attempt: Callable[[], object]) -> Ability:
    try:
        attempt()
    except ConversionError as error:
        return Ability(what, "no", error.problem, error.fix)
    return Ability(what, "yes")


def _run_abilities(backend: BackendName, name: str, driver: Driver | None) -> list[Ability]:
    """Everything that running a plan needs, first things first; then each GPU."""
    what = f"run plans of {name}"
    if driver is None:
        return [Ability(what, "no", NO_DRIVER, INSTALL_A_DRIVER)]
    if not driver.gpus:
        return [Ability(what, "no", NO_GPU, "check whether nvidia-smi lists one")]
    check = _try(what, lambda: (find_backend(backend), find_device()))
    if check.verdict == "no":
        return [check]
    too_old = refusal_of_driver(backend, driver.cuda)
    if too_old is not None:
        return [Ability(what, too_old.answer, too_old.reason, too_old.fix)]
    release = find_backend(backend).version
    verdicts = [can_run(backend, release, gpu) for gpu in driver.gpus]
    return [
        Ability(f"{what} on GPU {number}, {gpu.name}", verdict.answer, verdict.reason, verdict.fix)
        for number, (gpu, verdict) in enumerate(zip(driver.gpus, verdicts, strict=True))
    ]

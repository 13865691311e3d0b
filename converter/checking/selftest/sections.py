"""What is tried, in sections: each has a table, a process of its own, and a share of the time."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.converter.backends.onnx.evaluator import RTX_PLUGIN, rtx_devices
from prototrt.converter.checking.machines.doctor import Ability, diagnose
from prototrt.converter.checking.selftest import engines, goldens, speed
from prototrt.converter.checking.selftest.engines import engine_session
from prototrt.converter.checking.selftest.gpu import clocks, torch_with_gpu
from prototrt.converter.checking.selftest.isolation import serve
from prototrt.converter.checking.selftest.nets import lstm_graph
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.converter.options import SectionName, Way
from prototrt.converter.running.processes import end_with, python_command
from prototrt.converter.running.sessions.session import Session

GPU = "GPU"
"""Begins the names of the rows about GPUs in the section ``machine``."""
CHECK = ("check", "verdict", "")


@dataclass(frozen=True)
class Section:
    """Checks that share a process and a table. ``checks`` gets the folder of goldens."""

    purpose: str
    checks: Callable[[Path], Iterator[Check]]
    columns: Sequence[str] = CHECK
    needs_engine: bool = True


def machine() -> Iterator[Check]:
    """Versions, GPUs, clocks, and what ``doctor`` says; none of it names the machine or its user."""
    diagnosis = diagnose()
    facts = {"python": diagnosis.python, "driver": diagnosis.driver, **diagnosis.packages}
    if diagnosis.gpus:
        facts["clocks"] = clocks()
    for number, gpu in enumerate(diagnosis.gpus):
        facts[f"{GPU} {number}"] = f"{gpu.name}, compute capability {gpu.capability}, {gpu.memory >> 20} MiB"
    for name, fact in facts.items():
        yield Check(name, lambda fact=fact: _present(fact))  # type: ignore[misc]  # mypy does not infer it
    for ability in diagnosis.abilities:
        yield Check(ability.what, lambda ability=ability: _possible(ability))  # type: ignore[misc]  # as above


def _present(fact: str | None) -> str:
    if fact is None:
        raise NotHereError("not installed")
    return fact


def _possible(ability: Ability) -> str:
    if ability.verdict != "yes":
        raise NotHereError(str(ability.reason))
    return "yes"


def _in_onnxruntime(folder: Path) -> Iterator[Check]:
    yield from _with_packages(("onnx", "onnxruntime"), folder, "onnx", _onnxruntime_with_gpu)
    if find_spec(RTX_PLUGIN) is not None:
        yield Check("an LSTM of 8 steps, fp16, by the plugin for TensorRT for RTX", _by_rtx_plugin)


def _by_rtx_plugin() -> str:
    try:
        rtx_devices()
    except BuildError as error:
        raise NotHereError(str(error.because)) from error
    graph = lstm_graph(replace(engines.SIZE, steps=8), "loop", "fp16")
    return engines.follow(Session(graph, on="onnx", device="rtx"), graph, "fp16")


def _onnxruntime_with_gpu() -> bool:
    return "CUDAExecutionProvider" in importlib.import_module("onnxruntime").get_available_providers()


def _in_torch(folder: Path) -> Iterator[Check]:
    return _with_packages(("torch", "safetensors"), folder, "torch", lambda: torch_with_gpu() is not None)


def _with_packages(
    packages: Sequence[str], folder: Path, way: Way, has_gpu: Callable[[], bool]
) -> Iterator[Check]:
    """Every net, on the GPU if the packages can use one. They may be missing."""
    missing = next((name for name in packages if find_spec(name) is None), None)
    if missing is not None:
        yield Check("every net", partial(_refuse, f"{missing} is not installed"))
        return
    place = "cuda" if has_gpu() else "cpu"
    for check in goldens.checks_of_goldens(folder, partial(Session, on=way, device=place)):
        yield replace(check, what=f"{check.what}, {place}")


def _refuse(reason: str) -> str:
    raise NotHereError(reason)


SECTIONS: dict[SectionName, Section] = {
    "machine": Section(
        "look at what is installed, and what it can do", lambda _: machine(), needs_engine=False
    ),
    "backends": Section(
        "build an LSTM with each TensorRT that is installed, and run it", lambda _: engines.backends()
    ),
    "goldens": Section(
        "run nets of every family as engines, and compare with Caffe's numbers",
        lambda folder: goldens.goldens(folder, engine_session),
    ),
    "speed": Section(
        "time LSTM engines beside cuDNN",
        lambda _: speed.timings(engine_session),
        speed.COLUMNS,
    ),
    "torch": Section(
        "run every net as a PyTorch module, on the GPU if PyTorch uses it, and compare with Caffe's numbers",
        _in_torch,
        needs_engine=False,
    ),
    "builds": Section(
        "build an engine of every net with TensorRT for RTX",
        lambda folder: goldens.builds(folder, engines.build_size),
        needs_engine=False,
    ),
    "reference": Section(
        "compute every net with NumPy, and compare with Caffe's numbers",
        lambda folder: goldens.checks_of_goldens(folder, partial(Session)),
        needs_engine=False,
    ),
    "onnxruntime": Section(
        "run every net as an ONNX model, on the GPU if onnxruntime uses it, and compare with Caffe's numbers",
        _in_onnxruntime,
        needs_engine=False,
    ),
}


def command_of(name: SectionName, folder: Path) -> list[str]:
    """What serves the checks of a section behind a number of them, which is its last argument."""
    code = f"from {__name__} import main; main(*sys.argv[1:])"
    return python_command(code, str(os.getpid()), name, str(folder))


def main(parent: str, name: SectionName, folder: str, skip: str) -> None:
    """Serve the checks of a section."""
    end_with(int(parent))
    serve(SECTIONS[name].checks(Path(folder)), int(skip))

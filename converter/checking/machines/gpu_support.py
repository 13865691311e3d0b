"""Which GPUs and drivers each release of TensorRT can use, by the table of machines.

A build against CUDA N needs a driver that knows CUDA N.0: https://docs.nvidia.com/deploy/cuda-compatibility.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.driver import Gpu
from prototrt.converter.builder_options import STRONGLY_TYPED_SINCE
from prototrt.converter.files.machines import (
    CAPABILITIES,
    RELEASES,
    ReleaseRange,
    Version,
    find_machine,
    releases_of,
    version,
    version_text,
)
from prototrt.converter.options import BackendName

_CUDA_MAJORS = range(11, 20)
_ENTERPRISE = Worded("use TensorRT itself: {}", Option("backend", "enterprise"))

_NEWER = "install a newer TensorRT: pip install --upgrade tensorrt"

BACKEND_NAMES: Mapping[BackendName, str] = {"rtx": "TensorRT for RTX", "enterprise": "TensorRT"}


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """``answer`` is "yes", "no" or "untried"."""

    answer: str
    reason: str | None = None
    fix: str | None = None


def can_run(backend: BackendName, release: str, gpu: Gpu) -> GpuVerdict:
    """Whether plans of this release, built with its defaults, run on this GPU."""
    support, number = _support(backend, version(release)), version(gpu.capability)
    needs = CAPABILITIES[number].since if number in CAPABILITIES else None
    if number < support.oldest:
        return GpuVerdict(
            "no",
            f"its plans need compute capability {version_text(support.oldest)} or newer, this GPU has {gpu.capability}",
            _older_release(gpu),
        )
    if backend == "enterprise" and needs is not None and version(release) < needs:
        reason = f"GPUs of compute capability {gpu.capability} need TensorRT {version_text(needs)} or newer"
        return GpuVerdict("no", reason, _NEWER)
    if support.newest is not None and number > support.newest:
        return GpuVerdict(
            "no",
            f"release {release} supports up to compute capability {version_text(support.newest)},"
            f" this GPU has {gpu.capability}",
            _NEWER,
        )
    if support.refuses and number not in support.named and number < support.named[-1]:
        return GpuVerdict(
            "no",
            f"its plans run on compute capability {_name(support)}, this GPU has {gpu.capability}",
            _ENTERPRISE,
        )
    if support.named and not support.refuses and number not in support.named:
        return GpuVerdict(
            "untried", f"NVIDIA's support matrix does not list GPUs of compute capability {gpu.capability}"
        )
    return GpuVerdict("yes")


def _older_release(gpu: Gpu) -> str:
    """What helps a GPU that is too old for a release."""
    served, machine = releases_of(version(gpu.capability)), find_machine(gpu.name)
    if served and served[-1].last is None:
        return _ENTERPRISE
    if served and served[-1].since >= STRONGLY_TYPED_SINCE:
        last = version_text(served[-1].last or served[-1].since)
        return f"use a newer GPU, or TensorRT up to {last}"
    if served and machine is not None:
        return Worded(
            "use a newer GPU, or write a model for its old TensorRT with {}",
            Option("target", machine.words[0]),
        )
    return "use a newer GPU"


def _name(support: ReleaseRange) -> str:
    return (
        f"{', '.join(map(version_text, support.named if support.refuses else (support.oldest,)))} and newer"
    )


def where_it_runs(tensorrt: Mapping[str, Any]) -> str:
    """The TensorRT and the GPUs that run a plan, from the ``tensorrt`` of its manifest.

    Source for plans of TensorRT itself: ``tensorrt/latest/inference-library/advanced.html``, *Hardware Compatibility*.
    """
    backend, release = tensorrt["flavour"], tensorrt["version"]
    if backend == "rtx":
        chosen = tensorrt.get("compute_capabilities")
        which = ", ".join(chosen) if chosen else _name(_support(backend, version(release)))
        gpus = f"GeForce and RTX GPUs of compute capability {which}"
    elif tensorrt.get("hardware_compatibility_level") == "ampere+":
        gpus = "GPUs of compute capability 8.0 and newer"
    elif tensorrt.get("hardware_compatibility_level") and "gpu" in tensorrt:
        gpus = f"GPUs of compute capability {tensorrt['gpu']['compute_capability']}"
    elif "gpu" in tensorrt:
        gpus = f"{tensorrt['gpu']['name']}, the kind of GPU that it was built on"
    else:
        gpus = "the kind of GPU that it was built on"
    return f"{BACKEND_NAMES[backend]} {release}: {gpus}"


def refusal_of_driver(backend: BackendName, knows: str) -> GpuVerdict | None:
    """Why a driver that knows this CUDA is too old for the TensorRT that is installed; None if it is not."""
    needed = _cuda_of(backend)
    if needed is None or version(knows)[0] >= needed:
        return None
    return GpuVerdict(
        "no",
        f"it is built with CUDA {needed}, and the driver supports CUDA {knows}",
        f"install a driver for CUDA {needed}: https://www.nvidia.com/drivers",
    )


def _cuda_of(backend: BackendName) -> int | None:
    """The CUDA version that TensorRT's packages are built with, from their names; None for other installations."""
    stem = {"rtx": "tensorrt-rtx", "enterprise": "tensorrt"}[backend]
    return next((major for major in _CUDA_MAJORS if _is_installed(f"{stem}-cu{major}")), None)


def _is_installed(package: str) -> bool:
    from importlib import metadata  # of which few commands ask

    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _support(backend: BackendName, release: Version) -> ReleaseRange:
    rows = RELEASES[backend]
    return next((row for row in reversed(rows) if row.since <= release), rows[0])

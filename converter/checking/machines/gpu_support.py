"""Which GPUs and drivers each release of TensorRT can use, from what NVIDIA has published.

Sources, below https://docs.nvidia.com/deeplearning/:
``tensorrt-rtx/latest/getting-started/support-matrix-1/1.0.html`` to ``1.5.html`` (plans are portable across 8.6, 8.9
and 12.0, and leave Turing out; 12.1 from 1.5 on), ``tensorrt/latest/getting-started/release-notes-10/10.0.1.html``
(Volta is deprecated), ``10.5.0.html`` (Volta is gone), ``10.8.0.html`` (Blackwell). A build against CUDA N needs a
driver that knows CUDA N.0: https://docs.nvidia.com/deploy/cuda-compatibility. TensorRT for RTX 1.7.1 on an H200 (9.0)
refused its own plans, and listed what they run on: 8.0, 8.6, 8.9, 12.0, 12.1, above 12.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.driver import Gpu
from prototrt.converter.options import BackendName

Version: TypeAlias = tuple[int, int]
_CUDA_MAJORS = range(11, 20)
_ENTERPRISE = Worded("use TensorRT itself: {}", Option("backend", "enterprise"))

BACKEND_NAMES: Mapping[BackendName, str] = {"rtx": "TensorRT for RTX", "enterprise": "TensorRT"}


@dataclass(frozen=True, slots=True)
class GpuRange:
    """Compute capabilities on which plans run, from a release on. None means no upper limit.

    Between the ``named`` ones, plans ``refuse`` to run, or nobody knows; newer ones than the last may run them.
    """

    since: Version
    oldest: Version
    named: tuple[Version, ...] | None
    newest: Version | None = None
    refuse: bool = False

    @property
    def text(self) -> str:
        named = self.named if self.named and self.refuse else (self.oldest,)
        return f"{', '.join(map(_dotted, named))} and newer"


_SUPPORT: dict[BackendName, tuple[GpuRange, ...]] = {
    "rtx": (
        GpuRange((1, 0), oldest=(8, 0), named=((8, 6), (8, 9), (12, 0))),
        GpuRange((1, 5), oldest=(8, 0), named=((8, 6), (8, 9), (12, 0), (12, 1))),
        GpuRange((1, 7), oldest=(8, 0), named=((8, 0), (8, 6), (8, 9), (12, 0)), refuse=True),
    ),
    "enterprise": (
        GpuRange((10, 0), oldest=(7, 0), named=None, newest=(9, 0)),
        GpuRange((10, 5), oldest=(7, 5), named=None, newest=(9, 0)),
        GpuRange((10, 8), oldest=(7, 5), named=None),
    ),
}


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """``answer`` is "yes", "no" or "untried"."""

    answer: str
    reason: str | None = None
    fix: str | None = None


def can_run(backend: BackendName, release: str, gpu: Gpu) -> GpuVerdict:
    """Whether plans of this release, built with its defaults, run on this GPU."""
    support = _support(backend, _version(release))
    version = _version(gpu.capability)
    if version < support.oldest:
        fix = (
            _ENTERPRISE
            if backend == "rtx" and version >= _SUPPORT["enterprise"][-1].oldest
            else "use a newer GPU"
        )
        return GpuVerdict(
            "no",
            f"its plans need compute capability {_dotted(support.oldest)} or newer, this GPU has {gpu.capability}",
            fix,
        )
    if support.newest is not None and version > support.newest:
        return GpuVerdict(
            "no",
            f"release {release} supports up to compute capability {_dotted(support.newest)},"
            f" this GPU has {gpu.capability}",
            "install a newer TensorRT: pip install --upgrade tensorrt",
        )
    if support.named and support.refuse and version not in support.named and version < support.named[-1]:
        return GpuVerdict(
            "no",
            f"its plans run on compute capability {support.text}, this GPU has {gpu.capability}",
            _ENTERPRISE,
        )
    if support.named and not support.refuse and version not in support.named:
        return GpuVerdict(
            "untried", f"NVIDIA's support matrix does not list GPUs of compute capability {gpu.capability}"
        )
    return GpuVerdict("yes")


def where_it_runs(tensorrt: Mapping[str, Any]) -> str:
    """The TensorRT and the GPUs that run a plan, from the ``tensorrt`` of its manifest.

    Source for plans of TensorRT itself: ``tensorrt/latest/inference-library/advanced.html``, *Hardware Compatibility*.
    """
    backend, release = tensorrt["flavour"], tensorrt["version"]
    if backend == "rtx":
        chosen = tensorrt.get("compute_capabilities")
        which = ", ".join(chosen) if chosen else _support(backend, _version(release)).text
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
    if needed is None or _version(knows)[0] >= needed:
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


def _support(backend: BackendName, release: Version) -> GpuRange:
    rows = _SUPPORT[backend]
    return next((row for row in reversed(rows) if row.since <= release), rows[0])


def _version(text: str) -> Version:
    major, minor, *_ = (*text.split("."), "0")
    return int(major), int(minor)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"

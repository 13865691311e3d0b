"""NVIDIA's driver, asked directly: it knows the GPUs, whatever Python packages are installed."""

from __future__ import annotations

import ctypes
from typing import Any

from prototrt.caffe_proto.common.records import dataclass
from prototrt.plugins.libcuda import load_libcuda

NO_DRIVER = "there is no NVIDIA driver"
INSTALL_A_DRIVER = "install one: https://www.nvidia.com/drivers"
INSTALL_OR_USE_CPU = f"{INSTALL_A_DRIVER}; on a machine without a GPU, run the net instead of the engine"

_NAME_BYTES = 256
_MAJOR, _MINOR = 75, 76
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` and ``_MINOR``."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """``memory`` is in bytes."""

    name: str
    capability: str
    memory: int


@dataclass(frozen=True, slots=True)
class Driver:
    """The newest CUDA that the driver knows, and the GPUs that it lets us use."""

    cuda: str
    gpus: tuple[Gpu, ...]


def find_driver() -> Driver | None:
    """The driver of this machine; None where there is none."""
    try:
        cuda = load_libcuda()
    except OSError:
        return None
    version = _number(cuda.cuDriverGetVersion)
    usable = cuda.cuInit(0) == 0
    count = _number(cuda.cuDeviceGetCount) if usable else 0
    return Driver(
        f"{version // 1000}.{version % 1000 // 10}", tuple(_gpu(cuda, index) for index in range(count))
    )


def _gpu(cuda: Any, index: int) -> Gpu:
    device = _number(cuda.cuDeviceGet, index)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    cuda.cuDeviceGetName(name, _NAME_BYTES, device)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    major, minor = (_number(cuda.cuDeviceGetAttribute, attribute, device) for attribute in (_MAJOR, _MINOR))
    return Gpu(name.value.decode(errors="replace"), f"{major}.{minor}", memory.value)


def _number(call: Any, *arguments: int) -> int:
    """A number that a function of the driver writes; 0 where it fails."""
    number = ctypes.c_int()
    status = call(ctypes.byref(number), *arguments)
    return number.value if status == 0 else 0

"""Our own arrays on a GPU, which a session takes like those of any library."""

from __future__ import annotations

from typing import Any

from prototrt.converter.running.runtime.memory import Memory
from prototrt.surgery.ir import Array


class Resident:
    """A copy of an array on the GPU, in memory that ``memory`` frees."""

    def __init__(self, memory: Memory, array: Array, stream: int) -> None:
        self.address = memory.allocate(array.nbytes)
        memory.device.upload(self.address, array, stream)
        memory.device.synchronize(stream)
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.address, False),
            "stream": None,  # it is there already
            "version": 3,
        }

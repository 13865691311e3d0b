"""The Tile kernel: its PTX, and how many threads it takes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from prototrt.caffe_proto.common.records import dataclass

NAMESPACE, NAME, VERSION = "prototrt", "Tile", "1"
"""What TensorRT knows the plugin by."""

BLOCK = 256
"""Threads that run together."""
_BYTES_PER_THREAD = 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry of the PTX: elements are moved unchanged, so only their width matters."""

    name: str
    element_size: int

    @property
    def elements_per_block(self) -> int:
        return BLOCK * _BYTES_PER_THREAD // self.element_size


KERNELS = {
    "FLOAT": Kernel("prototrt_tile_32", 4),
    "HALF": Kernel("prototrt_tile_16", 2),
    "BF16": Kernel("prototrt_tile_16", 2),
    "INT32": Kernel("prototrt_tile_32", 4),
}
"""By TensorRT's name of the element type."""


@cache
def ptx() -> str:
    """The text that the driver compiles for the GPU at hand; ``make ptx`` makes it from tile.cu."""
    return (files(__package__) / "tile.ptx").read_text(encoding="ascii")

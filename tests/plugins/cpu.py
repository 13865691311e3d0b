"""The Tile kernel compiled for the CPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from prototrt.surgery.ir import Array

TILE = Path(__file__).parents[2] / "plugins" / "tile"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# A GPU refuses an address that is not aligned, a CPU may not: the program stops there.
TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


@cache
def library() -> str:
    """A shared library with every thread of the kernel, and with a CUDA driver that knows nothing else."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler: cc")
    target = Path(tempfile.mkdtemp(prefix="prototrt-")) / "tile_on_cpu.so"
    source = Path(__file__).with_name("tile_on_cpu.c")
    options = ["-std=c99", "-O1", *WARNINGS, *TRAPS, f"-I{TILE}", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(target), str(source)], check=True)
    return str(target)


@cache
def loaded() -> ctypes.CDLL:
    return ctypes.CDLL(library())


def buffer(elements: int, dtype: str, offset: int = 0) -> Array:
    """Memory for elements that begins this many elements after a multiple of 16."""
    memory = np.zeros(elements + offset + 16, dtype)
    first = -memory.ctypes.data % 16 // memory.itemsize + offset
    return memory[first : first + elements]


def address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)

"""Starting the kernel, on a CUDA driver that runs it on the CPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.plugins.tile.kernel import KERNELS, Kernel
from prototrt.plugins.tile.launcher import TileLauncher
from prototrt.surgery.ir import Array
from prototrt.tests.plugins.cpu import buffer, library, loaded

STREAM = 0x57
"""The one stream that the driver knows."""


def tiled(launcher: TileLauncher, x: Array, axis: int, copies: int, kernel: Kernel) -> Array:
    y = buffer(x.size * copies, x.dtype.name)
    inner = int(np.prod(x.shape[axis:]))
    launcher.tile(kernel, x.ctypes.data, inner, copies, y.size, y.ctypes.data, stream=STREAM)
    return y


@pytest.mark.parametrize("size", [1, 2, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize(("type_name", "dtype"), [("FLOAT", "float32"), ("HALF", "float16")])
def test_every_block_is_launched(size: int, type_name: str, dtype: str) -> None:
    x = buffer(2 * size, dtype).reshape(2, size)
    x[:] = np.arange(2 * size).reshape(2, size) % 1009
    y = tiled(TileLauncher(library()), x, 1, 3, KERNELS[type_name])
    np.testing.assert_array_equal(y.reshape(2, 3 * size), np.tile(x, (1, 3)))


def test_of_nothing_nothing_is_launched() -> None:
    """CUDA refuses a grid of no blocks."""
    x = buffer(0, "float32").reshape(2, 0)
    assert tiled(TileLauncher(library()), x, 1, 3, KERNELS["FLOAT"]).size == 0


def test_the_kernel_is_loaded_once_a_context() -> None:
    launcher, x = TileLauncher(library()), buffer(4, "int32")
    before = ctypes.c_int.in_dll(loaded(), "loads").value
    for _ in range(3):
        tiled(launcher, x, 0, 2, KERNELS["INT32"])
    assert ctypes.c_int.in_dll(loaded(), "loads").value == before + 1


def test_what_the_driver_refuses_is_said() -> None:
    with pytest.raises(BuildError) as caught:
        tiled(TileLauncher(library()), buffer(4, "int32"), 0, 2, Kernel("prototrt_tile_8", 1))
    assert (
        str(caught.value)
        == "the Tile plugin: cuModuleGetFunction failed with error 500: named symbol not found"
    )


def test_no_driver() -> None:
    with pytest.raises(BuildError) as caught:
        TileLauncher("libnowhere.so.1")
    assert str(caught.value) == (
        "the Tile plugin needs the CUDA driver, which cannot be loaded: libnowhere.so.1: cannot open shared"
        " object file: No such file or directory\n"
        '  fix: install NVIDIA\'s driver, or use tile="broadcast", which needs no plugin'
    )

"""The Tile kernel by itself on a GPU, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from prototrt.converter.backends.driver import find_driver
from prototrt.plugins.tile.kernel import KERNELS
from prototrt.plugins.tile.launcher import launcher

TYPES = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32}


@pytest.mark.gpu
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("shape", "axis", "copies"),
    [((5, 7, 1), 2, 256), ((3, 5), 0, 4), ((2, 33, 3), 1, 7), ((8,), 0, 1)],
)
def test_tile(kind: str, shape: tuple[int, ...], axis: int, copies: int) -> None:
    if (driver := find_driver()) is None or not driver.gpus:
        pytest.skip("there is no GPU")
    pytest.importorskip("cuda.bindings", reason="needs cuda-python")
    from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice

    device = CudaPythonDevice()
    stream = device.create_stream()
    array = np.random.default_rng(1).integers(0, 1000, shape).astype(TYPES[kind])
    expected = np.concatenate([array] * copies, axis)
    result = np.empty_like(expected)
    x, y = (device.allocate(each.nbytes) for each in (array, expected))
    device.upload(x, array, stream)
    launcher().tile(KERNELS[kind], x, prod(shape[axis:]), copies, expected.size, y, stream=stream)
    device.download(result, y, stream)
    device.synchronize(stream)
    device.destroy_stream(stream)
    np.testing.assert_array_equal(result, expected)

"""The kernel of the Tile plugin, started by itself, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.converter.checking.selftest.timing import residents
from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice
from prototrt.plugins.tile.kernel import KERNELS
from prototrt.plugins.tile.launcher import launcher

_TYPES = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32}
_SHAPES = (((5, 7, 1), 2, 256), ((3, 5), 0, 4), ((2, 33, 3), 1, 7), ((8,), 0, 1))
"""Shape, axis, copies."""


def kernels() -> Iterator[Check]:
    for kind in _TYPES:
        for shape, axis, copies in _SHAPES:
            what = f"Tile kernel, {kind} {shape}, axis {axis}, {copies} copies"
            yield Check(what, tiled(kind, shape, axis, copies))


def tiled(kind: str, shape: tuple[int, ...], axis: int, copies: int) -> Callable[[], str]:
    def attempt() -> str:
        device, launcher = CudaPythonDevice(), tile_launcher()
        stream = device.create_stream()
        array = np.random.default_rng(1).integers(0, 1000, shape).astype(_TYPES[kind])
        expected: Any = np.concatenate([array] * copies, axis)
        inner, result = int(np.prod(shape[axis:])), np.empty_like(expected)
        with residents(device, stream, {"x": array, "y": np.zeros_like(expected)}) as there:
            x, y = there["x"].address, there["y"].address
            launcher.tile(KERNELS[kind], x, inner, copies, expected.size, y, stream=stream)
            device.download(result, y, stream)
            device.synchronize(stream)
        device.destroy_stream(stream)
        np.testing.assert_array_equal(result, expected)
        return "the same"

    return attempt


def tile_launcher() -> Any:
    try:
        return launcher()
    except BuildError as error:
        raise NotHereError(error.problem) from error

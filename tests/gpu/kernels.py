"""The kernel of the Tile plugin, started by itself, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import BuildError
from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.runtime.memory import Memory
from prototrt.converter.runtime.resident import Resident
from prototrt.plugins.tile.kernel import KERNELS
from prototrt.plugins.tile.launcher import launcher
from prototrt.tests.gpu.rows import Check, NotHereError

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
        device = CudaPythonDevice()
        stream = device.create_stream()
        array = np.random.default_rng(1).integers(0, 1000, shape).astype(_TYPES[kind])
        wanted: Any = np.concatenate([array] * copies, axis)
        memory = Memory(device)
        x, y = Resident(memory, array, stream), Resident(memory, np.zeros_like(wanted), stream)
        inner = int(np.prod(shape[axis:]))
        tile_launcher().tile(KERNELS[kind], x.address, inner, copies, wanted.size, y.address, stream=stream)
        found = np.empty_like(wanted)
        device.download(found, y.address, stream)
        device.synchronize(stream)
        memory.close(stream)
        np.testing.assert_array_equal(found, wanted)
        return "the same"

    return attempt


def tile_launcher() -> Any:
    try:
        return launcher()
    except BuildError as error:
        raise NotHereError(error.problem) from error

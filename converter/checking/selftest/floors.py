"""The speed of this GPU without TensorRT: launches and copies; and, with PyTorch, cuDNN's LSTM and steps of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from prototrt.converter.checking.selftest.kernels import tile_launcher
from prototrt.converter.checking.selftest.nets import Size
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.converter.checking.selftest.speed import SPREAD, spread_cells
from prototrt.converter.checking.selftest.timing import (
    Spread,
    Stopwatch,
    clocks,
    copy_spread,
    residents,
    torch_spread,
    torch_with_gpu,
    watched,
)
from prototrt.plugins.tile.kernel import KERNELS

COLUMNS = ("", "", *SPREAD)
HIDDEN = 256
STEPS = (1, 16, 128)
KERNELS_OF_A_STEP = (3, 4, 6)
_DTYPES = ("float32", "float16")
_SMALL = 32
"""Numbers that the smallest kernel copies: what is timed is its launch."""
_TILED = ((16, 1, 4096), 1, 16)
"""Shape, axis, copies: the results have four megabytes of float32."""

Watch = Callable[[], Stopwatch]


def floors(watch: Watch) -> Iterator[Check]:
    once = cache(watch)
    yield Check("clocks before", clocks)
    yield Check("a launch of one small kernel", lambda: spread_cells(_launch(once())))
    yield Check("a copy of 256 MiB within the GPU", lambda: spread_cells(copy_spread(once())))
    for steps in STEPS:
        for dtype in _DTYPES:
            for graphed in (False, True):
                what = f"cuDNN's LSTM, H {HIDDEN}, T {steps}, N 1, {dtype}, {'CUDA graph' if graphed else 'eager'}"
                yield Check(what, _timed(once, _cudnn(Size(HIDDEN, steps, 1), dtype, graphed)))
    for kernels in KERNELS_OF_A_STEP:
        yield Check(f"a step of {kernels} kernels, CUDA graph", _timed(once, _step(kernels)))
    for dtype in _DTYPES:
        yield Check(f"torch.tile, {dtype}", _timed(once, _torch_tile(dtype)))
        yield Check(f"our Tile kernel, {dtype}", _timed(once, _our_tile(dtype)))
    yield Check("clocks after", clocks)


def _timed(watch: Watch, measure: Callable[[Any, Stopwatch], Spread]) -> Callable[[], tuple[str, ...]]:
    def attempt() -> tuple[str, ...]:
        torch = torch_with_gpu()
        if torch is None:
            raise NotHereError("there is no PyTorch that sees the GPU")
        return spread_cells(measure(torch, watch()))

    return attempt


def _launch(watch: Stopwatch) -> Spread:
    x, launcher = np.zeros(_SMALL, np.float32), tile_launcher()
    with residents(watch.device, watch.stream, {"x": x, "y": x}) as arrays:
        places = (arrays["x"].address, _SMALL, 1, _SMALL, arrays["y"].address)
        return watch.spread(lambda: launcher.tile(KERNELS["FLOAT"], *places, stream=watch.stream))


def _cudnn(size: Size, dtype: str, graphed: bool) -> Callable[[Any, Stopwatch], Spread]:
    return lambda torch, watch: torch_spread(torch, size, watch, dtype, graphed=graphed)


def _step(kernels: int) -> Callable[[Any, Stopwatch], Spread]:
    """A product of a step's size, and what is left of the kernels element by element: what launching costs."""

    def measure(torch: Any, watch: Stopwatch) -> Spread:
        x = torch.rand(1, 2 * HIDDEN, device="cuda")
        weights = torch.rand(2 * HIDDEN, 4 * HIDDEN, device="cuda")
        gates = torch.empty(1, 4 * HIDDEN, device="cuda")

        def work() -> None:
            torch.mm(x, weights, out=gates)
            for _ in range(kernels - 1):
                gates.tanh_()

        return watched(torch, watch, work, graphed=True)

    return measure


def _torch_tile(dtype: str) -> Callable[[Any, Stopwatch], Spread]:
    def measure(torch: Any, watch: Stopwatch) -> Spread:
        shape, axis, copies = _TILED
        x = torch.rand(*shape, device="cuda").to(getattr(torch, dtype))
        factors = [copies if place == axis else 1 for place in range(len(shape))]
        return watched(torch, watch, lambda: torch.tile(x, factors), graphed=False)

    return measure


def _our_tile(dtype: str) -> Callable[[Any, Stopwatch], Spread]:
    def measure(torch: Any, watch: Stopwatch) -> Spread:
        (rows, *rest), _, copies = _TILED
        x = torch.rand(rows, *rest, device="cuda").to(getattr(torch, dtype))
        y = torch.empty(rows * copies, *rest, device="cuda", dtype=x.dtype)
        kernel = KERNELS[{"float32": "FLOAT", "float16": "HALF"}[dtype]]
        inner, launcher = x.numel() // rows, tile_launcher()
        places = (x.data_ptr(), inner, copies, y.numel(), y.data_ptr())
        return watch.spread(lambda: launcher.tile(kernel, *places, stream=watch.stream))

    return measure

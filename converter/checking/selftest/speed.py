"""How fast an LSTM is: our engines of both precisions beside cuDNN's, and beside what the GPU could do at best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache

from prototrt.converter.checking.selftest.nets import SessionOf, Size, lstm_graph
from prototrt.converter.checking.selftest.rows import Check
from prototrt.converter.checking.selftest.timing import (
    Spread,
    Stopwatch,
    engine_spread,
    peak_bytes_per_second,
    peak_multiply_adds_per_second,
    torch_seconds,
)
from prototrt.surgery.options import Form, Precision

COLUMNS = (
    "LSTM", "", "shortest", "median", "99 %", "in a row", "wall", "per step", "cuDNN's call", "ours / cuDNN",
    "bytes' floor", "flops' floor",
)  # fmt: skip
SIZES = (Size(256, 1, 1), Size(1024, 1, 1), Size(256, 16, 1), Size(1024, 128, 16))
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
UNROLL_AT_MOST = 16
"""Steps: building more takes minutes."""
_TORCH = {"fp32": "float32", "fp16": "float16"}
_ITEM = {"fp32": 4, "fp16": 2}


class Rivals:
    """What ours is compared with, each measured once in a process."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch
        self.torch = cache(lambda size, precision: torch_seconds(size, watch, _TORCH[precision]))
        self.bandwidth = cache(lambda: peak_bytes_per_second(watch))
        self.speed = cache(lambda precision: peak_multiply_adds_per_second(watch, _TORCH[precision]))

    def floors(self, size: Size, precision: Precision) -> tuple[float, float | None]:
        """Seconds that moving the bytes, and multiplying, take at least; the latter only with PyTorch."""
        own = replace(size, itemsize=_ITEM[precision])
        speed = self.speed(precision)
        return own.moved_bytes / self.bandwidth(), own.multiply_adds / speed if speed else None


def timings(
    session_of: SessionOf, watch: Callable[[], Stopwatch], sizes: Iterable[Size] = SIZES
) -> Iterator[Check]:
    """Every size, precision and way. ``watch`` is asked when the first is timed."""
    rivals = cache(lambda: Rivals(watch()))
    for size in sizes:
        for precision in PRECISIONS:
            for way, sequence, graphs in ways(size):
                what = f"H {size.hidden}, T {size.steps}, N {size.streams}, {precision}, {way}"
                yield Check(what, timed(session_of, rivals, size, precision, sequence, graphs))


def timed(
    session_of: SessionOf,
    rivals: Callable[[], Rivals],
    size: Size,
    precision: Precision,
    sequence: Form,
    graphs: bool,
) -> Callable[[], tuple[str, ...]]:
    def attempt() -> tuple[str, ...]:
        graph = lstm_graph(size, sequence, precision)
        spread = engine_spread(graph, rivals().watch, session_of, graphs)
        cudnn = rivals().torch(size, precision)
        return numbers(spread, size.steps, cudnn, *rivals().floors(size, precision))

    return attempt


def numbers(
    spread: Spread, steps: int, cudnn: float | None, by_bytes: float, by_flops: float | None
) -> tuple[str, ...]:
    """The cells of a row behind its verdict."""
    times = (spread.shortest, spread.median, spread.p99, spread.in_a_row, spread.wall, spread.median / steps)
    ratio = "-" if cudnn is None else f"{spread.median / cudnn:.2f}"
    return (*map(microseconds, [*times, cudnn]), ratio, microseconds(by_bytes), microseconds(by_flops))


def ways(size: Size) -> list[tuple[str, Form, bool]]:
    """Name, sequence and use of CUDA graphs."""
    if size.steps == 1:
        return [("step, queued", "step", False), ("step, CUDA graph", "step", True)]
    unrolled: list[tuple[str, Form, bool]] = [
        ("unroll, queued", "unroll", False),
        ("unroll, CUDA graph", "unroll", True),
    ]
    return [("loop", "loop", False), *(unrolled if size.steps <= UNROLL_AT_MOST else [])]


def microseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.1f} us"

"""How fast an LSTM is: our engines in both precisions, as ``bench`` times them, beside cuDNN's by way of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from prototrt.converter.checking.machines.benchmark import CALLS, bench, timing_of
from prototrt.converter.checking.selftest.gpu import torch_with_gpu
from prototrt.converter.checking.selftest.nets import SessionOf, Size, lstm_graph
from prototrt.converter.checking.selftest.rows import Check
from prototrt.surgery.options import Form, Precision

COLUMNS = ("LSTM", "", "queued", "CUDA graph", "NumPy arrays", "per step", "cuDNN's call", "ours / cuDNN")
SIZES = (Size(256, 1, 1), Size(1024, 1, 1), Size(256, 16, 1), Size(1024, 128, 16))
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
UNROLL_AT_MOST = 16
"""Steps: building more takes minutes."""
_TORCH = {"fp32": "float32", "fp16": "float16"}


def timings(session_of: SessionOf, sizes: Iterable[Size] = SIZES) -> Iterator[Check]:
    """Every size, precision and form of the recurrence."""
    for size in sizes:
        for precision in PRECISIONS:
            for form in forms(size):
                what = f"H {size.hidden}, T {size.steps}, N {size.streams}, {precision}, {form}"
                yield Check(what, partial(_time, session_of, size, precision, form))


def forms(size: Size) -> list[Form]:
    if size.steps == 1:
        return ["step"]
    return ["loop", "unroll"] if size.steps <= UNROLL_AT_MOST else ["loop"]


def _time(session_of: SessionOf, size: Size, precision: Precision, form: Form) -> tuple[str, ...]:
    with session_of(lstm_graph(size, form, precision)) as session:
        medians = {timing.way: timing.median for timing in bench(session).timings}
    return numbers(medians, size.steps, _seconds_of_cudnn(size, _TORCH[precision]))


def numbers(medians: Mapping[str, float], steps: int, cudnn: float | None) -> tuple[str, ...]:
    """The cells of a row behind its verdict; ours is the faster of the two ways whose arrays stay on the GPU."""
    queued, replayed, from_host = (
        medians.get(f"engine, {way}") for way in ("queued", "CUDA graph", "NumPy arrays")
    )
    best = min(seconds for seconds in (queued, replayed) if seconds is not None)
    ratio = "-" if cudnn is None else f"{best / cudnn:.2f}"
    return (*map(microseconds, (queued, replayed, from_host, best / steps, cudnn)), ratio)


def _seconds_of_cudnn(size: Size, dtype: str) -> float | None:
    """One call of PyTorch's LSTM, which is cuDNN's, fed with its own state; None without PyTorch."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    lstm = torch.nn.LSTM(size.hidden, size.hidden).to("cuda", getattr(torch, dtype)).eval()
    x = torch.rand(size.steps, size.streams, size.hidden, device="cuda", dtype=getattr(torch, dtype))
    state = [torch.zeros(1, size.streams, size.hidden, device="cuda", dtype=x.dtype) for _ in "hc"]

    def call() -> None:
        for held, new in zip(state, lstm(x, tuple(state))[1], strict=True):
            held.copy_(new)

    with torch.inference_mode():
        return timing_of("cuDNN", CALLS, call, torch.cuda.synchronize).median


def microseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.1f} us"

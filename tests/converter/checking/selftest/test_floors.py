"""What is timed without TensorRT, on a fake GPU with a fake PyTorch."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from prototrt.converter.checking.selftest import floors, timing
from prototrt.converter.checking.selftest.rows import row_of
from prototrt.converter.checking.selftest.timing import Stopwatch
from prototrt.tests.converter.checking.selftest.test_speed import ClockedDevice


class Tensor:
    """Whatever is done to it is one kernel."""

    dtype = "float32"

    def __init__(self, device: ClockedDevice) -> None:
        self.device = device

    def _kernel(self, *_: object, **__: object) -> Tensor:
        self.device.time += 1
        return self

    tanh_ = copy_ = _kernel

    def to(self, *_: object) -> Tensor:
        return self

    def numel(self) -> int:
        return 64

    def data_ptr(self) -> int:
        return 0


def fake_torch(device: ClockedDevice) -> Any:
    def make(*_: object, **__: object) -> Tensor:
        return Tensor(device)

    class Graph:
        """What is captured costs nothing; a replay is one piece of work."""

        def replay(self) -> None:
            device.time += 1

    class Lstm:
        def __init__(self, *_: object) -> None: ...

        def to(self, *_: object) -> Lstm:
            return self

        eval = to

        def __call__(self, x: Tensor, state: object) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            x._kernel()
            return x, (x, x)

    flags = SimpleNamespace(allow_tf32=True)
    return SimpleNamespace(
        **dict.fromkeys(("rand", "zeros", "empty"), make),
        mm=lambda a, b, out: out._kernel(),
        tile=lambda x, factors: x._kernel(),
        float32="float32",
        float16="float16",
        inference_mode=nullcontext,
        nn=SimpleNamespace(LSTM=Lstm),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=flags), cudnn=flags),
        cuda=SimpleNamespace(
            ExternalStream=lambda handle: SimpleNamespace(synchronize=lambda: None),
            stream=lambda stream: nullcontext(),
            CUDAGraph=Graph,
            graph=lambda graph, stream: nullcontext(),
        ),
    )


def test_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = ClockedDevice()
    torch = fake_torch(device)
    monkeypatch.setattr(floors, "torch_with_gpu", lambda: torch)
    monkeypatch.setattr(timing, "_COPIED_BYTES", 1 << 10)
    launched = SimpleNamespace(tile=lambda *_, stream: device.queue(stream, lambda: None))
    monkeypatch.setattr(floors, "tile_launcher", lambda: launched)
    rows = {check.what: row_of(check) for check in floors.floors(lambda: Stopwatch(device))}
    assert {row.verdict for row in rows.values()} == {"ok"}, rows
    medians = {what: row.details[1] for what, row in rows.items() if "clocks" not in what}
    # The LSTM's kernel and the copies of its state; a step's replay; a tile.
    assert {median for what, median in medians.items() if "eager" in what} == {"3000.0 us"}
    assert {median for what, median in medians.items() if "eager" not in what} == {"1000.0 us"}
    assert len([what for what in medians if what.startswith("cuDNN")]) == 12
    assert [what for what in medians if what.startswith("a step")] == [
        f"a step of {kernels} kernels, CUDA graph" for kernels in (3, 4, 6)
    ]


def test_floors_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "torch_with_gpu", lambda: None)
    monkeypatch.setattr(timing, "_COPIED_BYTES", 1 << 10)
    launched = SimpleNamespace(tile=lambda *_, stream: None)
    monkeypatch.setattr(floors, "tile_launcher", lambda: launched)
    rows = {check.what: row_of(check) for check in floors.floors(lambda: Stopwatch(ClockedDevice()))}  # type: ignore[arg-type]  # as far as it is asked
    here = [
        "clocks before",
        "a launch of one small kernel",
        "a copy of 256 MiB within the GPU",
        "clocks after",
    ]
    assert [what for what, row in rows.items() if row.verdict == "ok"] == here
    assert {row.verdict for what, row in rows.items() if what not in here} == {"not tried"}


def test_clocks_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda command: None)
    assert timing.clocks() == "nvidia-smi is not here"

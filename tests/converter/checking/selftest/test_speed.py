"""What of an LSTM is timed, and how it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Precision
from prototrt.converter.checking.selftest import gpu, speed
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.checking.selftest.rows import row_of
from prototrt.tests.converter.running.runtime.support import session_of


def test_sizes_and_forms() -> None:
    assert len(set(speed.SIZES)) == 4
    assert speed.forms(Size(256, 1, 1)) == ["step"]
    assert speed.forms(Size(256, 16, 1)) == ["loop", "unroll"]
    assert speed.forms(Size(256, 128, 1)) == ["loop"]


def test_numbers_of_a_row() -> None:
    medians = {"engine, queued": 9e-6, "engine, CUDA graph": 8e-6, "engine, NumPy arrays": 2e-5}
    row = speed.numbers(medians, 4, 4e-6)
    assert row == ("9.0 us", "8.0 us", "20.0 us", "2.0 us", "4.0 us", "2.00")
    assert len(row) + 2 == len(speed.COLUMNS)
    del medians["engine, CUDA graph"]
    assert speed.numbers(medians, 1, None) == ("9.0 us", "-", "20.0 us", "9.0 us", "-", "-")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("steps", "sequence"), [(1, "step"), (4, "loop"), (4, "unroll")])
def test_the_net_that_is_timed(steps: int, sequence: Form, precision: Precision) -> None:
    graph = lstm_graph(Size(8, steps, 2), sequence, precision)
    results = prototrt.Session(graph).run({"x": np.ones((steps, 2, 8)), "cont": np.ones((steps, 2))})
    assert results["h"].shape == (steps, 2, 8)
    assert results["h"].any()


@pytest.mark.trt
@pytest.mark.slow
def test_timings_on_a_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "torch_with_gpu", lambda: None)
    monkeypatch.setattr(speed, "PRECISIONS", ("fp16",))

    def built(graph: Any, **options: Any) -> prototrt.Session:
        prototrt.build(graph, backend="rtx")
        return session_of(graph, **options)

    rows = [row_of(check) for check in speed.timings(built, [Size(8, 1, 2), Size(8, 4, 2)])]
    assert [row.what for row in rows] == [
        f"H 8, T {steps}, N 2, {precision}, {form}"
        for steps, forms in ((1, ("step",)), (4, ("loop", "unroll")))
        for precision in speed.PRECISIONS
        for form in forms
    ]
    assert {row.verdict for row in rows} == {"ok"}, rows[0]
    assert all(cell.endswith(" us") for row in rows for cell in row.details[:4])
    assert {row.details[4:] for row in rows} == {("-", "-")}


def test_clocks_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda command: None)
    assert gpu.clocks() == "nvidia-smi is not here"

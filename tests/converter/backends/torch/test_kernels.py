"""Kernels of Triton for the steps of recurrent layers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prototrt.tests.converter.backends.torch.test_cells import graph_of, layer, text_of
from prototrt.tests.converter.backends.torch.torch_session import imported, torch
from prototrt.tests.fresh_python import ROOT

triton = pytest.importorskip("triton", reason="needs Triton: pip install triton")
LAUNCHES = {
    "reverse": 1,
    "both directions": 2,
    "peepholes": 1,
    "coupled": 1,
    "GRU": 1,
    "GRU, reset first": 1,
    "ReLU": 1,
    "two layers": 2,
    "lstm_5axis_input": 1,
    "lstm_carry": 2,
    "lstm_cont_all_ones": 1,
    "lstm_cont_any_number": 2,
    "lstm_cont_resets": 1,
    "lstm_embed_caption": 1,
    "lstm_expose": 1,
    "lstm_expose_chunks": 2,
    "lstm_expose_static_reset": 1,
    "lstm_shared_stack": 4,
    "lstm_stacked": 2,
    "lstm_static": 1,
    "lstm_static_4axis": 1,
    "lstm_static_square": 1,
    "lstm_t20": 1,
    "lstm_t5_n3": 1,
    "net_lrcn": 1,
    "rnn_carry": 2,
    "rnn_cont_resets": 1,
    "rnn_expose": 1,
    "rnn_static": 1,
    "rnn_t5": 1,
    "gru_synopsys": 2,
    "gru_synopsys_linear": 2,
}
"""Kernels of each net, in all of its calls."""


@pytest.mark.slow
@pytest.mark.parametrize("nets", ["sample", pytest.param("all", marks=pytest.mark.exhaustive)])
def test_kernels_give_the_numbers_of_caffe(nets: str) -> None:
    """In Triton's interpreter, which computes units of all programs in one."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / ".dev")}
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "prototrt.tests.converter.backends.torch.interpreted",
        nets,
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    counts = dict(line.split(": ") for line in result.stdout.splitlines())
    assert len(counts) > (12 if nets == "sample" else len(LAUNCHES))
    assert {name: int(count) for name, count in counts.items() if count != "0"} == {
        name: count for name, count in LAUNCHES.items() if name in counts
    }
    assert {"projection", "lstm_t1"} <= {*counts}


def written_module(folder: Path) -> Any:
    text_of(graph_of(layer("a"), folder, drop=False), folder)
    return imported(folder / "net.py")


class State(SimpleNamespace):
    """What a kernel is chosen by: a state (N, H) on a GPU."""

    is_cuda, dtype, device = True, torch.float32, "cuda"


@pytest.mark.parametrize(
    ("shape", "units"),
    [
        ((1, 256), 4),
        ((1, 64), 16),
        ((1, 100), 8),
        ((2, 256), 2),
        ((32, 256), 2),
        ((33, 256), 0),
        ((8, 1024), 8),
        ((1, 1025), 0),
    ],
    ids=str,
)
def test_units_fill_the_gpu(
    shape: tuple[int, int], units: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = written_module(tmp_path)
    gpu = SimpleNamespace(multi_processor_count=132, major=9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    with torch.no_grad():
        assert module.units_of_a_program(State(shape=shape), 4) == units
        gpu.multi_processor_count = 8
        assert module.units_of_a_program(State(shape=(1, 256)), 4) == 32
        assert module.units_of_a_program(State(shape=(1, 512)), 4) == 0
        gpu.major = 6
        assert module.units_of_a_program(State(shape=(1, 256)), 4) == 0


def test_gradients_and_tracing_take_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = written_module(tmp_path)
    gpu = SimpleNamespace(multi_processor_count=132, major=9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    state = State(shape=(1, 256))
    assert module.units_of_a_program(state, 4) == 0
    with torch.no_grad():
        assert module.units_of_a_program(state, 4) > 0
        assert module.units_of_a_program(State(shape=(1, 256), dtype=torch.float16), 4) == 0
        assert module.units_of_a_program(torch.zeros(1, 256), 4) == 0
        monkeypatch.setattr(torch.jit, "is_tracing", lambda: True)
        assert module.units_of_a_program(state, 4) == 0
        monkeypatch.undo()
        monkeypatch.setattr(module, "triton", None)
        assert module.units_of_a_program(state, 4) == 0


EXHAUSTIVE = [pytest.param(capability, marks=pytest.mark.exhaustive) for capability in (80, 90)]


@pytest.mark.parametrize("capability", [75, *EXHAUSTIVE, 120])
@pytest.mark.parametrize("lanes", [1, 4])
def test_triton_compiles_it(lanes: int, capability: int, tmp_path: Path) -> None:
    compiler = pytest.importorskip("triton.compiler")
    target = pytest.importorskip("triton.backends.compiler").GPUTarget("cuda", capability, 32)
    kernel = written_module(tmp_path).lstm_steps
    sizes = {"width": 100, "lanes": lanes, "columns": 128, "units": 8}
    types = {name: "i32" if name in ("steps", "streams") else "*fp32" for name in kernel.arg_names}
    source = compiler.ASTSource(kernel, {**types, **dict.fromkeys(sizes, "constexpr")}, sizes)
    options = {"num_warps": 4, "launch_cooperative_grid": True}
    assert "ld.volatile" in triton.compile(source, target=target, options=options).asm["ptx"]

"""``prototrt run`` on plans, ``--on engine``, and ``verify --on engine``, on the fake GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt.cli import main
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.options import CompareOptions
from prototrt.converter.running.runtime import sources
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import STREAM, WEIGHTS
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend
from prototrt.tests.digit_strips import digits, probabilities, steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph


def stream_graph() -> Graph:
    return digits("deploy_stream.prototxt")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Every session finds this GPU, on which every plan is that of the digits stream."""
    device = fake_backend(monkeypatch, stream_graph())
    monkeypatch.setattr(sources, "find_device", lambda name: device)
    return device


@pytest.fixture
def inputs(tmp_path: Path) -> str:
    feeds = steps(5)
    arrays = {f"{name}/{call}": array for call, feed in enumerate(feeds) for name, array in feed.items()}
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]  # its annotations take the names for other arguments
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments], prog_name="prototrt")


@pytest.mark.trt
def test_a_plan_is_run_with_its_state(gpu: FakeDevice, inputs: str, tmp_path: Path) -> None:
    plan, target = str(tmp_path / "stream.plan"), str(tmp_path / "out.npz")
    prototrt.build(stream_graph(), backend="rtx").save(plan)
    result = run(plan, "--inputs", inputs, "-o", target, "--calls", "5")
    assert result.exit_code == 0, result.output
    assert result.output == f"{target}: 5 calls on engine, prob 1x1x11\n"
    found = np.load(target)
    for call, wanted in enumerate(probabilities(5)):
        np.testing.assert_allclose(found[f"prob/{call}"].reshape(wanted.shape), wanted, 1e-4, 1e-5)
    assert gpu.memory == {}


@pytest.mark.trt
def test_a_plan_is_run_for_programs(gpu: FakeDevice, inputs: str, tmp_path: Path) -> None:
    plan, target = str(tmp_path / "stream.plan"), str(tmp_path / "out.npz")
    prototrt.build(stream_graph(), backend="rtx").save(plan)
    result = run(plan, "--inputs", inputs, "-o", target, "--calls", "5", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "format": 1,
        "file": target,
        "calls": 5,
        "on": "engine",
        "outputs": {"prob": {"shape": [1, 1, 11], "dtype": "float32"}},
    }


def test_a_plan_without_manifest_is_refused_unless_trusted(
    gpu: FakeDevice, inputs: str, tmp_path: Path
) -> None:
    plan, target = tmp_path / "stream", tmp_path / "out.npz"
    plan.write_bytes(b"vtrt and so on")
    result = run(str(plan), "--inputs", inputs, "-o", str(target))
    assert result.exit_code == 6
    assert result.output.startswith(f'error: {plan}: has no manifest: there is no "stream.json" beside it\n')
    assert not target.exists()
    feeds = {**steps(1)[0], **dict.fromkeys(("lstm1_h_0", "lstm1_c_0"), np.zeros((1, 1, 64), np.float32))}
    feeds.update(dict.fromkeys(("lstm2_h_0", "lstm2_c_0"), np.zeros((1, 1, 48), np.float32)))
    np.savez(inputs, **feeds)  # type: ignore[arg-type]  # as above
    result = run(str(plan), "--inputs", inputs, "-o", str(target), "--trust")
    assert result.exit_code == 0, result.output
    assert np.load(target)["lstm1_h_T"].shape == (1, 1, 64)


@pytest.mark.trt
def test_a_net_is_built_and_run(gpu: FakeDevice, inputs: str, tmp_path: Path) -> None:
    target = str(tmp_path / "out.npz")
    result = run(STREAM, WEIGHTS, "--inputs", inputs, "-o", target, "--on", "engine")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(
        np.load(target)["prob/4"].reshape(-1), probabilities(5)[4].reshape(-1), 1e-4, 1e-5
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.plan", WEIGHTS], "WEIGHTS is for nets, but a.plan is an engine\n  fix: leave it out"),
        (
            ["a.plan", "--shape", "data:1x1"],
            "--shape is for nets, but a.plan is an engine\n  fix: leave it out",
        ),
        (
            ["a.plan", "--sequence", "loop"],
            "--sequence is for nets, but a.plan is an engine\n  fix: leave it out",
        ),
        (
            ["a.plan", "--on", "network"],
            "--on network is for nets, but a.plan is an engine\n  fix: leave it out",
        ),
        ([STREAM, WEIGHTS, "--trust"], f"--trust is for plans, but {STREAM} is not a plan"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], message: str, inputs: str, tmp_path: Path) -> None:
    result = run(*arguments, "--inputs", inputs, "-o", str(tmp_path / "out.npz"))
    assert result.exit_code == 2
    assert result.output.endswith(f"\nError: {message}\n")


@pytest.mark.trt
def test_verify_on_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dynamic_graph()
    device = fake_backend(monkeypatch, graph)
    monkeypatch.setattr(sources, "find_device", lambda name: device)
    feeds = [continuing(2, 3, call) for call in range(3)]
    verification = verify(graph, feeds, CompareOptions(ways=["engine"]))
    assert verification.holds
    assert {comparison.blob for comparison in verification.comparisons} == {"h", "lstm_h_T", "lstm_c_T"}
    assert device.calls["upload"] == 6

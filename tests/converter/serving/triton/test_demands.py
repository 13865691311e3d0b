"""Triton's Python backend runs only the model that the config of the model lets it run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, EngineError
from prototrt.converter.serving.triton.serving import MODEL, PLAN, Serving, trust_of
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.support import digest_beside, written_plan
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend
from prototrt.tests.dynamic_lstm import dynamic_graph


def config_with(name: str, value: str) -> Any:
    """What Triton gives to the backend: its JSON has a map of parameters."""
    return {"parameters": {name: {"string_value": value}}}


def test_from_the_config_to_trust() -> None:
    assert trust_of(config_with("trust", "sha256:ab")) == "sha256:ab"
    assert trust_of({}) is False
    assert trust_of(config_with("EXECUTION_ENV_PATH", "x")) is False


@pytest.mark.parametrize("name", ["trust_key", "trust_label", "trust_not_before"])
def test_an_old_demand_is_never_passed_over(name: str) -> None:
    with pytest.raises(EngineError) as refused:
        trust_of(config_with(name, "/keys/builder.pub"))
    assert str(refused.value) == (
        f"config.pbtxt: the parameter {name} demands a signature, which prototrt no longer checks\n"
        '  fix: replace it by the parameter trust with the digest of the manifest, "sha256:..."'
    )


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a version, with a plan."""
    device: FakeDevice = fake_backend(monkeypatch, dynamic_graph())
    monkeypatch.setattr("prototrt.converter.running.runtime.sources.find_device", lambda name: device)
    written_plan(tmp_path).rename(tmp_path / PLAN)
    (tmp_path / "net.plan.json").rename(tmp_path / f"{PLAN}.json")
    return tmp_path


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "another plan": (
        lambda folder: (folder / PLAN).write_bytes(b"vtrt and MORE"),
        "is not the plan that its manifest",
    ),
    "another manifest": (
        lambda folder: (folder / f"{PLAN}.json").write_text("{}"),
        "is not the manifest that is trusted",
    ),
    "no manifest": (lambda folder: (folder / f"{PLAN}.json").unlink(), "has no manifest"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_refuses_other_plans(version: Path, case: str) -> None:
    change, message = REFUSED[case]
    config = config_with("trust", digest_beside(version / PLAN))
    Serving.of_version(version, config, on_gpu=True).close()
    change(version)
    with pytest.raises(ConversionError, match=message):
        Serving.of_version(version, config, on_gpu=True)


def test_a_server_refuses_other_models(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs the model")
    prototrt.export_onnx(dynamic_graph(), tmp_path / MODEL)
    config = config_with("trust", digest_beside(tmp_path / MODEL))
    Serving.of_version(tmp_path, config, on_gpu=False).close()
    (tmp_path / MODEL).write_bytes((tmp_path / MODEL).read_bytes()[:-1])
    with pytest.raises(EngineError, match="is not the file that its manifest lists"):
        Serving.of_version(tmp_path, config, on_gpu=False)

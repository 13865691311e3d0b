"""Triton's Python backend runs only the plans that the config of the model lets it run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, EngineError, OptionsError
from prototrt.converter.companions.signing import Trust
from prototrt.converter.options import BackendName, TritonOptions
from prototrt.converter.triton.config import config_of
from prototrt.converter.triton.demands import PARAMETERS, parameters_of, refuse_bad_demands, trust_of
from prototrt.converter.triton.serving import PLAN, Serving
from prototrt.converter.triton.text import text_of
from prototrt.tests.command_line import STREAM, WEIGHTS, done, run
from prototrt.tests.converter.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.runtime.support import written_plan
from prototrt.tests.converter.runtime.test_plan_file import fake_backend
from prototrt.tests.converter.triton.nets import lstm, served
from prototrt.tests.dynamic_lstm import dynamic_graph

ALL = TritonOptions(
    platform="python",
    sign="key",
    sign_label="digits",
    trust_key="/keys/builder.pub",
    trust_label="digits",
    trust_not_before="2026-01-31",
)
WRITES_PLAN = '  fix: use platform="python" and backend="rtx" or backend="enterprise"'
BAD: dict[str, tuple[TritonOptions, BackendName, str]] = {
    "an ONNX model": (
        replace(ALL, trust_key=None, trust_label=None, trust_not_before=None),
        "auto",
        f'sign is for engines, and backend="auto" may write an ONNX model\n{WRITES_PLAN}',
    ),
    "a backend that does not run prototrt": (
        replace(ALL, platform="tensorrt"),
        "enterprise",
        f"trust_key is for plans that prototrt runs in Triton's Python backend\n{WRITES_PLAN}",
    ),
    "no key to trust": (
        replace(ALL, trust_key=None),
        "rtx",
        'trust_label is about signed plans\n  fix: give trust_key="/keys/builder.pub", too',
    ),
    "a date alone": (
        replace(ALL, trust_key=None, trust_label=None),
        "rtx",
        'trust_not_before is about signed plans\n  fix: give trust_key="/keys/builder.pub", too',
    ),
    "no key to sign with": (
        replace(ALL, sign=None, sign_label=None),
        "rtx",
        'trust_key without sign: the server would refuse the plan\n  fix: give sign="PRIVATE_KEY", too',
    ),
    "a label alone": (
        replace(ALL, sign=None),
        "rtx",
        'sign_label="digits" is for signed engines\n  fix: give sign="PRIVATE_KEY", too, or leave it out',
    ),
    "a path of this folder": (
        replace(ALL, trust_key="builder.pub"),
        "rtx",
        'trust_key="builder.pub" is not a whole path\n'
        "  because the server has another folder than this command\n"
        '  fix: name the file as the server finds it, as in trust_key="/keys/builder.pub"',
    ),
    "another label": (
        replace(ALL, sign_label="faces"),
        "rtx",
        "trust_label without the same sign_label: the server would refuse the plan\n"
        '  fix: give sign_label="digits", too',
    ),
    "no date": (
        replace(ALL, trust_not_before="soon"),
        "rtx",
        "'soon' is not a date\n  fix: write it as in not_before=\"2026-01-31\"",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_demands_that_no_server_meets(case: str) -> None:
    options, backend, message = BAD[case]
    with pytest.raises(OptionsError) as refused:
        refuse_bad_demands(options, backend)
    assert str(refused.value) == message


def test_good_demands() -> None:
    refuse_bad_demands(ALL, "rtx")
    refuse_bad_demands(TritonOptions(), "auto")
    refuse_bad_demands(replace(TritonOptions(), sign="key"), "enterprise")


def config_with(options: TritonOptions) -> Any:
    """What Triton gives to the backend: its JSON has a map of parameters."""
    parameters = {name: {"string_value": value} for name, value in parameters_of(options).items()}
    return {"parameters": parameters} if parameters else {}


def test_from_options_to_trust() -> None:
    expected = Trust("/keys/builder.pub", label="digits", not_before="2026-01-31T00:00:00Z")
    assert trust_of(config_with(ALL), on_gpu=True) == expected
    only_key = replace(ALL, trust_label=None, trust_not_before=None)
    assert trust_of(config_with(only_key), on_gpu=True) == Trust("/keys/builder.pub")
    assert trust_of(config_with(TritonOptions()), on_gpu=True) is False
    assert trust_of({"parameters": {"EXECUTION_ENV_PATH": {"string_value": "x"}}}, on_gpu=False) is False


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_demand_is_never_passed_over(name: str) -> None:
    """Neither where an ONNX model runs, which is not signed, nor where the key is missing."""
    config = {"parameters": {name: {"string_value": "2026-01-31"}}}
    with pytest.raises(EngineError) as refused:
        trust_of(config, on_gpu=False)
    assert str(refused.value) == (
        "config.pbtxt: an ONNX model is not signed\n"
        f"  because the parameter {name} demands a signed plan\n"
        "  fix: serve a plan: instances of KIND_GPU"
    )
    if name != "trust_key":
        with pytest.raises(EngineError) as refused:
            trust_of(config, on_gpu=True)
        assert str(refused.value) == (
            "config.pbtxt: the parameter trust_key is missing\n"
            f"  because the parameter {name} demands a signed plan\n"
            "  fix: name the file of public keys"
        )


def test_the_text_of_the_config() -> None:
    config = config_of(served(lstm()), "m", "python", on_gpu=True, parameters=parameters_of(ALL))
    text = text_of(config)
    assert text_of({"parameters": config["parameters"]}) in text
    messages = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="no tritonclient here")
    from google.protobuf import text_format

    parsed = text_format.Parse(text, messages.ModelConfig())
    assert {name: each.string_value for name, each in parsed.parameters.items()} == parameters_of(ALL)


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a version, with a plan that is signed as digits. The keys are beside it."""
    device: FakeDevice = fake_backend(monkeypatch, dynamic_graph())
    monkeypatch.setattr("prototrt.converter.runtime.sources.find_device", lambda name: device)
    for name in ("key", "other"):
        key = Ed25519PrivateKey.generate()
        (tmp_path / name).touch(0o600)
        content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / name).write_bytes(content)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(public)
    written_plan(tmp_path, sign=tmp_path / "key", sign_label="digits").rename(tmp_path / PLAN)
    (tmp_path / "net.plan.json").rename(tmp_path / f"{PLAN}.json")
    return tmp_path


def demand(folder: Path, key: str = "key.pub", **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = config_with(TritonOptions(trust_key=str(folder / key), **more))
    return config


def test_a_server_runs_what_it_may(version: Path) -> None:
    config = demand(version, trust_label="digits", trust_not_before="2020-01-01")
    Serving.of_version(version, config, on_gpu=True).close()


def unsigned(folder: Path) -> None:
    manifest = json.loads((folder / f"{PLAN}.json").read_text())
    del manifest["signature"]
    (folder / f"{PLAN}.json").write_text(json.dumps(manifest))


REFUSED: dict[str, tuple[Callable[[Path], object], dict[str, str], str]] = {
    "another plan": (
        lambda folder: (folder / PLAN).write_bytes(b"vtrt and MORE"),
        {},
        "is not the plan that its manifest",
    ),
    "no signature": (unsigned, {}, "has no signature"),
    "no manifest": (lambda folder: (folder / f"{PLAN}.json").unlink(), {}, "has no manifest"),
    "another key": (lambda folder: None, {"key": "other.pub"}, "is signed with another key"),
    "another label": (
        lambda folder: None,
        {"trust_label": "faces"},
        'is signed as "digits", expected "faces"',
    ),
    "too old": (
        lambda folder: None,
        {"trust_not_before": "2999-01-01"},
        "expected 2999-01-01T00:00:00Z or later",
    ),
    "no file of keys": (lambda folder: (folder / "key.pub").unlink(), {}, "there is no such file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_refuses_other_plans(version: Path, case: str) -> None:
    change, demands, message = REFUSED[case]
    change(version)
    with pytest.raises(ConversionError, match=message):
        Serving.of_version(version, demand(version, **demands), on_gpu=True)


@pytest.mark.trt
def test_the_command(version: Path) -> None:
    """A plan that it signs passes the demand that it writes."""
    done(
        *("triton", STREAM, WEIGHTS, "-o", str(version / "m"), "--platform", "python", "--backend", "rtx"),
        *("--sign", str(version / "key"), "--sign-label", "strips", "--trust-label", "strips"),
        *("--trust-key", str(version / "key.pub"), "--trust-not-before", "2026-01-31"),
    )
    folder = version / "m" / "digits_stream"
    text = (folder / "config.pbtxt").read_text()
    for name, value in (
        ("trust_key", version / "key.pub"),
        ("trust_label", "strips"),
        ("trust_not_before", "2026-01-31T00:00:00Z"),
    ):
        assert f'key: "{name}"\n    value {{\n      string_value: "{value}"' in text
    manifest = json.loads((folder / "1" / "model.plan.json").read_text())
    assert manifest["release"]["label"] == "strips"
    from prototrt.converter.runtime.plan_file import load_plan

    trust = prototrt.Trust(version / "key.pub", label="strips", not_before="2026-01-31")
    assert load_plan(folder / "1" / PLAN, trust).sha256 == manifest["plan"]["sha256"]


def test_a_relative_key_on_the_command_line(version: Path) -> None:
    result = run(
        *("triton", STREAM, WEIGHTS, "-o", str(version / "m"), "--platform", "python", "--backend", "rtx"),
        *("--sign", str(version / "key"), "--trust-key", "key.pub"),
    )
    assert result.exit_code == 2
    assert "--trust-key key.pub is not a whole path" in result.output

"""Pins: with the digest of a manifest, nothing else than the files of that conversion is opened."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, EngineError, OptionsError
from prototrt.converter.backends.onnx import evaluator, file
from prototrt.converter.backends.tensorrt.builder import Plan
from prototrt.converter.files.companions import manifest_reading
from prototrt.converter.files.companions.pinning import pin_of
from prototrt.converter.running.runtime import plan_file
from prototrt.converter.running.runtime.plan_file import load_plan
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, run
from prototrt.tests.converter.running.runtime.support import digest_beside, written_plan
from prototrt.tests.dynamic_lstm import dynamic_graph

NO_DIGEST = (
    "trust is {}, expected True, False, or the digest of a manifest\n"
    "  because a digest is sha256: and 64 hexadecimal digits; keys are no longer taken\n"
    '  fix: prototrt.inspect("FILE", ...) shows the digest; docs/signing.md signs it with a key'
)
TOGETHER = "  fix: use the files that one conversion has written together"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path()


@pytest.mark.parametrize("trust", [None, (), "", "builder.pub", ["builder.pub"], 1, "sha256:00", "0" * 64])
def test_what_is_no_digest(folder: Path, trust: Any) -> None:
    """Above all the keys of old versions are not passed over."""
    plan = written_plan(folder)
    for act in (lambda: load_plan(plan, trust=trust), lambda: prototrt.Session("net.onnx", trust=trust)):
        with pytest.raises(OptionsError) as refused:
            act()
        assert str(refused.value) == NO_DIGEST.format(repr(trust))


def test_a_digest_in_capitals() -> None:
    assert pin_of(f"SHA256:{'AB' * 32}") == f"sha256:{'ab' * 32}"


@pytest.mark.parametrize("source", [dynamic_graph, lambda: Plan(memoryview(b"x"), {})])
def test_only_files_have_a_manifest(source: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="trust is a digest, but only a file has a manifest"):
        prototrt.Session(source(), trust=f"sha256:{'0' * 64}")


def listed(name: str) -> Mapping[str, Any]:
    files: Mapping[str, Any] = json.loads(Path(f"{name}.json").read_text())["files"]
    for record in files.values():
        content = Path(record["file"]).read_bytes()
        assert (record["bytes"], record["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    return {role: record["file"] for role, record in files.items()}


def test_the_manifest_lists_every_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    done("convert", DEPLOY, WEIGHTS, "-o", "net.onnx", "--target", "jetson", "--emit-header", "digits.h")
    assert listed("net.onnx") == {
        "product": "net.onnx",
        "weights": "net.onnx.data",
        "script": "net.onnx.sh",
        "header": "digits.h",
    }
    done("convert", DEPLOY, WEIGHTS, "-o", "net.py")
    assert listed("net.py") == {"product": "net.py", "weights": "net.safetensors"}
    written_plan(folder)
    assert listed("net.plan") == {"product": "net.plan"}


def test_equal_conversions_have_one_digest(folder: Path) -> None:
    """Wherever the sources lie, however they are named on the command line, and whatever the clock says."""
    digests = set()
    text = DEPLOY.read_text() if isinstance(DEPLOY, Path) else Path(DEPLOY).read_text()
    unread = 'layer { name: "unread" type: "Input" top: "unread" input_param { shape { dim: 1 } } }\n'
    for place in ("a", "b/c"):
        Path(place).mkdir(parents=True)
        Path(place, "deploy.prototxt").write_text(text + unread)
        shutil.copy(WEIGHTS, Path(place, "digits.caffemodel"))
        done("convert", f"{place}/deploy.prototxt", f"{place}/digits.caffemodel", "-o", f"{place}/net.onnx")
        assert "deploy.prototxt" in str(json.loads(Path(place, "net.onnx.json").read_text())["warnings"])
        digests.add(digest_beside(Path(place, "net.onnx")))
    assert len(digests) == 1


@pytest.mark.trt
def test_manifests_of_two_builds(folder: Path) -> None:
    """Where sizes vary, TensorRT builds other bytes each time; the rest does not say when that was, or how long."""
    first, second = (prototrt.build(dynamic_graph(), backend="rtx").manifest for _ in range(2))
    assert {**first, "plan": None} == {**second, "plan": None}
    assert first["plan"].keys() == {"bytes", "sha256"}


def test_the_digest_is_easy_to_get(folder: Path) -> None:
    converted = prototrt.convert(DEPLOY, WEIGHTS, "net.onnx")
    assert converted.digest == digest_beside(Path("net.onnx"))
    told = json.loads(done("convert", DEPLOY, WEIGHTS, "-o", "net.onnx", "--json").stdout)
    assert told["digest"] == converted.digest
    for name in ("net.onnx", "net.onnx.json"):
        assert converted.digest in done("inspect", name).stdout


# ---------------------------------------------------------------- plans


CHANGED = b"vtrt and MORE"


def edit(place: str) -> None:
    """A change after which the manifest is still one."""
    manifest = json.loads(Path(place).read_text())
    manifest["warnings"] = ["none"]
    Path(place).write_text(json.dumps(manifest))


def message_of_edit(name: str, pin: str) -> str:
    return (
        f"{name}.json: is not the manifest that is trusted\n"
        f"  because its digest is {digest_beside(Path(name))}, expected {pin}\n"
        "  fix: use the files of that conversion, or pin this digest if you trust whoever made these"
    )


REFUSED: dict[str, tuple[Callable[[], object], Callable[[str], str]]] = {
    "a changed manifest": (lambda: edit("net.plan.json"), lambda pin: message_of_edit("net.plan", pin)),
    "a changed plan": (
        lambda: Path("net.plan").write_bytes(CHANGED),
        lambda pin: (
            "net.plan: is not the plan that its manifest describes: its SHA-256 is"
            f" {hashlib.sha256(CHANGED).hexdigest()}, expected {hashlib.sha256(b'vtrt and more').hexdigest()}\n"
            "  fix: convert the model again, or find the files that belong together"
        ),
    ),
    "a plan of another size": (
        lambda: os.truncate("net.plan", 1 << 40),
        lambda pin: (
            "net.plan: is not the plan that its manifest describes: it has 1099511627776 bytes, expected 13\n"
            "  fix: convert the model again, or find the files that belong together"
        ),
    ),
    "another conversion": (
        lambda: written_plan(Path(), more=b"!"),
        lambda pin: message_of_edit("net.plan", pin),
    ),
    "no manifest": (
        lambda: Path("net.plan.json").unlink(),
        lambda pin: (
            'net.plan: has no manifest: there is no "net.plan.json" beside it\n'
            "  because a plan is a program, and nothing says where this one comes from\n"
            "  fix: put the manifest beside it"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_plans(folder: Path, case: str) -> None:
    pin = digest_beside(written_plan(folder))
    assert load_plan("net.plan", trust=pin).plan == b"vtrt and more"
    change, message = REFUSED[case]
    change()
    with pytest.raises(ConversionError) as refused:
        load_plan("net.plan", trust=pin)
    assert str(refused.value) == message(pin)


COMMANDS = {
    "run": ("run", "net.plan", "--inputs", "in.npz", "-o", "out.npz"),
    "bench": ("bench", "net.plan"),
    "inspect": ("inspect", "net.plan"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_a_digest(folder: Path, command: str) -> None:
    """Each refuses another engine before it looks for a GPU."""
    pin = digest_beside(written_plan(folder))
    edit("net.plan.json")
    result = run(*COMMANDS[command], "--trust", pin)
    assert (result.exit_code, result.output.splitlines()[0]) == (
        6,
        "error: net.plan.json: is not the manifest that is trusted",
    )
    result = run(*COMMANDS[command], "--trust", "sha256:00")
    assert result.exit_code == 2
    assert "Error: --trust is 'sha256:00', expected" in result.output


def test_trust_alone_stands_anywhere(folder: Path) -> None:
    """As it did before it took a digest: the next word is not its value."""
    written_plan(folder)
    for words in (
        ("run", "--trust", "net.plan", "--inputs", "in.npz", "-o", "o.npz"),
        (*COMMANDS["run"], "--trust"),
    ):
        assert run(*words).exit_code == 6  # TensorRT does not load it
    result = run("inspect", "net.plan", "--trust")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: --trust needs the digest of the manifest: --trust sha256:...",
    )


@pytest.mark.parametrize("option", ["--sign", "--sign-label"])
def test_signing_options_name_their_successor(folder: Path, option: str) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", "net.plan", option, "x")
    assert (result.exit_code, " ".join(result.output.split()).rpartition("Error: ")[2]) == (
        2,
        f"No such option '{option}'. Did you mean `ssh-keygen -Y sign` for the manifest, as docs/signing.md shows?",
    )


@pytest.mark.parametrize("option", ["--trust-key", "--trust-label", "--trust-not-before"])
def test_demands_name_their_successor(folder: Path, option: str) -> None:
    result = run(*COMMANDS["run"], option, "x")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        f"Error: No such option '{option}'. Did you mean `prototrt run --trust DIGEST`?",
    )


# ---------------------------------------------------------------- ONNX models


def graph() -> Graph:
    return prototrt.rewrite(prototrt.load(STREAM, WEIGHTS))


FEEDS = {"data": np.ones((1, 1, 32, 16), np.float32), "cont": np.ones((1, 1), np.float32)}


@pytest.fixture
def model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with its weights in a file of their own."""
    pytest.importorskip("onnxruntime", reason="runs the model")
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    prototrt.export_onnx(graph(), "net.onnx")
    return Path("net.onnx")


def assert_same(session: prototrt.Session) -> None:
    (found,), (wanted,) = (each.run(FEEDS).values() for each in (session, prototrt.Session(graph())))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def change_byte(name: str) -> None:
    content = bytearray(Path(name).read_bytes())
    content[-1] ^= 1
    Path(name).write_bytes(content)


def differs(name: str, sha256: str) -> str:
    found = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    because = f"  because its SHA-256 is {found}, expected {sha256}\n"
    return f"{name}: is not the file that its manifest lists\n{because}{TOGETHER}"


MODELS: dict[str, tuple[Callable[[], object], Callable[[str, Mapping[str, Any]], str]]] = {
    "a changed manifest": (
        lambda: edit("net.onnx.json"),
        lambda pin, files: message_of_edit("net.onnx", pin),
    ),
    "a changed model": (
        lambda: change_byte("net.onnx"),
        lambda pin, files: differs("net.onnx", files["product"]["sha256"]),
    ),
    "changed weights": (
        lambda: change_byte("net.onnx.data"),
        lambda pin, files: differs("net.onnx.data", files["weights"]["sha256"]),
    ),
    "weights of another size": (
        lambda: Path("net.onnx.data").write_bytes(b"more"),
        lambda pin, files: (
            "net.onnx.data: is not the file that its manifest lists\n"
            f"  because it has 4 bytes, expected {files['weights']['bytes']}\n{TOGETHER}"
        ),
    ),
    "no weights": (
        lambda: Path("net.onnx.data").unlink(),
        lambda pin, files: (
            "net.onnx.data: is listed in the manifest, and cannot be read: No such file or directory\n"
            + TOGETHER
        ),
    ),
    "no manifest": (
        lambda: Path("net.onnx.json").unlink(),
        lambda pin, files: (
            "net.onnx.json: there is no manifest\n"
            "  fix: put it beside the file that it describes, or convert the model again"
        ),
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_refused_models(model: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime sees none of them."""
    pin, files = digest_beside(model), json.loads(Path("net.onnx.json").read_text())["files"]
    assert_same(prototrt.Session(model, trust=pin))
    change, message = MODELS[case]
    change()
    monkeypatch.setattr(evaluator, "_OpenModel", lambda *arguments: pytest.fail("the model is opened"))
    with pytest.raises(ConversionError) as refused:
        prototrt.Session(model, trust=pin)
    assert str(refused.value) == message(pin, files)
    result = run("run", "net.onnx", "--inputs", "in.npz", "-o", "out.npz", "--trust", pin)
    assert result.output.startswith(f"error: {message(pin, files).splitlines()[0]}")


def test_what_is_hashed_is_what_runs(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever exchanges the files after they were checked is too late."""
    pin, own = digest_beside(model), evaluator._OpenModel

    def exchanged(path: Path, device: str) -> evaluator._OpenModel:
        for name in ("net.onnx", "net.onnx.data"):
            Path(name).write_bytes(b"another")
        return own(path, device)

    monkeypatch.setattr(evaluator, "_OpenModel", exchanged)
    assert_same(prototrt.Session(model, trust=pin))


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_each_file_is_opened_once(folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Between two openings it could be exchanged."""
    pin = digest_beside(written_plan(folder))
    reads: list[str] = []

    def once(name: str, what: str, **limits: Any) -> bytes:
        reads.append(name)
        return Path(name).read_bytes()

    monkeypatch.setattr(manifest_reading, "read_regular", once)
    monkeypatch.setattr(plan_file, "read_regular", once)
    load_plan("net.plan", trust=pin)
    assert reads.count(f"net.plan{suffix}") == 1


def test_manifests_that_list_nothing(model: Path) -> None:
    """They are of prototrt 0.2, or their list leads elsewhere."""
    manifest = json.loads(Path("net.onnx.json").read_text())
    outside = {"product": {**manifest["files"]["product"], "file": "../net.onnx"}}
    for files in ({}, None, outside):
        Path("net.onnx.json").write_text(json.dumps({**manifest, "files": files}))
        with pytest.raises(ConversionError) as refused:
            prototrt.Session(model, trust=digest_beside(model))
        assert str(refused.value) == (
            "net.onnx.json: lists no files of a conversion\n"
            "  because prototrt writes the list since version 0.3\n"
            "  fix: convert the model again, and pin the digest of its new manifest"
        )


# ---------------------------------------------------------------- inspect


def test_inspect_checks_all_files(folder: Path) -> None:
    done("convert", DEPLOY, WEIGHTS, "-o", "net.py", "--emit-header", "net.h")
    pin = digest_beside(Path("net.py"))
    assert (
        "checked    all files are as the manifest lists them\n"
        in done("inspect", "net.py.json", "--trust", pin).stdout
    )
    Path("net.h").unlink()
    told = done("inspect", "net.py", "--trust", pin).stdout
    assert "all files are as the manifest lists them; not here: net.h" in told
    change_byte("net.safetensors")
    result = run("inspect", "net.py.json", "--trust", pin)
    assert (result.exit_code, result.output.splitlines()[0]) == (
        6,
        "error: net.safetensors: is not the file that its manifest lists",
    )


def test_trust_is_not_for_nets(folder: Path) -> None:
    Path("net.prototxt").write_text('layer { name: "x" type: "Input" top: "x" }')
    for words in (("run", "net.prototxt", "--inputs", "in.npz", "-o", "out.npz"), ("bench", "net.prototxt")):
        result = run(*words, "--trust", f"sha256:{'0' * 64}")
        assert (result.exit_code, result.output.splitlines()[-1]) == (
            2,
            "Error: --trust is for plans, but net.prototxt is not a plan",
        )


def test_engine_errors_exit_with_their_code() -> None:
    assert EngineError.exit_code == 6

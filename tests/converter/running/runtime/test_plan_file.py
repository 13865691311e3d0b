"""Plans and their manifests: what is believed, what is refused, and how that is said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, EngineError, UnreadableFileError
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime import plan_file, sources
from prototrt.converter.running.runtime.engine import Engine
from prototrt.converter.running.runtime.plan_file import is_plan, load_plan
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_tensorrt
from prototrt.tests.converter.running.runtime.support import written_plan
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.golden_cases import case_called

STREAM = case_called("lstm_stream_t1")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan that really was built, with its manifest."""
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")
    path = tmp_path_factory.mktemp("plans") / "net.plan"
    prototrt.build(dynamic_graph(), backend="rtx").save(path)
    return path


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    for file in saved.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / saved.name


@pytest.mark.trt
def test_the_manifest_says_what_the_graph_says(saved: Path) -> None:
    graph, file = dynamic_graph(), load_plan(saved)
    assert file.signature is not None
    wanted = Signature.of_graph(graph)
    assert list(map(str, file.signature.inputs)) == list(map(str, wanted.inputs))
    assert list(map(str, file.signature.outputs)) == list(map(str, wanted.outputs))
    assert file.signature.symbols == wanted.symbols
    assert (
        file.signature.stream_axes
        == wanted.stream_axes
        == {
            "x": 1,
            "cont": 1,
            "h": 1,
            **dict.fromkeys(("lstm_h_0", "lstm_c_0", "lstm_h_T", "lstm_c_T"), 1),
        }
    )
    assert [(pair.input.name, pair.output.name, pair.exposed) for pair in file.signature.recurrences] == [
        ("lstm_h_0", "lstm_h_T", False),
        ("lstm_c_0", "lstm_c_T", False),
    ]
    assert (file.backend, file.has_loops) == ("rtx", True)
    assert is_plan(saved)


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        manifest = json.loads(Path(f"{path}.json").read_text())
        change(manifest)
        Path(f"{path}.json").write_text(json.dumps(manifest))

    return edit


REFUSALS: dict[str, tuple[Callable[[Path], object], type[ConversionError], str]] = {
    "a plan that is not there": (
        lambda path: path.unlink(),
        UnreadableFileError,
        "{plan}: cannot be read: No such file or directory\n  fix: give a plan written by prototrt.convert(...)",
    ),
    "no manifest": (
        lambda path: Path(f"{path}.json").unlink(),
        EngineError,
        '{plan}: has no manifest: there is no "net.plan.json" beside it\n'
        "  because a plan is a program, and nothing says where this one comes from\n"
        "  fix: put the manifest beside it; or, if you trust whoever made it, use trust=True",
    ),
    "a plan of another size": (
        lambda path: path.write_bytes(b"vtrt"),
        EngineError,
        "{plan}: is not the plan that its manifest describes: it has 4 bytes, expected {size}\n"
        "  fix: convert the model again, or find the files that belong together",
    ),
    "no size": (
        edited(lambda manifest: manifest["plan"].update(bytes=None)),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: the size of the plan is None, expected a number of bytes\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "axes of another number": (
        edited(lambda manifest: manifest["inputs"][0].update(axes=["N"])),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: the axes of 'x' are ['N'], expected 3 of them\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "another plan": (
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        EngineError,
        "{plan}: is not the plan that its manifest describes: its SHA-256 is {found}, expected {sha256}\n"
        "  fix: convert the model again, or find the files that belong together",
    ),
    "no JSON": (
        lambda path: Path(f"{path}.json").write_text("{"),
        UnreadableFileError,
        "{plan}.json: is not JSON\n"
        "  because Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "brackets": (
        lambda path: Path(f"{path}.json").write_text("[" * 100_000),
        UnreadableFileError,
        "{plan}.json: is not JSON\n"
        "  because it is nested too deeply\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "another format": (
        edited(lambda manifest: manifest.update(format=99)),
        UnreadableFileError,
        "{plan}.json: is a manifest of format 99, expected 1\n"
        "  fix: use the prototrt that wrote it, or convert the model again",
    ),
    "no flavour": (
        edited(lambda manifest: manifest["tensorrt"].pop("flavour")),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n  because it is wrong or missing: 'flavour'\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "an unknown type": (
        edited(lambda manifest: manifest["inputs"][0].update(dtype="complex64")),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: 'complex64' is not a valid DType\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "an unknown flavour": (
        edited(lambda manifest: manifest["tensorrt"].update(flavour="lite")),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: the flavour 'lite' of TensorRT, expected rtx or enterprise\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "a size without range": (
        edited(lambda manifest: manifest["outputs"][0].update(shape=["B", 8])),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: the size 'B' of 'h': 'B' is neither a number nor a symbol with a range\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "an input that depends on the data": (
        edited(lambda manifest: manifest["inputs"][0].update(data_sizes=["B"])),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: the input 'x' has sizes that depend on the data\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "a count that is no output": (
        edited(lambda manifest: manifest["outputs"][0].update(counted_by={"2": "rows"})),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: 'h' is counted by 'rows', which is not an output\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "loops that are neither": (
        edited(lambda manifest: manifest.update(has_loops="maybe")),
        UnreadableFileError,
        "{plan}.json: is not a prototrt manifest\n"
        "  because it is wrong or missing: has_loops is 'maybe', expected true or false\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
}


@pytest.mark.trt
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, copied: Path) -> None:
    change, kind, message = REFUSALS[case]
    stated = json.loads(Path(f"{copied}.json").read_text())["plan"]
    facts = {"size": stated["bytes"], "sha256": stated["sha256"]}
    change(copied)
    found = hashlib.sha256(copied.read_bytes()).hexdigest() if copied.exists() else ""
    with pytest.raises(kind) as caught:
        load_plan(copied)
    assert str(caught.value) == message.format(plan=copied, found=found, **facts)


def test_a_plan_of_another_tensorrt_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written_plan(tmp_path)
    assert load_plan(path, version_of=lambda backend: "1.7.1").plan == b"vtrt and more"
    monkeypatch.setattr(plan_file, "_with_plan", None)
    with pytest.raises(EngineError) as caught:
        load_plan(path, version_of={"rtx": "1.8.0"}.__getitem__)
    assert str(caught.value) == (
        f"{path}: was built by TensorRT 1.7.1 (rtx), but 1.8.0 is installed here\n"
        "  fix: convert the model again with the TensorRT, and for the GPU, that will run it"
    )


def test_trust_is_for_plans_without_manifest(tmp_path: Path) -> None:
    path = tmp_path / "other.engine"
    path.write_bytes(b"ftrt....")
    assert load_plan(path, trust=True).backend == "enterprise"
    path.write_bytes(b"vtrt....")
    assert load_plan(path, trust=True).backend == "rtx"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.plan", b"", True),
        ("a.ENGINE", b"", True),
        ("a.trt", b"", True),
        ("a", b"ftrt\0\0", True),
        ("a.prototxt", b'name: "x"', False),
        ("a", b'name: "x"', False),
    ],
)
def test_telling_plans_from_nets(name: str, content: bytes, found: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert is_plan(tmp_path / name) is found
    assert not is_plan(tmp_path / "nowhere")


# ---------------------------------------------------------------- from a plan to a session


def fake_backend(monkeypatch: pytest.MonkeyPatch, graph: Graph) -> FakeDevice:
    """Plans are loaded by a fake TensorRT, which takes each for this graph."""
    device = FakeDevice()
    backend = Backend("rtx", fake_tensorrt(graph, device))
    monkeypatch.setattr(sources, "find_backend", lambda name: backend)
    return device


@pytest.mark.trt
def test_session_of_a_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dynamic_graph()
    device = fake_backend(monkeypatch, graph)
    feeds = continuing(2, 3, 0)
    wanted = prototrt.Session(graph).run(feeds)["h"]
    for source in (saved, str(saved)):
        with prototrt.Session(source, on="engine", device=device) as session:
            np.testing.assert_array_equal(session.run(feeds)["h"], wanted)
    with prototrt.Session(saved, device=device) as session:
        np.testing.assert_array_equal(session.run(feeds)["h"], wanted)
        with pytest.raises(ConversionError, match="which has no graph"):
            session.graph.verify()


@pytest.mark.trt
def test_session_of_a_graph_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dynamic_graph()
    device = fake_backend(monkeypatch, graph)
    with prototrt.Session(graph, on="engine", device=device) as session:
        assert session.graph is graph
        feeds = continuing(2, 3, 0)
        np.testing.assert_array_equal(session.run(feeds)["h"], prototrt.Session(graph).run(feeds)["h"])


def test_an_engine_without_manifest_knows_its_bindings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But no recurrent pairs: state is an input and an output like others."""
    graph = dynamic_graph()
    device = fake_backend(monkeypatch, graph)
    path = tmp_path / "a.plan"
    path.write_bytes(b"vtrt")
    state = {name: np.zeros((1, 3, 8), np.float32) for name in ("lstm_h_0", "lstm_c_0")}
    reference = prototrt.Session(graph)
    with prototrt.Session(path, trust=True, device=device) as session:
        assert session.signature.symbols["x.1"] == graph.symbols["N"]
        for call in range(3):
            feeds = continuing(2, 3, call)
            results = session.run({**feeds, **state})
            np.testing.assert_array_equal(results["h"], reference.run(feeds)["h"])
            state = {name: results[name.replace("_0", "_T")] for name in state}
        assert session.get_state() == {}
        with pytest.raises(ConversionError, match=r'^input "x" has x\.1 = 8, expected 1 to 7\n'):
            session.run({**continuing(2, 8, 0), **state})


def test_a_plan_that_tensorrt_cannot_load() -> None:
    graph, device = dynamic_graph(), FakeDevice()
    backend = Backend("rtx", fake_tensorrt(graph, device))
    with pytest.raises(EngineError) as caught:
        Engine(backend, b"bad", device, built_with="1.5.0")
    assert str(caught.value) == (
        "tensorrt_rtx 1.7.1 cannot load the plan, which 1.5.0 built\n"
        "  because the plan is bad\n"
        "  fix: convert the model again, with the TensorRT and on the kind of GPU that will run it;"
        " prototrt.doctor() says which TensorRT runs on this GPU"
    )


def test_a_manifest_of_other_bindings() -> None:
    graph, device = dynamic_graph(), FakeDevice()
    backend = Backend("rtx", fake_tensorrt(graph, device))
    other = Signature.of_graph(prototrt.rewrite(case_called("rnn_t5").load()))
    with pytest.raises(EngineError) as caught:
        Engine(backend, b"plan", device, other)
    assert str(caught.value) == (
        "the inputs in the manifest differ from those of the plan: lstm_c_0, lstm_h_0, rnn_h_0\n"
        "  fix: use the manifest that was written with the plan, or convert the model again"
    )


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            "graph",
            {"on": "gpu"},
            "on is 'gpu', expected one of reference, network, onnx, onnx-lstm, torch, tensorrt-python, opencv,"
            " openvino, openvino-f32, engine",
        ),
        ("plan", {"on": "network"}, "on is 'network', but an engine runs on 'engine' alone"),
    ],
)
def test_ways_that_are_none(source: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prototrt.Session(dynamic_graph() if source == "graph" else "a.plan", **options)  # type: ignore[arg-type]  # on is a keyword among others


def test_a_session_without_an_engine() -> None:
    with prototrt.Session(dynamic_graph()) as session, pytest.raises(ConversionError) as caught:
        session.engine.context(session.engine.workspace(0))
    assert str(caught.value) == (
        'this session does not run an engine\n  fix: make it with on="engine", and ask before it is closed'
    )


def test_an_engine_stays_where_it_is() -> None:
    graph, device = dynamic_graph(), FakeDevice()
    engine = Engine(Backend("rtx", fake_tensorrt(graph, device)), b"plan", device, Signature.of_graph(graph))
    with pytest.raises(ValueError, match="give no device"):
        prototrt.Session(engine, device="pycuda")

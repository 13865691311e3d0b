"""A session on the file of an ONNX model, which knows its recurrent pairs from the manifest beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import (
    BuildError,
    ConversionError,
    NetError,
    ShapeError,
    UnreadableFileError,
)
from prototrt.converter.backends.onnx import export, programs
from prototrt.converter.backends.onnx.file import write_model
from prototrt.converter.files.writing.publication import Publication
from prototrt.tests.command_line import run
from prototrt.tests.digit_strips import digits, probabilities, steps
from prototrt.tests.memory import little_memory
from prototrt.tests.small_nets import inputs_of, loaded

TANH = 'layer { name: "t" type: "TanH" bottom: "x" top: "y" }'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "stream.onnx"
    prototrt.export_onnx(digits("deploy_stream.prototxt"), path)
    return path


def test_state_is_carried_from_call_to_call(model: Path) -> None:
    session = prototrt.Session(model)
    assert session.on == "onnx"
    found = [session.run(feeds)["prob"] for feeds in steps(5)]
    np.testing.assert_allclose(found, np.reshape(probabilities(5), (5, 1, 1, 11)), atol=1e-5)
    assert sorted(session.state) == ["lstm1_c_0", "lstm1_h_0", "lstm2_c_0", "lstm2_h_0"]
    with pytest.raises(NetError, match="has no graph"):
        _ = session.graph


def test_other_ways_are_refused(model: Path) -> None:
    with pytest.raises(ValueError, match=r"^on is 'reference', but an ONNX model runs on 'onnx' alone$"):
        prototrt.Session(model, on="reference")


def no_file(model: Path) -> None:
    model.unlink()


def no_manifest(model: Path) -> None:
    Path(f"{model}.json").unlink()


def no_outputs(model: Path) -> None:
    change(model, lambda facts: facts.pop("outputs"))


def another_input(model: Path) -> None:
    change(model, lambda facts: facts["inputs"][0].update(name="image"))


def a_negative_size(model: Path) -> None:
    change(model, lambda facts: facts["inputs"][0].update(shape=["1-2", 1, 32, 16]))


def change(model: Path, edit: Callable[[dict[str, list[dict[str, object]]]], object]) -> None:
    manifest = Path(f"{model}.json")
    facts = json.loads(manifest.read_text())
    edit(facts)
    manifest.write_text(json.dumps(facts))


MESSAGES: dict[Callable[[Path], None], str] = {
    no_file: "MODEL: there is no such file\n  fix: give a model written by prototrt.convert(...)",
    no_manifest: "MODEL.json: there is no manifest\n"
    "  fix: put it beside the file that it describes, or convert the model again",
    no_outputs: "MODEL.json: is not a prototrt manifest\n"
    "  because it is wrong or missing: 'outputs'\n"
    "  fix: write the manifest again with prototrt.convert(...)",
    a_negative_size: "MODEL.json: is not a prototrt manifest\n"
    "  because it is wrong or missing: the size '1-2' of 'data' is negative\n"
    "  fix: write the manifest again with prototrt.convert(...)",
    another_input: "MODEL: has inputs that differ from its manifest: data, image\n"
    "  fix: use the manifest that was written with the model, or convert the net again",
}


@pytest.mark.parametrize("damage", MESSAGES, ids=lambda damage: damage.__name__)
def test_what_is_refused(model: Path, damage: Callable[[Path], None]) -> None:
    damage(model)
    with pytest.raises(UnreadableFileError) as caught:
        prototrt.Session(model)
    assert str(caught.value).replace(str(model), "MODEL") == MESSAGES[damage]


def small(folder: Path, nodes: str = "", **changes: object) -> Path:
    """A model with one state, whose manifest states it as changed; the nodes are ONNX's text."""
    onnx = pytest.importorskip("onnx")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    small (float[3, 2] x, float[M, 2] h) => (float[3, 2] y, float[K, 2] h_out)
    {{ y = Relu (x) {nodes or "h_out = Relu (h)"} }}"""
    onnx.save(onnx.parser.parse_model(text), folder / "small.onnx")
    value = {"dtype": "float32", "profile": {}, "shape": [3, 2]}
    inputs = [{"name": "x", **value, "shape": changes.get("x", [3, 2])}, {"name": "h", **value, **changes}]
    outputs = [{"name": "y", **value}, {"name": "h_out", **value}]
    pairs = [{"input": "h", "output": "h_out"}]
    manifest = {"format": 1, "inputs": inputs, "outputs": outputs, "recurrences": pairs}
    (folder / "small.onnx.json").write_text(json.dumps(manifest))
    return folder / "small.onnx"


@pytest.mark.parametrize(("size", "shape"), [("N", (-1, 2)), ("N-9", (-1, 2))])
def test_a_state_whose_size_no_input_gives(tmp_path: Path, size: str, shape: tuple[int, int]) -> None:
    session = prototrt.Session(small(tmp_path, shape=[size, 2], profile={"N": [1, 2, 16]}))
    with pytest.raises(ShapeError) as caught:
        session.run({"x": np.ones((3, 2), np.float32)})
    assert str(caught.value) == (
        f'the state "h" would have the shape {shape}\n'
        "  because the inputs of this call give one of its sizes no number, or a negative one\n"
        "  fix: give the state with the inputs, or convert the net again if its manifest was changed"
    )


def test_arrays_for_an_input_without_elements(tmp_path: Path) -> None:
    """The manifest is wrong: no number of such calls makes up the array."""
    np.savez(tmp_path / "in.npz", x=np.ones((3, 2), np.float32))
    model = str(small(tmp_path, x=[0, 2]))
    done = run("run", model, "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz"))
    assert (done.exit_code, 'input "x" has the shape (3, 2), expected (0, 2)' in done.output) == (3, True)


def test_names_of_a_model_reach_the_terminal_only_in_our_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime's log writes them as they are: one of a stranger could hold commands for the terminal."""
    onnx = pytest.importorskip("onnx")
    path = small(tmp_path, "rows = Constant <value_ints = [7, 7]> () h_out = Reshape (h, rows)")
    model = onnx.load(path)
    model.graph.node[-1].name = "\x1b]0;owned\x07"
    onnx.save(model, path)
    session = prototrt.Session(path)
    with pytest.raises(ConversionError, match=r"^onnxruntime fails\n"):
        session.run({"x": np.ones((3, 2), np.float32)})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("program", ["opencv", "openvino"])
def test_programs_write_no_names_to_the_terminal(
    program: Literal["opencv", "openvino"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if reason := programs.missing_program(program):
        pytest.skip(reason)

    def write_damaged(files: Publication, path: Path, model: Any, weights: Any) -> None:
        model.graph.node[0].op_type = model.graph.node[0].name = "\x1b]0;owned\x07"
        write_model(files, path, model, weights)

    monkeypatch.setattr(export, "write_model", write_damaged)
    graph = prototrt.rewrite(loaded(tmp_path, inputs_of({"x": (1, 3)}) + TANH))
    with pytest.raises(BuildError, match=f"^{program} refuses the model\n") as caught:
        prototrt.Session(graph, on=program)
    assert r"\x1b]0;owned\x07" in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_state_that_no_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 10**9)
    session = prototrt.Session(small(tmp_path, shape=[10**9, 2]))
    with little_memory(), pytest.raises(ConversionError) as caught:
        session.run({"x": np.ones((3, 2), np.float32)})
    assert str(caught.value) == (
        'the state "h" takes 8.0 GB, expected at most 1.0 GB\n'
        "  because that is 80 % of the memory of this machine\n"
        "  fix: use smaller sizes, or a machine with more memory"
    )

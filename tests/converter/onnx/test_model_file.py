"""A session on the file of an ONNX model, which knows its recurrent pairs from the manifest beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import NetError, UnreadableFileError
from prototrt.tests.digit_strips import digits, probabilities, steps


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


def change(model: Path, edit: Callable[[dict[str, list[dict[str, str]]]], object]) -> None:
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
    another_input: "MODEL: has inputs that differ from its manifest: data, image\n"
    "  fix: use the manifest that was written with the model, or convert the net again",
}


@pytest.mark.parametrize("damage", MESSAGES, ids=lambda damage: damage.__name__)
def test_what_is_refused(model: Path, damage: Callable[[Path], None]) -> None:
    damage(model)
    with pytest.raises(UnreadableFileError) as caught:
        prototrt.Session(model)
    assert str(caught.value).replace(str(model), "MODEL") == MESSAGES[damage]

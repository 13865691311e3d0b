"""What a page is told of a net: constants in the boxes that read them, fields, blobs and their distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prototrt import Model, load
from prototrt.converter.showing.page.facts import page_facts, with_constants_inside
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite_expansion
from prototrt.surgery.scales.scales_file import Counts, Scales, ValueScale
from prototrt.surgery.views.drawing import CONSTANT, FROM_CONSTANT, USER, Drawing, DrawnFrame, DrawnNode
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS


def facts_of(model: Model, options: RewriteOptions | None = None) -> dict[str, Any]:
    options = options or RewriteOptions()
    expansion = expand(model, options=options)
    return page_facts(model, expansion, rewrite_expansion(model, expansion, options), options, None)


def test_constants_are_lines_of_their_readers() -> None:
    drawing = Drawing("net")
    with drawing.frame("scan", ("scan",), True):
        inner = drawing.node("add", ("add",), USER)
        for text in ("3x3", "0.5"):
            drawing.edge(drawing.node(text, (text,), CONSTANT), inner, "", FROM_CONSTANT)
    after = drawing.node("after", ("after",), USER)
    drawing.edge(inner, after, "2")
    shown = with_constants_inside(drawing)
    frame, last = shown.items
    assert isinstance(frame, DrawnFrame)
    (add,) = frame.items
    assert isinstance(add, DrawnNode)
    assert isinstance(last, DrawnNode)
    assert (add.lines, last.lines) == (("add", "reads 3x3, 0.5"), ("after",))
    assert [(edge.source, edge.target) for edge in shown.edges] == [(inner, after)]
    assert len(drawing.edges) == 3


def test_facts_of_a_layer() -> None:
    model = load(DEPLOY, WEIGHTS)
    facts = facts_of(model)
    layer = next(layer for layer in facts["layers"] if layer["name"] == "conv1")
    assert (layer["type"], layer["file"], layer["place"]) == ("Convolution", DEPLOY, "line 22")
    fields = {name: (text, is_stated) for name, text, is_stated in layer["fields"]}
    assert fields["num_output"] == ("12", 1)
    assert fields["group"] == ("1", 0)
    assert "kernel_h" not in fields  # neither stated nor with a default
    assert layer["bottoms"] == [{"name": "data", "shape": "40x1x32x16"}]
    assert layer["tops"] == [{"name": "conv1", "shape": "40x12x32x16"}]
    (blob,) = layer["blobs"]
    assert model.layers[2].blobs is not None
    array = model.layers[2].blobs[0].array
    assert (blob["name"], blob["shape"], blob["step"]) == ("blobs[0]", "12x1x3x3", 1)
    assert (blob["low"], blob["high"]) == (array.min(), array.max())
    assert sum(blob["counts"]) == array.size == 108


def test_blobs_have_the_magnitudes_of_a_calibration(tmp_path: Path) -> None:
    scales = tmp_path / "scales.json"
    record = ValueScale(scale=0.01, largest=1.1, histogram=Counts(0.25, (3, 0, 1, 0, 4, 0)))
    scales.write_text(Scales({"data": record, "pool1": ValueScale(scale=0.5)}).text())
    model = load(DEPLOY)
    options = RewriteOptions(scales=str(scales), require_weights=False)
    facts = facts_of(model, options)
    (data,) = next(layer for layer in facts["layers"] if layer["name"] == "conv1")["bottoms"]
    assert (data["low"], data["high"], data["step"]) == (0, 1.25, 1)
    assert [(place, count) for place, count in enumerate(data["counts"]) if count] == [
        (0, 3),
        (9, 1),
        (19, 4),
    ]
    (pool,) = next(layer for layer in facts["layers"] if layer["name"] == "pool1")["tops"]
    assert pool == {"name": "pool1", "shape": "40x12x16x8"}


def test_weights_of_caffe2_have_their_names() -> None:
    folder = Path(__file__).parents[3] / "goldens" / "caffe2" / "ff_lenet"
    model = load(str(folder / "predict_net.pb"), str(folder / "init_net.pb"))
    with np.load(folder / "inputs.npz") as inputs:
        options = RewriteOptions(shapes={name: inputs[name].shape for name in inputs.files})
    facts = facts_of(model, options)
    layer = next(layer for layer in facts["layers"] if layer["type"] == "Conv")
    assert layer["words"] == ["input", "output"]
    assert [blob["name"] for blob in layer["blobs"]] == layer_inputs(model, layer["name"])[1:]
    assert [blob["name"] for blob in layer["bottoms"]] == layer_inputs(model, layer["name"])[:1]


def layer_inputs(model: object, name: str) -> list[str]:
    (layer,) = (layer for layer in model.layers if layer.name == name)  # type: ignore[attr-defined]
    return list(layer.message.input)


def test_layers_of_one_name_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }\n'
        'layer { name: "twice" type: "TanH" bottom: "x" top: "y" }\n'
        'layer { name: "twice" type: "Sigmoid" bottom: "y" top: "z" }\n'
    )
    model = load(str(file))
    facts = facts_of(model)
    for drawing in facts["drawings"]:
        boxes = [box for box in drawing["items"] if box["kind"] == USER]
        numbers = [number for box in boxes for number, _ in box["parts"]]
        assert [facts["layers"][number]["type"] for number in numbers] == ["TanH", "Sigmoid"]


def test_pairs_are_those_of_the_graph() -> None:
    model = load(STREAM, WEIGHTS)
    assert [pair["input"] for pair in facts_of(model)["pairs"]]
    assert facts_of(model, RewriteOptions(state="zero"))["pairs"] == []

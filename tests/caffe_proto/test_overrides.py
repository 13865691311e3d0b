"""Fields that are set from outside the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "conv1.1" type: "InnerProduct" bottom: "data" top: "fc"
  inner_product_param { num_output: 4 axis: 2 weight_filler { type: "xavier" } } }
layer { name: "lstm1" type: "LSTM" bottom: "fc" bottom: "cont" top: "lstm1"
  recurrent_param { num_output: 5 } }
layer { name: "lstm2" type: "LSTM" bottom: "lstm1" bottom: "cont" top: "lstm2"
  recurrent_param { num_output: 6 cell_clip: 2 } }
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    file = tmp_path / "net.prototxt"
    file.write_text(NET)
    return file


@pytest.mark.parametrize(
    ("key", "setting", "layer", "field", "expected"),
    [
        ("lstm1.recurrent_param.num_output", "7", "lstm1", "recurrent_param.num_output", 7),
        ("lstm1.recurrent_param.num_output", 7, "lstm1", "recurrent_param.num_output", 7),
        ("lstm*.recurrent_param.cell_clip", "0.5", "lstm2", "recurrent_param.cell_clip", 0.5),
        ("*.recurrent_param.cell_activation", "ReLU", "lstm1", "recurrent_param.cell_activation", "ReLU"),
        ("lstm1.recurrent_param.cell_activation", '"ELU"', "lstm1", "recurrent_param.cell_activation", "ELU"),
        ("lstm1.recurrent_param.peephole", True, "lstm1", "recurrent_param.peephole", True),
        ("lstm1.recurrent_param.bidirectional", "SUM", "lstm1", "recurrent_param.bidirectional", 2),
        ("lstm?.recurrent_param.hidden", "8,6", "lstm2", "recurrent_param.hidden", [8, 6]),
        ("lstm1.recurrent_param.hidden", [3], "lstm1", "recurrent_param.hidden", [3]),
        ("lstm1.type", "GRU", "lstm1", "type", "GRU"),
        (
            "conv1.1.inner_product_param.weight_filler.type",
            "constant",
            "conv1.1",
            "inner_product_param.weight_filler.type",
            "constant",
        ),
    ],
)
def test_override(net: Path, key: str, setting: Any, layer: str, field: str, expected: object) -> None:
    model = prototrt.load(net, overrides={key: setting})
    found: Any = next(one for one in model.layers if one.name == layer).message
    for name in field.split("."):
        found = getattr(found, name)
    assert (list(found) if isinstance(expected, list) else found) == expected


@pytest.mark.parametrize("shapes", ["", "shape { dim: 2 dim: 3 dim: 4 }"])
def test_a_list_of_messages_has_its_only_one_changed(tmp_path: Path, shapes: str) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(f'layer {{ name: "data" type: "Input" top: "data" input_param {{ {shapes} }} }}')
    (layer,) = prototrt.load(file, overrides={"data.input_param.shape.dim": "5,6"}).layers
    assert [list(shape.dim) for shape in layer.message.input_param.shape] == [[5, 6]]


def test_a_list_of_several_messages_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    shapes = "shape { dim: 1 } shape { dim: 2 }"
    file.write_text(f'layer {{ name: "d" type: "Input" top: "a" top: "b" input_param {{ {shapes} }} }}')
    with pytest.raises(ConversionError) as caught:
        prototrt.load(file, overrides={"d.input_param.shape.dim": 5})
    assert str(caught.value) == (
        f'{file}: override "d.input_param.shape.dim=5": layer "d" has 2 of "shape", expected one\n'
        "  fix: change the file instead"
    )


def test_other_layers_stay_as_they_are(net: Path) -> None:
    model = prototrt.load(net, overrides={"lstm1.recurrent_param.cell_clip": "1"})
    assert next(one for one in model.layers if one.name == "lstm2").param.cell_clip == 2


def test_only_types_that_read_a_message_get_it(net: Path) -> None:
    model = prototrt.load(net, overrides={"*.recurrent_param.cell_clip": "1"})
    stating = [layer.name for layer in model.layers if layer.message.HasField("recurrent_param")]
    assert stating == ["lstm1", "lstm2"]


def test_the_type_that_an_override_gives_counts(net: Path) -> None:
    overrides = {"conv1.1.relu_param.negative_slope": "0.5", "conv1.1.type": "ReLU"}
    model = prototrt.load(net, overrides=overrides)
    assert next(layer for layer in model.layers if layer.name == "conv1.1").param.negative_slope == 0.5


@pytest.mark.parametrize(
    ("key", "setting", "expected"),
    [
        (
            "lstm9.recurrent_param.num_output",
            "7",
            'no layer is called "lstm9"\n  fix: use cont, conv1.1, data, lstm1 or lstm2',
        ),
        (
            "lstm1.recurrent_param.cell_activatoin",
            "ReLU",
            'RecurrentParameter has no field "cell_activatoin"\n  fix: use cell_activation',
        ),
        (
            "lstm1.recurrent_param.num_output",
            "many",
            "num_output is many, expected a whole number from 0 to 4294967295\n"
            '  fix: set it as in "num_output=1"',
        ),
        (
            "lstm1.recurrent_param.num_output",
            "7 8",
            'num_output is 7 8, expected one value\n  fix: set it as in "num_output=1"',
        ),
        (
            "lstm1.recurrent_param.num_output",
            [7, 8],
            '"num_output" has one value, found 2\n  fix: set it as in "num_output=7"',
        ),
        (
            "lstm1.clip_param",
            "1",
            '"clip_param" is a message\n  fix: name one of its fields: max or min',
        ),
        (
            "lstm*.lstm_param.clipping_threshold",
            "1",
            'no layer called "lstm*" reads "lstm_param"\n'
            "  because LSTM reads recurrent_param\n  fix: set a field of recurrent_param",
        ),
        (
            "[cl]*1.relu_param.negative_slope",
            "1",
            'no layer called "[cl]*1" reads "relu_param"\n'
            "  because InnerProduct reads inner_product_param, LSTM reads recurrent_param\n"
            "  fix: set a field of inner_product_param or recurrent_param",
        ),
        (
            "lstm1.recurrent_param.bidirectional",
            "BOTH",
            'bidirectional is BOTH, expected CONCAT, NONE or SUM\n  fix: set it as in "bidirectional=NONE"',
        ),
    ],
)
def test_refusal(net: Path, key: str, setting: Any, expected: str) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.load(net, overrides={key: setting})
    shown = ",".join(map(str, setting)) if isinstance(setting, list) else setting
    assert str(caught.value) == f'{net}: override "{key}={shown}": {expected}'

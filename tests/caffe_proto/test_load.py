"""Whole models, as Caffe itself ran them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto import Model, load
from prototrt.caffe_proto.common.errors import WeightsError
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.weights.caffemodel import open_caffemodel
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.fresh_python import run_python

ROOT = Path(__file__).parents[2]
CAFFE = ROOT / "tests" / "goldens" / "caffe"
CASES = json.loads((CAFFE / "index.json").read_text())
SHARED = ROOT.parent / "shared" / "models"


def loaded(case: dict[str, Any]) -> Model:
    folder = CAFFE / case["case"]
    weights = folder / case["weights_file"]
    return load(
        folder / "model.prototxt",
        weights,
        phase=case["phase"],
        level=case["level"],
        stages=case["stages"],
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_golden(case: dict[str, Any]) -> None:
    model = loaded(case)
    written = {value for layer in model.layers for value in layer.tops}
    assert all(value in written for layer in model.layers for value in layer.bottoms)
    assert len(written) == sum(len(layer.tops) for layer in model.layers)
    assert set(case["outputs"]) <= set(model.blobs)
    for layer in model.layers:
        for blob in layer.blobs or ():
            assert blob.array.shape == blob.shape
            assert np.isfinite(blob.array).all()


@pytest.mark.parametrize(
    "path", sorted(CAFFE.glob("*/model.caffemodel")), ids=lambda path: str(path.parent.name)
)
def test_blobs_are_those_that_protobuf_reads(path: Path) -> None:
    net = message_class("NetParameter").FromString(path.read_bytes())
    layers = [*net.layer, *(layer.layer if layer.HasField("layer") else layer for layer in net.layers)]
    weights = open_caffemodel(open_input(path, "a caffemodel"))
    assert list(weights.names()) == [layer.name for layer in layers if layer.blobs]
    for layer in layers:
        for stored, blob in zip(weights.blobs_of(layer.name) or (), layer.blobs, strict=True):
            assert stored is not None
            np.testing.assert_array_equal(stored.array.ravel(), np.array(blob.data, np.float32))


# train_val_digits records the outputs of the net that is left when training is cut away.
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["case"] != "train_val_digits"], ids=lambda case: str(case["case"])
)
def test_outputs_are_those_of_caffe(case: dict[str, Any]) -> None:
    model = loaded(case)
    assert [blob for blob in sorted(model.blobs) if model.blobs[blob] in model.outputs] == sorted(
        case["outputs"]
    )


def test_in_place_chain_on_a_convolution() -> None:
    model = loaded({**CASES[0], "case": "batchnorm_scale_relu_inplace", "weights_file": "model.caffemodel"})
    chain = [(layer.name, layer.bottoms, layer.tops) for layer in model.layers[1:]]
    assert [step[1] for step in chain[1:]] == [step[2] for step in chain[:-1]]
    assert chain[0][2] == (f"{model.layers[1].top_blob(0)}@{chain[0][0]}",)
    assert chain[-1][2] == (model.layers[-1].top_blob(0),)


def test_weights_are_views_of_the_file() -> None:
    model = loaded({**CASES[0], "case": "conv_plain", "weights_file": "model.caffemodel"})
    blobs = next(layer.blobs for layer in model.layers if layer.type == "Convolution")
    assert blobs is not None
    assert all(not blob.array.flags.owndata and not blob.array.flags.writeable for blob in blobs)


def test_lines_point_into_the_file() -> None:
    for case in CASES:
        path = CAFFE / case["case"] / "model.prototxt"
        lines = path.read_text().splitlines()
        for layer in loaded(case).layers:
            line = lines[layer.origin.line - 1]
            assert line.lstrip().startswith(("layer", "input")), f"{layer.origin} is {line!r}"
            assert layer.origin.file == str(path)


@pytest.mark.skipif(not SHARED.exists(), reason="published models are not part of the repository")
@pytest.mark.parametrize(
    "path",
    sorted(SHARED.glob("*/*.prototxt")),
    ids=str,
)
def test_published_models(path: Path) -> None:
    weights = path.with_suffix(".caffemodel")
    model = load(path, weights if weights.exists() else None, allow_unknown=True)
    assert model.layers
    if weights.exists():
        blobs = [blob for layer in model.layers for blob in layer.blobs or ()]
        assert blobs
        assert all(np.isfinite(blob.array).all() for blob in blobs)


def test_blobs_in_the_text_that_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(
        'layer { name: "a" type: "ReLU" bottom: "x" top: "y" blobs { shape { dim: 2 } data: 1 } }'
    )
    with pytest.raises(WeightsError) as caught:
        load(file)
    assert str(caught.value) == (
        f'{file}:1: layer "a" (ReLU), blobs 0: the stored shape (2,) has 2 elements, found 1\n'
        "  fix: state a shape and as many numbers as it has, or leave blobs out of the file"
    )


def test_how_often_files_are_opened() -> None:
    """Once: a file is recognized and read by the same bytes."""
    script = """
import collections, os, sys
import prototrt
opened = collections.Counter()
sys.addaudithook(lambda event, args: event == "open" and opened.update([os.path.basename(str(args[0]))]))
prototrt.load(*sys.argv[1:])
print(*(opened[os.path.basename(name)] for name in sys.argv[1:]))
"""
    assert run_python("-c", script, DEPLOY, WEIGHTS).stdout.split() == ["1", "1"]


def test_a_solver_with_its_net(tmp_path: Path) -> None:
    """The net is read, on its own lines."""
    file = tmp_path / "solver.prototxt"
    file.write_text(
        'base_lr: 0.1 # net_param { layer { type: "No" } }\nsnapshot_prefix: "net_param {"\n'
        'train_net_param { layer { name: "t" type: "Nothing" } }\n'
        'net_param {\n  layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }\n'
        '  layer { name: "y" type: "ReLU" bottom: "x" top: "y" }\n}\nmax_iter: 3\n'
    )
    layers = load(file).layers
    assert [(layer.type, layer.origin.line) for layer in layers] == [("Input", 5), ("ReLU", 6)]

"""``prototrt deploy``: a training net becomes a file that Caffe reads, and that computes the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt.cli import main
from prototrt.surgery.expansion.expand import expand

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "samples" / "digits"
SHAPES = ["--shape", "data:40x1x32x16", "--shape", "cont:40x1"]

# GoogLeNet's way to train: the same labels measured at two depths; and a second task with labels of its own.
HEADS = """
layer { name: "in" type: "Data" top: "x" top: "y" top: "z" data_param { batch_size: 2 }
  transform_param { crop_size: 4 force_color: true } }
layer { name: "low" type: "InnerProduct" bottom: "x" top: "low" inner_product_param { num_output: 3 } }
layer { name: "side" type: "InnerProduct" bottom: "low" top: "side" inner_product_param { num_output: 2 } }
layer { name: "loss1" type: "SoftmaxWithLoss" bottom: "side" bottom: "y" top: "loss1" loss_weight: 0.3 }
layer { name: "top1" type: "Accuracy" bottom: "side" bottom: "y" top: "top1" }
layer { name: "high" type: "InnerProduct" bottom: "low" top: "high" inner_product_param { num_output: 2 } }
layer { name: "loss3" type: "SoftmaxWithLoss" bottom: "high" bottom: "y" top: "loss3" loss_weight: 1 }
layer { name: "age" type: "InnerProduct" bottom: "low" top: "age" inner_product_param { num_output: 1 } }
layer { name: "loss2" type: "EuclideanLoss" bottom: "age" bottom: "z" top: "loss2" loss_weight: 0.5 }
"""


def deploy(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["deploy", *arguments])


def test_digits_cut_down_give_the_numbers_of_the_sample(tmp_path: Path) -> None:
    target = tmp_path / "deploy.prototxt"
    result = deploy(str(DIGITS / "train_val.prototxt"), "-o", str(target), *SHAPES)
    assert result.exit_code == 0
    assert os.listdir(tmp_path) == ["deploy.prototxt"]
    model = prototrt.load(target, DIGITS / "digits.caffemodel")
    assert model.warnings == ()
    expected = np.load(DIGITS / "expected.npz")
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0
    session = prototrt.Session(prototrt.rewrite(model), on="reference")
    outputs = session.run({"data": expected["data"][0], "cont": cont})
    np.testing.assert_allclose(outputs["prob"], expected["prob"][0], atol=1e-5)


def test_a_blob_that_no_layer_makes_is_an_input_if_it_has_a_shape(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 2 } }'
    )
    assert deploy(str(net)).stderr == (
        f'error: {net}:1: layer "ip" (InnerProduct), bottom "x": no layer before this one makes it\n'
        "  fix: make it an input: --shape x:NxI; "
        "the layers fit with --shape x:1x256 (I is a guess)\n"
    )
    result = deploy(str(net), "--shape", "x:4x3", "-q")
    assert result.exit_code == 0, result.stderr
    (tmp_path / "deploy.prototxt").write_text(result.stdout)
    graph = prototrt.rewrite(prototrt.load(tmp_path / "deploy.prototxt", random_weights=1))
    assert [(value.name, value.shape) for value in graph.inputs] == [("x", (4, 3))]


def test_the_text_is_printed_where_no_file_is_named() -> None:
    result = deploy(str(DIGITS / "train_val.prototxt"), *SHAPES, "-q")
    assert result.exit_code == 0
    assert result.stdout.startswith('name: "digits_train"\nlayer {\n  name: "data"\n  type: "Input"\n')
    assert result.stderr == ""


def test_every_input_needs_a_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIGITS)
    result = deploy("train_val.prototxt", "-o", str(tmp_path / "x"), "--shape", "image:1x2")
    assert result.exit_code == 3
    assert os.listdir(tmp_path) == []
    assert result.stderr == (
        'error: train_val.prototxt: a shape is given for "image", which is not an input\n'
        "  fix: name one of the inputs: data, cont\n"
        'train_val.prototxt: the file states no shape for the inputs "data" (line 21), "cont" (line 21)\n'
        "  fix: give the shapes: --shape data:40xCxHxW --shape cont:40xN; the layers fit with --shape data:40x16x32x16"
        ' --shape cont:40x16 ("data (40, 16, 32, 16), cont (40, 16)" is in the file or its name)\n'
        "2 problems\n"
    )


def test_auxiliary_losses_fall_away_and_other_tasks_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(HEADS)
    model = prototrt.load("net.prototxt", random_weights=1)
    assert [layer.name for layer in model.layers] == ["in", "low", "high", "prob", "age"]
    assert model.outputs == ("age", "prob")
    assert model.warnings[3:6] == (
        'net.prototxt:5: layer "side" (InnerProduct): dropped: the deployed net does not need it',
        'net.prototxt:6: layer "loss1" (SoftmaxWithLoss): dropped: it only helps training, because it has '
        'loss_weight 0.3 and measures by the same labels as "loss3" with loss_weight 1',
        'net.prototxt:7: layer "top1" (Accuracy): dropped: it only computes a metric',
    )
    graph = expand(model).graph
    assert [value.shape for value in graph.outputs] == [(2, 1), (2, 2)]

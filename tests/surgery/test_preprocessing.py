"""Mean and scale of data layers: told, or folded into the graph; numbers worked by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.command_line import run as run_command

FILE = 'mean_file: "mean.binaryproto"'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(transform: str, batch: int = 2, shape: str = "", kind: str = "Data") -> prototrt.Model:
    Path("net").mkdir(exist_ok=True)
    Path("net/net.prototxt").write_text(
        f'layer {{ name: "in" type: "{kind}" top: "x" top: "y" data_param {{ batch_size: {batch} }}\n'
        f"  transform_param {{ force_color: true {transform} }} }}\n"
        'layer { name: "out" type: "Power" bottom: "x" top: "out" power_param { scale: 2 } }'
    )
    return prototrt.load("net/net.prototxt", random_weights=1)


def save_mean(array: Array, folder: str = ".") -> None:
    blob = message_class("BlobProto")(
        num=1, channels=array.shape[0], height=array.shape[1], width=array.shape[2]
    )
    blob.data.extend(array.ravel().tolist())
    Path(folder, "mean.binaryproto").write_bytes(blob.SerializeToString())


def graph_of(transform: str, **options: Any) -> Graph:
    return prototrt.rewrite(net(transform), shapes={"x": (2, 3, 2, 2)}, preprocess=True, **options)


def run(graph: Graph, images: Array) -> Array:
    results = prototrt.Session(graph, on="reference").run({"x": images})
    result: Array = results["out"]
    return result


IMAGES = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
MEAN = np.arange(48, dtype=np.float32).reshape(3, 4, 4)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("crop_size: 2 scale: 0.5", IMAGES),
        ("crop_size: 2 mean_value: 10", (IMAGES - 10) * 2),
        (
            "crop_size: 2 mean_value: 10 mean_value: 20 mean_value: 30 scale: 0.25",
            np.stack([(IMAGES[:, channel] - 10 * (channel + 1)) * 0.5 for channel in range(3)], 1),
        ),
        # Of a mean of 4 x 4 the middle counts: in each channel rows 1 and 2, columns 1 and 2.
        (
            f"crop_size: 2 {FILE} scale: 0.5",
            IMAGES - np.array([[[5, 6], [9, 10]], [[21, 22], [25, 26]], [[37, 38], [41, 42]]], np.float32),
        ),
    ],
)
def test_first_nodes(transform: str, expected: Array) -> None:
    save_mean(MEAN)
    graph = graph_of(transform)
    assert [value.name for value in graph.inputs] == ["x"]
    assert not any("transformed" in warning for warning in graph.warnings)
    np.testing.assert_array_equal(run(graph, IMAGES), expected)


def test_a_mean_of_the_whole_image() -> None:
    save_mean(MEAN[:, :2, :2])
    expected = (
        IMAGES - np.array([[[0, 1], [4, 5]], [[16, 17], [20, 21]], [[32, 33], [36, 37]]], np.float32)
    ) * 2
    np.testing.assert_array_equal(run(graph_of(FILE), IMAGES), expected)


def test_a_mean_beside_the_prototxt_and_its_provenance() -> None:
    model = net(f"crop_size: 2 {FILE}")
    save_mean(MEAN, "net")
    graph = prototrt.rewrite(model, preprocess=True)
    assert [(source.role, source.file) for source in graph.sources] == [
        ("prototxt", "net/net.prototxt"),
        ("mean", "net/mean.binaryproto"),
    ]


def test_without_preprocess_it_is_told_and_no_file_is_needed() -> None:
    graph = prototrt.rewrite(net(f"crop_size: 2 {FILE} scale: 0.5 mirror: true"))
    assert graph.warnings[-1] == (
        'net/net.prototxt:1: layer "in" (Input): feed "x" transformed, as in training: minus the mean in '
        "mean.binaryproto, then times 0.5; or let the engine do it with preprocess=True"
    )
    np.testing.assert_array_equal(run(graph, IMAGES), IMAGES * 2)


def test_mirroring_is_left_out() -> None:
    assert graph_of("crop_size: 2 scale: 2 mirror: true").warnings[-1] == (
        'net/net.prototxt:1: layer "in" (Input): mirror is ignored: Caffe mirrors at random'
    )


def test_nothing_to_preprocess() -> None:
    assert graph_of("crop_size: 2").warnings[-1] == (
        "preprocess has no effect: no data layer states a mean or a scale"
    )


def test_any_batch() -> None:
    save_mean(MEAN)
    model = net(f"crop_size: 2 {FILE}")
    graph = prototrt.rewrite(
        model, preprocess=True, min_shapes={"x": (1, 3, 2, 2)}, max_shapes={"x": (4, 3, 2, 2)}
    )
    assert graph.outputs[0].shape == ("N", 3, 2, 2)


MISTAKES = {
    "no file": (
        FILE,
        'net/net.prototxt:1: layer "in" (Input), transform_param: mean_file mean.binaryproto does not exist\n'
        "  because prototrt looks in the working directory, then in the folder of the prototxt\n"
        "  fix: put it there, or omit preprocess and subtract the mean yourself",
    ),
    "both means": (
        f"{FILE} mean_value: 1",
        'net/net.prototxt:1: layer "in" (Input), transform_param: '
        "has a mean_file and a mean_value, expected one of them\n"
        "  fix: remove mean_value to subtract the image, or mean_file to subtract the numbers",
    ),
    "two values for three channels": (
        "mean_value: 1 mean_value: 2",
        'net/net.prototxt:1: layer "in" (Input), transform_param: '
        "has 2 mean_value, expected 1 or 3, one per channel\n"
        "  fix: state mean_value once, or once per channel",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    transform, message = MISTAKES[case]
    with pytest.raises(ConversionError) as caught:
        graph_of(transform)
    assert str(caught.value) == message


def test_a_mean_of_another_size() -> None:
    save_mean(MEAN)
    with pytest.raises(ConversionError) as caught:
        graph_of(FILE)
    assert str(caught.value) == (
        'net/net.prototxt:1: layer "in" (Input), top "x": the mean image mean.binaryproto has the shape '
        "(1, 3, 4, 4), expected (1, 3, 2, 2)\n"
        '  fix: give the input the shape of the mean image: shapes={"x": (2, 3, 4, 4)}'
    )


def test_a_web_page_for_a_mean() -> None:
    Path("mean.binaryproto").write_text("<!DOCTYPE html>")
    with pytest.raises(ConversionError, match="this is a web page, expected a mean file"):
        graph_of(FILE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "--random-weights", "1", "-o", "mean.plan"],
        ["run", "--random-weights", "1", "--inputs", "in.npz", "-o", "mean.npz"],
        ["dot", "--stage", "rewritten", "-o", "mean.dot"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_writes_over_the_mean_image(arguments: list[str]) -> None:
    """By another name of the file: no command writes a file with its suffix."""
    save_mean(MEAN)
    os.link("mean.binaryproto", arguments[-1])
    before = Path("mean.binaryproto").read_bytes()
    net(FILE)
    np.savez("in.npz", x=np.zeros((2, 3, 4, 4), np.float32))
    command, *rest = arguments
    result = run_command(command, "net/net.prototxt", "--shape", "x:2x3x4x4", "--preprocess", *rest)
    assert result.exit_code == 2, result.output
    assert result.stderr.endswith(
        'Error: -o would overwrite "mean.binaryproto", which is read\n  fix: give another output file\n'
    )
    assert Path("mean.binaryproto").read_bytes() == before

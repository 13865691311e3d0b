"""The delta of a recurrent layer, tiled: in the graph, in TensorRT's network, and in its numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt import Way
from prototrt.cli import main
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.ops import Tile
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS, Case, caffe_cases, check, rewritten
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.samples import runs_on_ways

CASES = [case for case in caffe_cases() if case.is_recurrent]
VARIANTS = recurrent_cases()
KNOWN_CONT = {"net_crnn"}
"""Nets whose cont is a constant: their delta is computed beforehand."""


def deltas(graph: Graph) -> list[str]:
    """The Tiles that surgery made of cont."""
    return [node.name for node in walk(graph) if isinstance(node.op, Tile) and node.name.startswith("__")]


PARTS = {
    "__lstm_cont": "Reshape",
    "__lstm_delta": "Tile, axis 2, copies 8",
    "__lstm_delta_product_h": "Multiply",
    "__lstm_delta_product_c": "Multiply",
    "__lstm_kept": "Multiply",
    "__lstm_written": "Multiply",
    "__lstm_c": "Add",
    "__lstm_h": "Multiply",
}
"""The four parts of the processed net of an LSTM: reshape, Tile, delta products, eltwise."""
PAGE = (ROOT / "docs" / "how-it-works.md").read_text()


def test_the_parts_of_an_lstm_are_drawn(folder: Path) -> None:
    """By the commands of the page, which names all of them, and shows what they draw."""
    Path("lstm.prototxt").write_text(PAGE.partition("```protobuf\n")[2].partition("```")[0])
    *before, after = re.findall(r"^    prototrt (dot lstm.prototxt.*) -o (.*)\.svg$", PAGE, re.MULTILINE)
    drawings = [done(*command.split()).stdout for command, _ in (*before, after)]
    named = {node: kind for node in PARTS for kind in re.findall(rf'"{node}\\n([^"]*)"', drawings[-1])}
    assert {node: named[node].partition(" to ")[0] for node in PARTS} == PARTS
    assert all(f"`{node}`" in PAGE for node in PARTS)
    assert "__lstm" not in drawings[0]
    for _, name in (*before, after):
        assert f"(pictures/{name}.svg)" in PAGE
    picture = (ROOT / "docs" / "pictures" / f"{after[1]}.svg").read_text()
    assert {node for node in PARTS if f">{node}<" in picture} == {*PARTS}
    assert "Tile" not in done("dot", "lstm.prototxt", "--stage", "rewritten").stdout


def test_the_graph_of_an_lstm_as_text(check_text: Callable[[Path, str], None]) -> None:
    folder = GOLDENS / "tile" / "lstm"
    model = prototrt.load(folder / "net.prototxt", random_weights=1)
    check_text(folder / "graph.txt", prototrt.rewrite(model, tile="keep").text())
    assert deltas(prototrt.rewrite(model)) == []


@pytest.mark.parametrize(("case", "on"), runs_on_ways([(case,) for case in CASES], lambda case: case.words))
def test_recurrent_golden(case: Case, on: Way) -> None:
    graph = rewritten(case, case.arrays("inputs")[0], tile="keep")
    assert bool(deltas(graph)) == (str(case) not in KNOWN_CONT)
    check(case, on, tile="keep")


@pytest.mark.trt
@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_variant(case: RecurrentCase, tmp_path: Path) -> None:
    net = case.net()
    graph = prototrt.rewrite(net.load(tmp_path), outputs=list(net.expected), tile="keep")
    # A projected state is narrower than the cell: one delta must fit both, and stays one column.
    assert bool(deltas(graph)) == (not case.meta.get("proj_size"))
    results = prototrt.Session(graph, on="network").run(net.feeds)
    for name, wanted in net.expected.items():
        np.testing.assert_allclose(results[name], wanted, *case.tolerance, err_msg=name)


@pytest.mark.trt
def test_native_is_a_slice_that_wraps() -> None:
    model = prototrt.load(GOLDENS / "tile" / "lstm" / "net.prototxt", random_weights=1)
    backend = find_backend("rtx")
    network = network_of(prototrt.rewrite(model, tile="keep"), backend).definition
    layers = {network.get_layer(index).name: network.get_layer(index) for index in range(network.num_layers)}
    delta = layers["__lstm1_delta"]
    assert delta.type == backend.trt.LayerType.SLICE
    delta.__class__ = backend.trt.ISliceLayer
    assert delta.mode == backend.trt.SampleMode.WRAP
    assert tuple(delta.get_output(0).shape) == (3, 2, 5)


@pytest.mark.trt
def test_native_builds_with_any_number_of_steps() -> None:
    model = prototrt.load(GOLDENS / "tile" / "lstm" / "net.prototxt", random_weights=1)
    largest = {"x": (9, 8, 4), "cont": (9, 8)}
    graph = prototrt.rewrite(model, max_shapes=largest, sequence="loop", tile="keep")
    assert deltas(graph)
    assert prototrt.build(graph, backend="rtx").plan.nbytes


# ---------------------------------------------------------------- convert --tile


def converted(target: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["convert", DEPLOY, WEIGHTS, "-o", str(target), *options])


@pytest.mark.trt
def test_convert_keeps_the_tiles_of_the_sample(tmp_path: Path) -> None:
    layers = []
    for way in ("broadcast", "native"):
        result = converted(tmp_path / way, "--backend", "rtx", "--tile", way, "--verify")
        assert result.exit_code == 0, result.output
        layers.append(json.loads((tmp_path / f"{way}.json").read_text())["layers"])
    # For each LSTM the Tile, and a Reshape that becomes one with another where there is no Tile between them.
    assert layers[1] == layers[0] + 4


def test_convert_writes_tiles_to_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    target = tmp_path / "digits.onnx"
    for way, count in (("native", 2), ("broadcast", 0)):
        assert converted(target, "--tile", way, "--verify").exit_code == 0
        kinds = [node.op_type for node in onnx.load(target).graph.node]
        assert kinds.count("Tile") == count


@pytest.mark.trt
def test_convert_has_no_plugin_on_rtx(tmp_path: Path) -> None:
    result = converted(tmp_path / "digits.plan", "--backend", "rtx", "--tile", "plugin")
    assert result.exit_code == 4
    assert result.stderr == (
        "error: backend rtx cannot use the Tile plugin\n"
        "  because TensorRT for RTX does not support plugins\n"
        "  fix: use --tile broadcast, the default, or --tile native: both give the same numbers;"
        " or --backend enterprise\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digits.onnx", [], "--tile plugin is for engines, but FILE ends in .onnx"),
        (
            "digits.plan",
            ["--verify"],
            "--verify computes the network in NumPy, which cannot run a plugin\n"
            "  fix: verify with --tile native, which differs only in the plugin",
        ),
    ],
)
def test_convert_refuses_the_plugin_where_it_cannot_be(
    tmp_path: Path, name: str, options: list[str], message: str
) -> None:
    result = converted(tmp_path / name, "--tile", "plugin", *options)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_tile_must_be_a_known_way() -> None:
    model = prototrt.load(GOLDENS / "tile" / "lstm" / "net.prototxt", random_weights=1)
    with pytest.raises(
        ValueError, match=r"^tile is 'copy', expected one of broadcast, keep, native, plugin\n"
    ):
        prototrt.rewrite(model, tile="copy")  # type: ignore[call-overload]  # the mistake

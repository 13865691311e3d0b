"""The keys of manifests are those that docs/manifest.md explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.converter.options import BuildOptions, ConvertOptions
from prototrt.converter.product import Product
from prototrt.surgery.ir import Graph, LeftOut

ROOT = Path(__file__).parents[4]
DIGITS = ROOT / "samples" / "digits"
WHOLE = ("onnx", "verification")
"""Explained elsewhere: their own keys are not listed."""
BY_NAME = ("files", "profile", "sources")
"""Keyed by names of the user or of roles."""
VARYING = {"data": (1, 1, 32, 16), "cont": (1, 1)}


def documented(kind: str) -> set[str]:
    """The keys of a plan's or an ONNX model's manifest, as the table has them."""
    rows = re.findall(r"^\| (`.+?`) \| (\w+) \|", (ROOT / "docs" / "manifest.md").read_text(), re.MULTILINE)
    return {key for cell, where in rows if where in (kind, "both") for key in re.findall("`(.+?)`", cell)}


def keys(item: Any, path: str = "") -> Iterator[str]:
    """Every path to a number, a text or an empty list."""
    if isinstance(item, dict) and path not in WHOLE:
        by_name = path.rpartition(".")[2] in BY_NAME
        for key, inner in item.items():
            yield from keys(inner, f"{path}.{'*' if by_name else key}".removeprefix("."))
    elif isinstance(item, list) and not path.endswith(".*"):
        for inner in item:
            yield from keys(inner, f"{path}[]")
    else:
        yield path


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """The sample with sizes that vary, a warning (an input that nobody reads), and a layer that is left out."""
    path = tmp_path / "net.prototxt"
    unread = 'layer { name: "unread" type: "Input" top: "unread" input_param { shape { dim: 1 } } }\n'
    path.write_text((DIGITS / "deploy.prototxt").read_text() + unread)
    model = prototrt.load(path, DIGITS / "digits.caffemodel")
    graph = prototrt.rewrite(model, outputs=["prob"], min_shapes=VARYING)
    return replace(graph, left_out=(LeftOut(graph.nodes[0].origin, "left out"),))


@pytest.mark.trt
def test_keys_of_a_plan(graph: Graph, tmp_path: Path) -> None:
    manifest = Product(
        file=str(tmp_path / "a.plan"), building=BuildOptions("rtx"), converting=ConvertOptions(verify=True)
    ).write(graph)
    assert set(keys(manifest)) == documented("plan")


def test_keys_of_an_onnx_model(graph: Graph, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs the model")
    manifest = Product(file=str(tmp_path / "a.onnx"), converting=ConvertOptions(verify=True)).write(graph)
    assert set(keys(manifest)) == documented("onnx")


@pytest.mark.parametrize("suffix", ["onnx", pytest.param("plan", marks=pytest.mark.trt)])
def test_a_file_that_changes_under_way_is_refused(tmp_path: Path, suffix: str) -> None:
    weights = tmp_path / "digits.caffemodel"
    content = (DIGITS / "digits.caffemodel").read_bytes()
    weights.write_bytes(content)
    graph = prototrt.rewrite(prototrt.load(DIGITS / "deploy.prototxt", weights))
    weights.write_bytes(content + b"\0")
    product = Product(file=str(tmp_path / f"digits.{suffix}"))
    with pytest.raises(UnreadableFileError) as caught:
        product.write(graph)
    assert str(caught.value) == (
        f"{weights}: the file changed while it was read\n  fix: try again when nothing writes to the file"
    )
    assert list(tmp_path.iterdir()) == [weights]

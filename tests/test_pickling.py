"""Models, graphs, plans and errors pass from one process to another, and are short where they are printed."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingBlobError,
    MissingShapesError,
    NetError,
    Problems,
)
from prototrt.converter.files.companions.manifest import sha256_of_graph
from prototrt.surgery.ir import DType, Graph, Value
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.golden_cases import fork_cases, rewritten

SSD = next(case for case in fork_cases() if str(case) == "net_ssd")


def copied(thing: object) -> object:
    return pickle.loads(pickle.dumps(thing))


def same(graph: Graph, other: object) -> bool:
    assert isinstance(other, Graph)
    return (graph.text(), sha256_of_graph(graph)) == (other.text(), sha256_of_graph(other))


@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_a_model_needs_no_files_where_it_is_unpickled(weights: str | None, tmp_path: Path) -> None:
    files = [shutil.copy(file, tmp_path) for file in (DEPLOY, weights) if file is not None]
    model = prototrt.load(files[0], *files[1:], random_weights=None if weights else 3)
    content = pickle.dumps(model)
    graph = prototrt.rewrite(model)
    digests = [source.digest() for source in graph.sources]
    for file in files[1:]:
        Path(file).unlink()
    found = prototrt.rewrite(pickle.loads(content))
    assert same(graph, found)
    assert [source.digest() for source in found.sources] == digests


@pytest.mark.parametrize("case", caffe2_cases()[::6], ids=str)
def test_a_model_of_caffe2(case: Caffe2Case) -> None:
    model = case.load()
    shapes = {name: array.shape for name, array in case.arrays("inputs").items()}
    graph = prototrt.rewrite(model, shapes=shapes)
    assert same(graph, copied(graph))
    unpickled = copied(model)
    assert isinstance(unpickled, prototrt.Model)
    assert same(graph, prototrt.rewrite(unpickled, shapes=shapes))


def test_a_graph_with_sizes_that_depend_on_data() -> None:
    graph = rewritten(SSD, SSD.arrays("inputs")[0])
    found = copied(graph)
    assert same(graph, found)
    assert isinstance(found, Graph)
    assert [getattr(dim, "count", None) for value in found.outputs for dim in value.shape] == [
        getattr(dim, "count", None) for value in graph.outputs for dim in value.shape
    ]


def test_a_repeated_number_is_stored_once() -> None:
    value = Value("zeros", DType.FLOAT32, (1000, 1000), np.broadcast_to(np.float32(2), (1000, 1000)))
    content = pickle.dumps(value)
    assert len(content) < 1000
    found = pickle.loads(content)
    assert found.data.shape == (1000, 1000)
    assert (found.data == 2).all()


@pytest.mark.trt
def test_a_plan() -> None:
    plan = prototrt.build(prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS)))
    found = copied(plan)
    assert isinstance(found, prototrt.Plan)
    assert (found.manifest, bytes(found.plan)) == (plan.manifest, bytes(plan.plan))
    assert repr(plan) == (
        f"<Plan digits: {plan.plan.nbytes:,} bytes, TensorRT {plan.facts['tensorrt']['version']} (rtx)>"
    )


ERRORS = [
    NetError("a problem", where="net.prototxt:3", because="of this", fix="do that"),
    MissingBlobError("no such blob", bottom="x", origin=None, because=None, fix="rename it"),
    MissingShapesError("no shape", where="net.prototxt", because=None, shapes={"x": (1, "C")}),
    Problems([NetError("one"), NetError("two")], fix="both"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error(error: ConversionError) -> None:
    found = copied(error)
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_what_is_printed_is_short() -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    graph = prototrt.rewrite(model)
    assert repr(model) == f"<Model digits: 19 layers, from {DEPLOY}>"
    assert repr(model.layers[2]) == '<layer "conv1" (Convolution), line 22>'
    assert repr(graph) == (
        f"<Graph digits: {len(graph.nodes)} nodes, inputs data 40x1x32x16, cont 40x1, outputs prob 40x1x11,"
        " 4 recurrent pairs>"
    )
    assert (
        repr(graph.nodes[0])
        == "<Node conv1: Convolution[stride=(1, 1), pad=(1, 1), dilation=(1, 1), group=1]>"
    )
    assert repr(prototrt.Session(graph)) == (
        "<Session on reference: inputs data 40x1x32x16, cont 40x1, outputs prob 40x1x11>"
    )


def test_a_model_of_caffe2_is_short_too() -> None:
    (case,) = (case for case in caffe2_cases() if case.folder.name == "lstm_basic")
    model = case.load()
    assert len(repr(model)) < 200
    assert all(len(repr(layer)) < 200 for layer in model.layers)

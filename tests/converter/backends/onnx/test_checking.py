"""onnx's checker sees each node of a large model once, and finds in parts what it finds in the whole."""

from __future__ import annotations

from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.onnx import checking, export
from prototrt.converter.backends.onnx.checking import check_model
from prototrt.converter.backends.onnx.model import Proto
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import Graph
from prototrt.tests.small_nets import inputs_of, loaded

onnx = pytest.importorskip("onnx")

LSTM = """
layer {{
  name: "lstm{0}" type: "LSTM" bottom: "y{0}" bottom: "cont" top: "y{1}" recurrent_param {{ num_output: 3 }}
}}
layer {{ name: "relu{0}" type: "ReLU" bottom: "y{1}" top: "z{1}" }}
"""
COUNT = 3


@pytest.fixture(scope="module")
def many_lstms(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    layers = "".join(LSTM.format(place, place + 1) for place in range(COUNT))
    text = inputs_of({"y0": (2, 1, 3), "cont": (2, 1)}) + layers
    return prototrt.rewrite(loaded(tmp_path_factory.mktemp("net"), text, random_weights=1))


def checked_model(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model as the export gives it to the checker."""
    models: list[Proto] = []
    monkeypatch.setattr(export, "check_model", models.append)
    model, lowered = export.onnx_from_graph(graph, ExportOptions())
    export._check(model, lowered, ExportOptions())
    return models[0]


def inferred(model: Proto, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The first outputs of the nodes that are inferred together."""
    calls: list[list[str]] = []
    infer = onnx.shape_inference.infer_shapes

    def counted(part: Proto, **options: Any) -> Proto:
        calls.append([node.output[0] for node in part.graph.node])
        return infer(part, **options)

    with monkeypatch.context() as patch:
        patch.setattr(onnx.shape_inference, "infer_shapes", counted)
        check_model(model)
    return calls


@pytest.mark.parametrize("size", [1, 7, 500])
def test_each_node_is_inferred_once(many_lstms: Graph, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = checked_model(many_lstms, monkeypatch)
    monkeypatch.setattr(checking, "PART", size)
    calls = inferred(model, monkeypatch)
    assert max(map(len, calls)) <= size
    assert [name for call in calls for name in call] == [node.output[0] for node in model.graph.node]


@pytest.mark.parametrize("size", [1, 7, 500])
@pytest.mark.parametrize("change", ["a size", "a type"])
def test_a_wrong_type_is_found_wherever_it_is(
    many_lstms: Graph, size: int, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = checked_model(many_lstms, monkeypatch)
    monkeypatch.setattr(checking, "PART", size)
    check_model(model)
    wrong = 0
    for info in model.graph.value_info:
        kind, before = info.type.tensor_type, info.type.SerializeToString()
        if change == "a type":
            kind.elem_type = onnx.TensorProto.INT32
        elif kind.shape.dim:
            kind.shape.dim[0].dim_value += 1
        if info.type.SerializeToString() != before:
            with pytest.raises(BuildError, match="onnx's checker refuses the model"):
                check_model(model)
            wrong += 1
        info.type.ParseFromString(before)
    assert wrong > COUNT


def test_a_name_that_nobody_writes_is_found(many_lstms: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = checked_model(many_lstms, monkeypatch)
    model.graph.node[-1].input[0] = "nowhere"
    with pytest.raises(BuildError, match="nowhere"):
        check_model(model)

"""Layers that bring data in, pass it on or swallow it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.caffemodel_writer import write
from prototrt.tests.single_layer import WAYS, float32, graph_of, refusal

SHAPE = "parameter_param { shape { dim: 2 dim: 3 } }"
BLOB = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("on", WAYS)
def test_parameter_alone(on: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "Parameter", SHAPE, [], [BLOB])
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({})["y0"], BLOB)


@pytest.mark.parametrize("on", WAYS)
def test_parameter_of_one_number(on: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "Parameter", "", [], [np.float32(2.5)])
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({})["y0"], np.float32(2.5))


@pytest.mark.parametrize(
    ("blob", "fields", "message"),
    [
        (
            BLOB.T,
            SHAPE,
            'layer "op" (Parameter), blob 0 (parameter): shape in the weights file is (3, 2), expected (2, 3)\n'
            "  fix: use the prototxt that these weights were trained with",
        ),
        (
            BLOB,
            "parameter_param { shape { dim: 0 dim: 3 } }",
            'layer "op" (Parameter): shape is (0, 3), expected sizes of at least 1\n  fix: mend parameter_param',
        ),
    ],
)
def test_parameter_of_another_shape(blob: object, fields: str, message: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, "Parameter", fields, [], [blob]) == f"net.prototxt:1: {message}"


PASSED_ON = """
input: "x" input_shape { dim: 3 }
layer { name: "split" type: "Split" bottom: "x" top: "a" top: "b" top: "c" }
layer { name: "drop" type: "Dropout" bottom: "a" top: "a" dropout_param { dropout_ratio: 0.9 } }
layer { name: "silence" type: "Silence" bottom: "c" bottom: "x" }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
"""


@pytest.mark.parametrize("on", WAYS)
def test_what_passes_on_and_swallows(on: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(PASSED_ON)
    graph = prototrt.rewrite(prototrt.load(path))
    assert [value.name for value in graph.outputs] == ["sum"], "Silence swallows c"
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({"x": [1, -2, 3]})["sum"], [2, -4, 6])


IN_PLACE = """
input: "x" input_shape { dim: 1 dim: 2 }
layer { name: "scale" type: "Scale" bottom: "x" top: "x" scale_param { bias_term: true } }
layer { name: "abs" type: "AbsVal" bottom: "x" top: "x" }
layer { name: "power" type: "Power" bottom: "x" top: "x" power_param { power: 2 shift: -1 } }
layer { name: "sum" type: "Reduction" bottom: "x" top: "sum" }
layer { name: "root" type: "Power" bottom: "sum" top: "root" power_param { power: 0.5 } }
layer { name: "prob" type: "Sigmoid" bottom: "root" top: "root" }
"""


@pytest.mark.parametrize("on", WAYS)
def test_layers_in_place_and_on_one_number(on: str, tmp_path: Path) -> None:
    path, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    path.write_text(IN_PLACE)
    write(weights, {"scale": [float32([2, -1]), float32([0, 3])]})
    graph = prototrt.rewrite(prototrt.load(path, weights))
    # x = (1, 5): scaled (2, -2), without signs (2, 2), squares of (1, 1); their sum is 2.
    found = prototrt.Session(graph, on=on).run({"x": [[1, 5]]})["root"]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.sqrt(2))), rtol=1e-6)

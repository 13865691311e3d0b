"""Large images are stretched without the matrix that small ones are: to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.images import resizing
from prototrt.surgery.ops import MatMul
from prototrt.tests.caffe2_nets import graph_of, operator


@pytest.mark.parametrize("on", ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"])
def test_upsample_bilinear(on: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    one = operator("UpsampleBilinear", ["x"], ["y"], height_scale=2.5, width_scale=3.0)
    as_product = prototrt.Session(graph_of([one], {"x": x}, {})).run({"x": x})["y"]
    monkeypatch.setattr(resizing, "LARGEST_MATRIX", 0)
    graph = graph_of([one], {"x": x}, {})
    assert not any(isinstance(node.op, MatMul) for node in graph.nodes)
    np.testing.assert_allclose(
        prototrt.Session(graph, on=on).run({"x": x})["y"], as_product, rtol=1e-5, atol=1e-5
    )

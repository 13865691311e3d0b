"""A shape for a blob that the init net fills makes it an input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.tests.caffe2_nets import net, operator


@pytest.fixture
def model(tmp_path: Path) -> prototrt.Model:
    filled = operator("GivenTensorFill", (), ["x"], shape=[2], values=[1.0, -1.0])
    predict, init = tmp_path / "predict_net.pb", tmp_path / "init_net.pb"
    predict.write_bytes(net(operator("Relu", ["x"], ["y"])).SerializeToString())
    init.write_bytes(net(filled).SerializeToString())
    return prototrt.load(predict, init)


def test_an_input_in_the_place_of_a_fill(model: prototrt.Model) -> None:
    graph = prototrt.rewrite(model, shapes={"x": (2, 3)})
    assert [(value.name, value.shape) for value in graph.inputs] == [("x", (2, 3))]
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    (y,) = prototrt.Session(graph, on="reference").run({"x": x}).values()
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_without_a_shape_it_has_that_of_the_init_net(model: prototrt.Model) -> None:
    assert [(value.name, value.shape) for value in prototrt.rewrite(model).inputs] == [("x", (2,))]


def test_kept_constant_it_is_what_the_init_net_fills(model: prototrt.Model) -> None:
    assert prototrt.rewrite(model, keep_constant=["x"]).inputs == ()


def test_a_shape_of_nothing_is_refused(model: prototrt.Model) -> None:
    with pytest.raises(ConversionError, match='a shape is given for "z", which is not an input'):
        prototrt.rewrite(model, shapes={"z": (2, 3)})

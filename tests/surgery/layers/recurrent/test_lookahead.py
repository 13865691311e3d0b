"""A net that looks ahead, as loops."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.tests.small_nets import WAYS, numbers, op, rewritten, stored

STEPS = 5
AHEAD = """
layer { name: "by_unit" type: "Permute" bottom: "h" top: "by_unit" permute_param { order: 1 order: 2 order: 0 } }
layer {
  name: "column" type: "Reshape" bottom: "by_unit" top: "column"
  reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 1 } }
}
layer {
  name: "ahead" type: "Convolution" bottom: "column" top: "ahead"
  convolution_param { num_output: 4 group: 4 bias_term: false kernel_h: 3 kernel_w: 1 pad_h: 2 pad_w: 0 }
}
layer {
  name: "whole" type: "Crop" bottom: "ahead" bottom: "column" top: "whole"
  crop_param { axis: 2 offset: 2 offset: 0 }
}
layer { name: "rows" type: "Reshape" bottom: "whole" top: "rows" reshape_param { shape { dim: 0 dim: 0 dim: 0 } } }
layer { name: "y" type: "Permute" bottom: "rows" top: "y" permute_param { order: 2 order: 0 order: 1 } }
"""
"""A row convolution as DeepSpeech 2 has it, ``y_t = w_0 x_t + w_1 x_(t+1) + w_2 x_(t+2)``, in layers of Caffe."""


def net() -> str:
    """A recurrent layer, and the layers that look ahead behind it."""
    recurrent = op("VanillaRNN", "recurrent_param { num_output: 4 }", ["x", "cont"], ["h"])
    return recurrent.replace('"op"', '"rnn"') + AHEAD


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("steps", [STEPS, 2])
def test_looks_ahead(steps: int, on: Way) -> None:
    """For a number of steps that each call chooses."""
    kernel = numbers(4, 1, 3, 1)
    blobs = stored("ahead", [kernel]) | stored("rnn", [numbers(4, 3), numbers(4), numbers(4, 4)])
    shapes = {"x": (STEPS, 2, 3), "cont": (STEPS, 2)}
    graph = rewritten(net(), shapes, blobs, dynamic=["time"], outputs=["h", "y"], state="zero")
    inputs = {"x": numbers(steps, 2, 3), "cont": np.ones((steps, 2), np.float32)}
    found = prototrt.Session(graph, on=on).run(inputs)
    padded = np.concatenate([found["h"], np.zeros((2, 2, 4))])
    expected = sum(kernel[:, 0, ahead, 0] * padded[ahead : ahead + steps] for ahead in range(3))
    np.testing.assert_allclose(found["y"], expected, 1e-4, 1e-5)

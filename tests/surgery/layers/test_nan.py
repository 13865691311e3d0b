"""What Caffe makes of NaN on a CPU: the larger of two elements or of a window, which ONNX and TensorRT leave open, and
Clip.

The expected numbers are those of real Caffe, and for ReLU6 those of C++'s min and max, which the forks use. Where
ONNX and TensorRT leave the number open, the ways are not held against it: they would agree by our own choice.
"""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.tests.layer_cases import Case
from prototrt.tests.small_nets import float32

NAN, INF = np.nan, np.inf

CLIPS = [
    Case("both ends", "Clip", "clip_param { min: -1 max: 2 }", [[NAN, 0, INF]], [-1, 0, 2]),
    Case("min above max", "Clip", "clip_param { min: 3 max: 1 }", [[NAN, 0]], [3, 3]),
    Case("of forks", "ReLU6", "", [[NAN, -1, INF]], [NAN, 0, 6]),
]
LOWEST = np.finfo(np.float32).min
PAIRS = "pooling_param { kernel_h: 1 kernel_w: 2 stride: 2 }"
OPEN_ELSEWHERE = [
    Case("in windows", "Pooling", PAIRS, [[[[[NAN, 1, 2, NAN, NAN, NAN, -INF, -INF]]]]], [[[[1, 2, LOWEST, LOWEST]]]]),
    Case("of two", "Eltwise", "eltwise_param { operation: MAX }", [[NAN, 1, NAN], [2, NAN, NAN]], [2, NAN, NAN]),
    Case("of three", "Eltwise", "eltwise_param { operation: MAX }",
         [[NAN, 1, 1, NAN, 5], [2, NAN, 2, 2, 4], [1, 3, NAN, NAN, NAN]], [2, NAN, 2, 2, 5]),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CLIPS, *OPEN_ELSEWHERE], ids=str)
def test_reference(case: Case) -> None:
    (y,) = prototrt.Session(case.graph()).run(case.inputs).values()
    np.testing.assert_array_equal(y, float32(case.expected))


@pytest.mark.parametrize("way", ["onnx", pytest.param("network", marks=pytest.mark.trt)])
@pytest.mark.parametrize("case", CLIPS, ids=str)
def test_clips_agree_on_all_ways(case: Case, way: Way) -> None:
    (y,) = prototrt.Session(case.graph(), on=way).run(case.inputs).values()
    np.testing.assert_array_equal(y, float32(case.expected))

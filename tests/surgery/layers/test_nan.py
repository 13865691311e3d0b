"""What Caffe makes of NaN on a CPU, where ONNX and TensorRT leave it open: the largest element, and Clip.

The expected numbers are those of real Caffe. The read-back is not held against them: it would agree by our own choice.
"""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt.tests.layer_cases import Case
from prototrt.tests.small_nets import float32

NAN, INF = np.nan, np.inf

CASES = [
    Case("both ends", "Clip", "clip_param { min: -1 max: 2 }", [[NAN, 0, INF]], [-1, 0, 2]),
    Case("min above max", "Clip", "clip_param { min: 3 max: 1 }", [[NAN, 0]], [3, 3]),
    Case("of two", "Eltwise", "eltwise_param { operation: MAX }", [[NAN, 1, NAN], [2, NAN, NAN]], [2, NAN, NAN]),
    Case("of three", "Eltwise", "eltwise_param { operation: MAX }",
         [[NAN, 1, 1, NAN, 5], [2, NAN, 2, 2, 4], [1, 3, NAN, NAN, NAN]], [2, NAN, 2, 2, 5]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nan(case: Case) -> None:
    (found,) = prototrt.Session(case.graph()).run(case.inputs).values()
    np.testing.assert_array_equal(found, float32(case.expected))

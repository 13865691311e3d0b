"""Layers of forks against the programs that compute them today: OpenCV and OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.surgery.ir import Array
from prototrt.tests.layer_cases import Case
from prototrt.tests.small_nets import numbers


def result(kind: str, fields: str, *bottoms: Array) -> Array:
    case = Case("", kind, fields, bottoms, None)
    (y,) = prototrt.Session(case.graph()).run(case.inputs).values()
    return y


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (10, 12), (13, 4), (2, 30)])
@pytest.mark.parametrize("kind", ["BILINEAR", "NEAREST"])
def test_deephi_resize_is_that_of_opencv(kind: str, size: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    image = np.asarray(numbers(1, 1, 5, 6), np.float32)
    fields = f"deephi_resize_param {{ new_height: {size[0]} new_width: {size[1]} resize_type: {kind} }}"
    method = cv2.INTER_LINEAR if kind == "BILINEAR" else cv2.INTER_NEAREST
    expected = cv2.resize(image[0, 0], size[::-1], interpolation=method)
    np.testing.assert_allclose(result("DeephiResize", fields, image)[0, 0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "stated"),
    [
        ("step: 16 offset: 0.5", {"step_h": 16.0, "step_w": 16.0}),
        ("step_h: 11 step_w: 7 offset: 0.25", {"step_h": 11.0, "step_w": 7.0, "offset": 0.25}),
        ("clip: true", {"clip": True}),
    ],
)
def test_prior_box_clustered_is_that_of_openvino(fields: str, stated: dict[str, Any]) -> None:
    openvino = pytest.importorskip("openvino")
    opset = pytest.importorskip("openvino.opset8")
    sides = {"width": [7.89, 16.9, 60.0], "height": [25.7, 51.5, 3.0]}
    variances = [0.1, 0.1, 0.2, 0.2]
    attributes = {**sides, "variance": variances, "offset": 0.5, "clip": False, **stated}
    sizes = [opset.constant(np.array(size, np.int64)) for size in ((4, 6), (64, 96))]
    model = openvino.Model([opset.prior_box_clustered(*sizes, attributes)], [], "priors")
    expected = openvino.Core().compile_model(model, "CPU")([])[0]
    lists = {**sides, "variance": variances}
    text = " ".join(f"{name}: {number:g}" for name, numbers in lists.items() for number in numbers)
    maps = np.zeros((1, 8, 4, 6), np.float32), np.zeros((1, 3, 64, 96), np.float32)
    y = result("PriorBoxClustered", f"prior_box_param {{ {text} {fields} }}", *maps)
    np.testing.assert_allclose(y[0], expected, rtol=1e-5, atol=1e-6)

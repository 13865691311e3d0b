"""What the message about an Eltwise of unequal bottoms proposes computes what was meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.tests.small_nets import inputs_of, loaded


def layer(kind: str, name: str, bottoms: str, fields: str = "") -> str:
    return f'layer {{ name: "{name}" type: "{kind}" {bottoms} top: "{name}" {fields} }}'


AB = 'bottom: "a" bottom: "b"'


def net(a: tuple[int, ...], b: tuple[int, ...], rest: str) -> str:
    copies = [layer("ReLU", name, f'bottom: "{name}0"') for name in "ab"]
    return "\n".join([inputs_of({"a0": a, "b0": b}), *copies, rest])


PROD, SUM = "eltwise_param { operation: PROD }", "eltwise_param { operation: SUM }"
TO_A = layer("Reshape", "r", 'bottom: "b"', "reshape_param { shape {  dim: 4 dim: 1 } }")
TO_4 = layer("Reshape", "r", 'bottom: "a"', "reshape_param { shape { dim: 4 } }")
CASES = {
    "as many elements": ((4, 1), (4,), PROD,
        'put a Reshape with the shape { dim: 4 dim: 1 } between "b" and this layer',
        TO_A + layer("Eltwise", "e", 'bottom: "a" bottom: "r"', PROD)),
    "channels": ((2, 3, 4, 5), (3,), PROD, 'use a Scale with axis: 1 and the bottoms "a" and "b"',
        layer("Scale", "e", AB, "scale_param { axis: 1 }")),
    "a number": ((2, 3), (), SUM, 'use a Bias with axis: 0 and the bottoms "a" and "b"',
        layer("Bias", "e", AB, "bias_param { axis: 0 }")),
    "sizes of 1": ((4, 1), (4, 5), SUM,
        'use a Bias with axis: 0 and the bottoms "b" and a Reshape of "a" to { dim: 4 }',
        TO_4 + layer("Bias", "e", 'bottom: "b" bottom: "r"', "bias_param { axis: 0 }")),
    "images": ((1, 3, 4, 5), (1, 3, 6, 5), SUM, 'cut "b" to the size of "a" with a Crop',
        layer("Crop", "c", 'bottom: "b" bottom: "a"') + layer("Eltwise", "e", 'bottom: "a" bottom: "c"', SUM)),
    "nothing alike": ((2, 3), (4, 5), SUM,
        'make "b" with the shape (2, 3), as by another num_output of the layer that computes it', None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_advice(case: str, tmp_path: Path) -> None:
    a, b, fields, advice, repaired = CASES[case]
    with pytest.raises(prototrt.ShapeError) as caught:
        prototrt.rewrite(loaded(tmp_path, net(a, b, layer("Eltwise", "e", AB, fields))))
    assert caught.value.fix == advice
    if repaired is None:
        return
    rng = np.random.default_rng(0)
    x, y = rng.uniform(1, 2, a), rng.uniform(1, 2, b)
    found = prototrt.Session(prototrt.rewrite(loaded(tmp_path, net(a, b, repaired)))).run({"a0": x, "b0": y})[
        "e"
    ]
    x, y = (x, y.reshape(4, 1)) if case == "as many elements" else (x, y)
    x, y = (x, y[:, :, :4]) if case == "images" else (x, y)
    x, y = (x, y.reshape(3, 1, 1)) if case == "channels" else (x, y)
    np.testing.assert_allclose(found, x * y if fields == PROD else x + y, rtol=1e-5)

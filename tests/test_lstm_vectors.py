"""docs/recurrent.md, "Caffe's LSTM, exactly": its NumPy, and prototrt, against numbers of real Caffe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array
from prototrt.tests.npz import write_npz
from prototrt.tests.small_nets import inputs_of

DOCS = Path(__file__).parents[1] / "docs"
CASES: list[dict[str, Any]] = json.loads((DOCS / "lstm-vectors.json").read_text())["cases"]
PAGE = (DOCS / "recurrent.md").read_text()


def arrays(lists: dict[str, Any]) -> dict[str, Array]:
    return {name: np.array(each, np.float32) for name, each in lists.items()}


def of_the_page() -> Any:
    (code,) = re.findall(r"^```python\n(import numpy.*?def lstm.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(code, "recurrent.md", "exec"), names)
    return names["lstm"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_numpy_of_the_page(case: dict[str, Any]) -> None:
    lstm, blobs, sizes = of_the_page(), arrays(case["blobs"]), case["sizes"]
    h = c = np.zeros((sizes["N"], sizes["H"]), np.float32)
    for call in case["calls"]:
        inputs, outputs = arrays(call["inputs"]), arrays(call["outputs"])
        if "h_0" in inputs:
            h, c = inputs.pop("h_0")[0], inputs.pop("c_0")[0]
        top, h, c = lstm(h=h, c=c, **inputs, **blobs)
        np.testing.assert_allclose(top, outputs["h"], 1e-5, 1e-6)
        if "h_T" in outputs:
            np.testing.assert_allclose([h, c], [outputs["h_T"][0], outputs["c_T"][0]], 1e-5, 1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_prototrt(case: dict[str, Any], folder: Path) -> None:
    first, *_ = (arrays(call["inputs"]) for call in case["calls"])
    is_exposed = "h_0" in first
    bottoms = " ".join(f'bottom: "{name}"' for name in first)
    tops = " ".join(f'top: "{name}"' for name in case["calls"][0]["outputs"])
    Path("net.prototxt").write_text(
        inputs_of({name: array.shape for name, array in first.items()})
        + f'layer {{ name: "lstm" type: "LSTM" {bottoms} {tops}'
        f" recurrent_param {{ num_output: {case['sizes']['H']} expose_hidden: {str(is_exposed).lower()} }} }}\n"
    )
    blobs = arrays(case["blobs"])
    write_npz("net.npz", {f"lstm/{index}": blob for index, blob in enumerate(blobs.values())})
    session = prototrt.Session(prototrt.rewrite(prototrt.load("net.prototxt", "net.npz")))
    for call in case["calls"]:
        results = session.run(arrays(call["inputs"]))
        for name, expected in arrays(call["outputs"]).items():
            np.testing.assert_allclose(results[name], expected, 1e-5, 1e-6, err_msg=name)


def test_vectors_cover_what_the_page_says() -> None:
    calls = [call for case in CASES for call in case["calls"]]
    conts = {value for call in calls for row in call["inputs"]["cont"] for value in row}
    assert {0, 1} < conts
    assert min(conts) < 0
    assert {case["sizes"]["T"] for case in CASES} >= {1, 2, 3}
    assert any("x_static" in call["inputs"] for call in calls)
    assert any("h_T" in call["outputs"] for call in calls)
    assert any(len(case["calls"]) > 1 and "h_0" not in case["calls"][0]["inputs"] for case in CASES)


def test_no_steps_are_refused(folder: Path) -> None:
    Path("net.prototxt").write_text(
        inputs_of({"x": (0, 2, 2), "cont": (0, 2)})
        + 'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 2 } }\n'
    )
    with pytest.raises(ConversionError):
        prototrt.rewrite(prototrt.load("net.prototxt"))

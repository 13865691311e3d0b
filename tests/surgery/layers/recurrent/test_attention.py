"""The layers of textspotter's decoder: attention in every form and way, LSTMNew, ReverseAxis, and messages."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import WAYS, float32, numbers, op, refusal, rewritten, run, stored

FIELDS = "recurrent_param { num_output: 3 }"
TOPS = ["h", "attention"]
X = numbers(3, 2, 4, 5)
CONT = float32([[1, 1], [1, 0], [0.5, 1]])
FIRST = [numbers(*shape, seed=place) for place, shape in enumerate([(3, 3), (3,), (3, 4), (3,), (1, 3)])]
LSTM = [numbers(12, 4, seed=5), numbers(12, seed=6), numbers(12, 3, seed=7)]
SHAPES = {"x": X.shape, "cont": CONT.shape}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("form", ["loop", "unroll"])
def test_forms(form: Form, on: Way) -> None:
    case = case_called("attention_lstm")
    session = prototrt.Session(prototrt.rewrite(case.load(), sequence=form), on=on)
    for inputs, outputs in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
        for blob, array in session.run(inputs).items():
            np.testing.assert_allclose(array, outputs[blob], 1e-4, 1e-5)


@pytest.mark.parametrize("on", WAYS)
def test_single_steps_are_one_call(on: Way) -> None:
    """Where all steps attend alike: a net of one step has the blobs of one step."""
    long = stored("op", [*FIRST, *LSTM, FIRST[-1], FIRST[-1]])
    whole = run(op("AttLstm", FIELDS, SHAPES, TOPS), {"x": X, "cont": CONT}, long)
    layer = op("AttLstm", FIELDS, SHAPES, TOPS)
    shapes = {name: (1, *shape[1:]) for name, shape in SHAPES.items()}
    session = prototrt.Session(
        rewritten(layer, shapes, stored("op", [*FIRST, *LSTM]), sequence="step"), on=on
    )
    for step in range(3):
        found = session.run({"x": X[step : step + 1], "cont": CONT[step : step + 1]})
        for top in TOPS:
            np.testing.assert_allclose(found[top][0], whole[top][step], 1e-4, 1e-5)


def test_exposed_states() -> None:
    """h_0 and c_0 take the place of bindings."""
    blobs = stored("op", [*FIRST, *LSTM, FIRST[-1], FIRST[-1]])
    inputs = {"x": X, "cont": CONT, "h_0": numbers(1, 2, 3), "c_0": numbers(1, 2, 3, seed=1)}
    fields = "recurrent_param { num_output: 3 expose_hidden: true }"
    exposed = run(op("AttLstm", fields, inputs, [*TOPS, "h_T", "c_T"]), inputs, blobs)
    session = prototrt.Session(rewritten(op("AttLstm", FIELDS, SHAPES, TOPS), SHAPES, blobs))
    states = {"op_h_0": inputs["h_0"], "op_c_0": inputs["c_0"]}
    bound = session.run({"x": X, "cont": CONT, **states})
    np.testing.assert_array_equal(exposed["h"], bound["h"])
    np.testing.assert_array_equal(exposed["c_T"], session.state["op_c_0"])


def test_lstm_new_is_caffes_lstm() -> None:
    inputs = {"x": X, "cont": CONT}
    blobs = stored("op", [numbers(12, 20), LSTM[1], LSTM[2]])
    found, expected = (run(op(kind, FIELDS, SHAPES), inputs, blobs)["y"] for kind in ("LSTMNew", "LSTM"))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("on", WAYS)
def test_reverse_axis(on: Way) -> None:
    found = run(op("ReverseAxis", "reverse_axis_param { axis: 2 }"), {"x": X}, on=on)["y"]
    np.testing.assert_array_equal(found, X[:, :, ::-1])


MESSAGES = [
    (FIELDS, SHAPES | {"x": (3, 2, 4)}, [], ', bottom "x": shape is (3, 2, 4), expected (T, N, C, E)\n'
     "  fix: add a Reshape before this layer to 4 axes"),
    (FIELDS, SHAPES, [*FIRST, *LSTM], ', bottom "x": shape is (3, 2, 4, 5), expected (1, 2, 4, 5)\n'
     "  because the layer has 8 blobs, the attention of 1 step\n"
     "  fix: give it 1 step, as in training"),
    ("recurrent_param { }", SHAPES, [], ": num_output is 0, expected at least 1\n"
     "  fix: set num_output in recurrent_param"),
    ("recurrent_param { num_output: 3 reverse: true }", SHAPES, [],
     ": states reverse, which does not apply to layers of this type\n  fix: remove it"),
    ("recurrent_param { num_output: 3 expose_hidden: true }", SHAPES | {"h_0": (1, 2, 3), "c_0": (1, 2, 4)}, [],
     ', bottom "c_0": shape is (1, 2, 4), expected (1, 2, 3)\n'
     '  because T is 3 and N is 2, the first dimensions of bottom "x"\n'
     '  fix: give "c_0" this shape: shapes={"c_0": (1, 2, 3)}'),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "shapes", "blobs", "message"), MESSAGES)
def test_messages(
    fields: str, shapes: dict[str, tuple[int, ...]], blobs: list[np.ndarray], message: str
) -> None:
    layer = op("AttLstm", fields, shapes, TOPS)
    assert refusal(layer, shapes, stored("op", blobs)).partition("(AttLstm)")[2] == message

"""Recurrent layers over maps: every form and way, states over calls, sizes that vary, and messages."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.surgery.ir import Array
from prototrt.tests.golden_cases import Case, case_called
from prototrt.tests.small_nets import WAYS, float32, numbers, op, refusal, rewritten, run, stored, told

NAMES = ("conv_lstm_peepholes", "conv_lstm_relu", "conv_lstm_clip", "convolution_lstm", "conv_gru")
CARRIED = ("conv_lstm_peepholes", "convolution_lstm")
PER_STEP = ("x", "cont")


def expected_of(case: Case) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    return case.arrays("inputs"), case.arrays("outputs")


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("form", ["loop", "unroll"])
@pytest.mark.parametrize("name", [*NAMES, "conv_gru_backwards"])
def test_forms(name: str, form: Form, on: Way) -> None:
    case = case_called(name)
    calls, expected = expected_of(case)
    session = prototrt.Session(prototrt.rewrite(case.load(), sequence=form), on=on)
    for inputs, outputs in zip(calls, expected, strict=True):
        results = session.run(inputs)
        for blob, array in outputs.items():
            np.testing.assert_allclose(results[blob], array, 1e-4, 1e-5, err_msg=blob)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", CARRIED)
def test_single_steps_are_one_long_call(name: str, on: Way) -> None:
    """A step per call, with the states that the caller carries: all calls of the golden are one sequence."""
    case = case_called(name)
    calls, expected = expected_of(case)
    shapes = {blob: (1, *array.shape[1:]) for blob, array in calls[0].items()}
    session = prototrt.Session(prototrt.rewrite(case.load(), shapes=shapes, sequence="step"), on=on)
    for inputs, outputs in zip(calls, expected, strict=True):
        for step, h in enumerate(outputs["h"]):
            (result,) = session.run({blob: array[step : step + 1] for blob, array in inputs.items()}).values()
            np.testing.assert_allclose(result[0], h, 1e-4, 1e-5)


@pytest.mark.parametrize("name", CARRIED)
def test_calls_of_one_sequence(name: str) -> None:
    """Two calls are one call of twice as many steps."""
    case = case_called(name)
    calls, expected = expected_of(case)
    joined = {blob: np.concatenate([call[blob] for call in calls]) for blob in calls[0]}
    shapes = {blob: array.shape for blob, array in joined.items()}
    (h,) = prototrt.Session(prototrt.rewrite(case.load(), shapes=shapes)).run(joined).values()
    np.testing.assert_allclose(h, np.concatenate([outputs["h"] for outputs in expected]), 1e-4, 1e-5)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_number_of_steps_varies(name: str, on: Way) -> None:
    """Without states that are carried, the first two steps are those of a longer call."""
    case = case_called(name)
    calls, expected = expected_of(case)
    graph = prototrt.rewrite(case.load(), dynamic=["time"], outputs=["h"], state="zero")
    session = prototrt.Session(graph, on=on)
    inputs = {blob: array[:2] if blob in PER_STEP else array for blob, array in calls[0].items()}
    given = {value.name: inputs[value.name] for value in graph.inputs}
    np.testing.assert_allclose(session.run(given)["h"], expected[0]["h"][:2], 1e-4, 1e-5)


@pytest.mark.parametrize("on", WAYS)
def test_sizes_of_maps_vary(on: Way) -> None:
    """A state has the size of the maps, which each call chooses; the peepholes of this net are per channel."""
    layer = op(
        "ConvLSTM",
        "lstm_conv_param { num_output: 2 kernel_size: 3 pad: 1 }"
        " lstm_debug_param { axis_hadamard: 2 num_axes_hadamard: 1 }",
        ("x", "cont"),
    )
    blobs = [numbers(8, 3, 3, 3), [0], [0], numbers(8, 2, 3, 3), numbers(8), *numbers(3, 2), [0], [0]]
    x, cont = numbers(3, 2, 3, 5, 4), float32([[1, 1], [0, 1], [1, 0]])
    shapes = {"x": (3, 2, 3, 5, 4), "cont": (3, 2)}
    least, most = ({**shapes, "x": (3, 2, 3, *size)} for size in ((2, 2), (8, 8)))
    varying = rewritten(layer, shapes, stored("op", blobs), min_shapes=least, max_shapes=most, state="zero")
    (found,) = prototrt.Session(varying, on=on).run({"x": x, "cont": cont}).values()
    fixed = rewritten(layer, shapes, stored("op", blobs), state="zero")
    np.testing.assert_allclose(found, prototrt.Session(fixed).run({"x": x, "cont": cont})["y"], 1e-4, 1e-5)


def test_state_is_called_after_the_layer() -> None:
    graph = prototrt.rewrite(case_called("conv_lstm_peepholes").load())
    assert [(pair.input.name, pair.output.name, pair.input.shape) for pair in graph.recurrences] == [
        ("lstm_h_0", "lstm_h_T", (1, 2, 2, 4, 5)),
        ("lstm_c_0", "lstm_c_T", (1, 2, 2, 4, 5)),
    ]


def test_state_from_a_file() -> None:
    """One map for all streams; without cont it is what the first step sees."""
    case = case_called("convolution_lstm")
    (inputs, _), _ = expected_of(case)
    h, c = numbers(1, 2, 3, 4), numbers(1, 2, 3, 4, seed=1)
    constant = prototrt.rewrite(case.load(), state={"lstm_h_0": h, "lstm_c_0": c[None]}, cont="drop")
    bound = prototrt.rewrite(case.load(), cont="drop")
    states = {"lstm_h_0": np.repeat(h[None], 2, 1), "lstm_c_0": np.repeat(c[None], 2, 1)}
    x = {"x": inputs["x"]}
    np.testing.assert_allclose(
        prototrt.Session(constant).run(x)["h"], prototrt.Session(bound).run(x | states)["h"], 1e-5, 1e-6
    )


def test_batch_first() -> None:
    case = case_called("conv_lstm_peepholes")
    calls, expected = expected_of(case)
    graph = prototrt.rewrite(case.load(), layout="batch-first")
    session = prototrt.Session(graph)
    assert [value.shape for value in graph.inputs] == [(2, 4, 3, 4, 5), (2, 4), (2, 2, 4, 5), (2, 2, 4, 5)]
    for inputs, outputs in zip(calls, expected, strict=True):
        (h,) = session.run({blob: np.moveaxis(array, 1, 0) for blob, array in inputs.items()}).values()
        np.testing.assert_allclose(np.moveaxis(h, 1, 0), outputs["h"], 1e-4, 1e-5)


X = {"x": (3, 2, 3, 4, 5), "cont": (3, 2)}
JOINED = [numbers(8, 3, 3, 3), numbers(8, 2, 3, 3)]
CONVOLUTION = "num_output: 2 kernel_size: 3 pad: 1"


CLIP = {"x": (3, 2, 4, 5)}
STATE = (1, 2, 2, 4, 5)
OF_X = f"lstm_conv_param {{ {CONVOLUTION} }}"
MESSAGES = [
    ("ConvLSTM", "", X, ": states neither lstm_conv_param nor convolution_param, expected one of them\n"
     "  fix: state lstm_conv_param { num_output: ... kernel_size: ... pad: ... }"),
    ("ConvLSTM", "convolution_param { num_output: 2 kernel_size: 3 }", X, ": has 2 bottoms, expected 1\n"
     "  because it states convolution_param: in that fork every call begins at zero\n"
     "  fix: state lstm_conv_param instead, or remove the bottoms after the first"),
    ("ConvLSTM", OF_X, {"x": X["x"]}, ": has 1 bottom, expected at least 2\n  fix: add cont (T, N) as the second one"),
    ("ConvLSTM", OF_X, CLIP | {"cont": (3, 2)}, ', bottom "x": shape is (3, 2, 4, 5), expected (T, N, C, H, W)\n'
     "  fix: add a Reshape before this layer to 5 axes"),
    ("ConvLSTM", OF_X * 3, X, ": states lstm_conv_param 3 times, expected 1 or 2\n"
     "  fix: state it for both, or once for x and once for h"),
    ("ConvLSTMReLU", "", X, ": states lstm_conv_param 0 times, expected 1 or 2\n"
     "  fix: state it for both, or once for x and once for h"),
    ("ConvLSTM", 'lstm_conv_param { type: "hidden" num_output: 2 kernel_size: 1 }', X,
     ': states lstm_conv_param for type "hidden" alone\n'
     '  fix: state it for both types, "input" and "hidden", or remove type'),
    ("ConvLSTM", f'{OF_X} lstm_conv_param {{ type: "hidden" num_output: 3 kernel_size: 1 }}', X,
     ": num_output is 2 and 3, expected one number\n"
     "  fix: state the same num_output in both lstm_conv_param"),
    ("ConvLSTM", "lstm_conv_param { kernel_size: 1 }", X, ": num_output is 0, expected at least 1\n"
     "  fix: set num_output in lstm_conv_param"),
    ("ConvLSTM", "lstm_conv_param { num_output: 2 kernel_h: 3 kernel_w: 1 }", X,
     ": states kernel_h in lstm_conv_param, which the fork does not read\n"
     "  fix: use pad, kernel_size, stride, dilation, each once or once per axis"),
    ("ConvLSTM", "lstm_conv_param { num_output: 2 kernel_size: 3 }", X,
     ": lstm_conv_param makes maps of 2 x 3, expected 4 x 5\n  because that is the size of the maps of the state\n"
     "  fix: in lstm_conv_param, set stride to 1, and pad to half of kernel_size, rounded down"),
    ("ConvLSTM", f'{OF_X} lstm_debug_param {{ expose: "c_t=2" }}', X,
     ": expose is \"c_t=2\", a blob inside of the fork's unrolled net\n"
     "  fix: state expose_hidden in recurrent_param for the last states, and remove expose"),
    ("ConvLSTM", f"{OF_X} lstm_debug_param {{ axis_hadamard: 4 }}", X,
     ": axis_hadamard is 4 and num_axes_hadamard 2, expected a sum of at most 5\n"
     "  because states have the axes (1, N, C, H, W)\n  fix: remove both, for one peephole per place of a map"),
    ("ConvLSTM", f"{OF_X} recurrent_param {{ peephole: true }}", X,
     ": states peephole, which does not apply to layers of this type\n  fix: remove it"),
    ("ConvLSTMReLU", f"{OF_X} recurrent_param {{ expose_hidden: true }}", X | {"h": (1, 2, 2, 4, 4), "c": STATE},
     ', bottom "h": shape is (1, 2, 2, 4, 4), expected (1, 2, 2, 4, 5)\n'
     '  because T is 3 and N is 2, the first dimensions of bottom "x"\n'
     '  fix: give "h" this shape: shapes={"h": (1, 2, 2, 4, 5)}'),
    ("ConvolutionLSTM", "recurrent_param { num_output: 2 wxc_convolution_param { kernel_size: 3 }"
     " whh_convolution_param { kernel_size: 3 pad: 2 } }", X,
     ": whh_convolution_param makes maps of 4 x 5, expected 2 x 3\n"
     "  because that is the size of the maps of the state\n"
     "  fix: in whh_convolution_param, set stride to 1, and pad to half of kernel_size, rounded down"),
    ("LSTM", "recurrent_param { num_output: 2 whh_convolution_param { kernel_size: 3 } }", X,
     ": states whh_convolution_param, which this type does not read\n"
     "  fix: use the type ConvolutionLSTM, or remove whh_convolution_param"),
    ("ConvLSTM", "convolution_param { num_output: 2 kernel_size: 3 group: 2 }", CLIP, ": group is 2, expected 1\n"
     "  because the gates of this fork are in an order of their own\n"
     '  fix: cut the net before this layer with outputs=["BLOB"]'),
    ("ConvLSTM", "convolution_param { kernel_size: 3 }", CLIP, ": num_output is 0, expected at least 1\n"
     "  fix: set num_output in convolution_param"),
    ("ConvGRU", "conv_gru_param { num_output: 2 } convolution_param { kernel_size: 2 }", CLIP,
     ": kernel_size in convolution_param is [2], expected one odd number\n"
     "  fix: state kernel_size once: 1, 3, 5, ..."),
    ("ConvGRU", "conv_gru_param { num_output: 2 BN_term: true }", CLIP,
     ": states BN_term: true, which is not supported\n"
     "  because the weights file lacks the numbers of these normalizations\n"
     '  fix: cut the net before this layer with outputs=["BLOB"]'),
    ("ConvGRU", "conv_gru_param { num_output: 2 forward_direction: false } convolution_param { kernel_size: 1 }", CLIP,
     ": states forward_direction: false, which versions of its fork with 3 blobs ignore\n"
     "  fix: remove forward_direction"),
    ("ConvGRU", "conv_gru_param { num_output: 2 } convolution_param { kernel_size: 1 }", CLIP | {"h": (2, 4, 5)},
     ', bottom "h": shape is (2, 4, 5), expected (1, 2, 4, 5)\n  because of num_output, and of the first bottom\n'
     "  fix: change the num_output of the layer that makes this bottom, or add a Reshape after that layer"),
    ("ConvGRU", 'top: "gates" conv_gru_param { num_output: 2 }', CLIP, ": has 2 tops, expected 1\n"
     '  because the gates of a step are not outputs of the cell\n  fix: remove top "gates"'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fields", "shapes", "message"), MESSAGES)
def test_messages(kind: str, fields: str, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    assert refusal(op(kind, fields, shapes), shapes).partition(f"({kind})")[2] == message


def test_four_blobs_of_a_gru_are_told() -> None:
    """Versions with as many blobs computed two things."""
    graph = prototrt.rewrite(case_called("conv_gru_backwards").load())
    assert [told(warning).partition(": layer ")[2] for warning in graph.warnings] == [
        '"gru" (ConvGRU): has 4 blobs, as in versions of its fork from January 2017; the versions before compute '
        "another update"
    ]


@pytest.mark.parametrize("form", ["separate", "joined", "with unused blobs"])
def test_versions_of_blobs(form: str) -> None:
    """Each version of the fork stores the same kernels in another way."""
    of_x, of_h, bias, peepholes = *JOINED, numbers(8), [*numbers(3, 4, 5)]
    by_gate = [part for pair in zip(np.split(of_h, 4), np.split(bias, 4), strict=True) for part in pair]
    unused = [np.zeros(1)] * 2
    blobs = {
        "separate": [*np.split(of_x, 4), *by_gate, *peepholes],
        "joined": [of_x, of_h, bias, *peepholes],
        "with unused blobs": [of_x, *unused, of_h, bias, *peepholes, *unused],
    }
    inputs = {"x": numbers(*X["x"]), "cont": np.ones(X["cont"], "f")}
    layer = op("ConvLSTM", OF_X, X)
    found = run(layer, inputs, stored("op", blobs[form]))["y"]
    np.testing.assert_allclose(found, run(layer, inputs, stored("op", blobs["joined"]))["y"], 1e-6, 1e-7)


def test_blobs_that_fit_no_version() -> None:
    message = refusal(op("ConvLSTM", OF_X, X), X, stored("op", JOINED))
    assert message.partition("(ConvLSTM)")[2] == (
        ", blob 1 (unused blob): shape in the weights file is (8, 2, 3, 3), expected (1,)\n"
        "  fix: use the prototxt that these weights were trained with"
    )

"""Every output depends on an input: which blobs become inputs where the net has none, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.surgery.ir import Graph
from prototrt.tests import caffe2_nets
from prototrt.tests.caffe2_nets import operator
from prototrt.tests.command_line import run
from prototrt.tests.small_nets import failure, numbers, op, rewritten, told


def dummy(tops: Mapping[str, str], name: str = "fill") -> str:
    """A DummyData: for each top its sizes, and a filler if there is one."""
    blobs = " ".join(f'top: "{top}"' for top in tops)
    shapes = " ".join(f"shape {{ {text.partition('|')[0]} }}" for text in tops.values())
    fillers = " ".join(f"data_filler {{ {text.partition('|')[2]} }}" for text in tops.values() if "|" in text)
    return f'layer {{ name: "{name}" type: "DummyData" {blobs} dummy_data_param {{ {shapes} {fillers} }} }}\n'


def layer(kind: str, name: str, bottoms: str, fields: str = "") -> str:
    return op(kind, fields, bottoms.split(), [name]).replace('"op"', f'"{name}"') + "\n"


SEQUENCE, MARKERS, STATE = "dim: [4, 2, 3]", "dim: [4, 2]", "dim: [1, 2, 5]"
X, CONT = dummy({"x": SEQUENCE}, "x"), dummy({"cont": MARKERS}, "cont")
LSTM = layer("LSTM", "h", "x cont", "recurrent_param { num_output: 5 }")
EXPOSED = layer("LSTM", "h", "x cont h0 c0", "recurrent_param { num_output: 5 expose_hidden: true }").replace(
    'top: "h"', 'top: "h" top: "hT" top: "cT"'
)
STATES = dummy({"h0": STATE, "c0": STATE}, "states")
INPUT = 'layer { name: "i" type: "Input" top: "i" input_param { shape { dim: [4, 2, 3] } } }\n'
SUM = layer("Eltwise", "s", "x k")
ONE = "|value: 1"

FED: dict[str, tuple[str, list[str], list[str]]] = {  # the net, its inputs without states, its outputs
    "markers too": (X + CONT + LSTM, ["x", "cont"], ["h"]),
    "all of one layer": (dummy({"x": SEQUENCE, "cont": MARKERS}) + LSTM, ["x", "cont"], ["h"]),
    "all numbers are stated": (dummy({"x": SEQUENCE + ONE, "cont": MARKERS + ONE}) + LSTM, ["x", "cont"], ["h"]),
    "a stated number is a constant beside data": (X + dummy({"k": SEQUENCE + ONE}) + SUM, ["x"], ["s"]),
    "a Parameter stays what it is": (
        X + op("Parameter", "parameter_param { shape { dim: [4, 2, 3] } }", (), ["k"]) + "\n" + SUM,
        ["x"],
        ["s"],
    ),
    "one of a layer": (dummy({"x": f"{SEQUENCE}|type: 'gaussian'", "k": SEQUENCE + ONE}) + SUM, ["x"], ["s"]),
    "stated zeros are markers beside data": (X + dummy({"cont": f"{MARKERS}|value: 0"}) + LSTM, ["x"], ["h"]),
    "initial states, too": (X + CONT + STATES + EXPOSED, ["x", "cont"], ["h"]),
    "an input that is only a state is none": (
        X.replace("x", "y") + INPUT.replace('"i"', '"h0"').replace("4, 2, 3", "1, 2, 5")
        + dummy({"c0": f"{STATE}|type: 'gaussian'"}, "c0") + CONT
        + EXPOSED.replace('"x"', '"y"'),
        ["y", "cont"],
        ["h"],
    ),
    "stated data where only a state states nothing": (
        dummy({"x": SEQUENCE + ONE, "cont": MARKERS + ONE}) + STATES + EXPOSED,
        ["x", "cont"],
        ["h"],
    ),
    "what is not read is no output": (X + dummy({"label": "dim: 2|value: 1"}) + layer("TanH", "t", "x"), ["x"], ["t"]),
    "in place": (X + layer("TanH", "x", "x").replace('name: "x"', 'name: "t"'), ["x"], ["x@t"]),
    "beside an input": (INPUT + CONT + LSTM.replace('"x"', '"i"'), ["i"], ["h"]),
    "read for its size": (INPUT + X + layer("Crop", "c", "i x", "crop_param { axis: 2 }"), ["i"], ["c"]),
    "only for TRAIN": (
        X.replace("dummy_data_param", "include { phase: TRAIN } dummy_data_param")
        + X.replace("4,", "8,").replace("dummy_data_param", "include { phase: TEST } dummy_data_param")
        + layer("TanH", "t", "x"),
        ["x"],
        ["t"],
    ),
}  # fmt: skip


def names(graph: Graph) -> tuple[list[str], list[str]]:
    """The inputs and the outputs that are not states."""
    states = {value for pair in graph.recurrences for value in (pair.input, pair.output)}
    inputs, outputs = (
        [v.name for v in values if v not in states] for values in (graph.inputs, graph.outputs)
    )
    return inputs, outputs


@pytest.mark.parametrize("case", FED)
def test_inputs(case: str) -> None:
    net, inputs, outputs = FED[case]
    graph = rewritten(net, {}, {}, require_weights=False)
    assert names(graph) == (inputs, outputs)


def test_initial_states_are_fed_back() -> None:
    graph = rewritten(X + CONT + STATES + EXPOSED, {}, require_weights=False)
    assert [(pair.input.name, pair.output.name) for pair in graph.recurrences] == [("h0", "hT"), ("c0", "cT")]


def warnings(net: str, **options: Any) -> list[str]:
    graph = rewritten(net, {}, require_weights=False, **options)
    return [told(text) for text in graph.warnings]


INTRO = "net.prototxt: no output depends on an input, so "


@pytest.mark.parametrize(
    ("net", "options", "expected"),
    [
        (
            X + CONT + LSTM,
            {},
            [
                INTRO + '"x", "cont", which DummyData fills, became inputs;'
                ' keep_constant=["x", "cont"] keeps them constant'
            ],
        ),
        (
            X + CONT + LSTM,
            {"keep_constant": ["cont"]},
            [INTRO + '"x", which DummyData fills, became an input; keep_constant=["x"] keeps it constant'],
        ),
        (
            X + CONT + LSTM,
            {"keep_constant": ["x", "cont"]},
            ['net.prototxt: output "h" depends on no input, so it is always the same'],
        ),
        (
            X + CONT + LSTM,
            {"shapes": {"x": (4, 2, 6)}},
            [
                INTRO
                + '"cont", which DummyData fills, became an input; keep_constant=["cont"] keeps it constant'
            ],
        ),
        (
            INPUT + layer("TanH", "t", "i") + X + layer("TanH", "u", "x"),
            {},
            [
                'net.prototxt: output "u" depends on no input, so it is always the same;'
                ' shapes={"x": (4, 2, 3)} makes one'
            ],
        ),
    ],
    ids=[
        "fed",
        "one is kept",
        "all are kept",
        "one has a shape",
        "beside an output that depends on an input",
    ],
)
def test_warnings(net: str, options: dict[str, Any], expected: Sequence[str]) -> None:
    assert warnings(net, **options) == expected


PARAMETER = 'layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: [2, 3] } } }\n'
TANH_OF_PARAMETER = PARAMETER + layer("TanH", "t", "p")
REFUSED = {
    TANH_OF_PARAMETER: 'net.prototxt: no output depends on an input that is not a state\n'
    '  because their data come from layer "p" (Parameter)\n'
    '  fix: make an input: shapes={"p": (2, 3)}; or keep_constant=["p"] if a constant result is meant',
    PARAMETER: 'net.prototxt: no output depends on an input that is not a state\n'
    '  because their data come from layer "p" (Parameter)\n'
    '  fix: add an input to the net; or keep_constant=["p"] if a constant result is meant',
    X: 'net.prototxt: no output depends on an input that is not a state\n'
    '  because their data come from layer "x" (DummyData)\n'
    '  fix: add an input to the net; or keep_constant=["x"] if a constant result is meant',
}  # fmt: skip


@pytest.mark.parametrize("net", REFUSED)
def test_no_candidate(net: str) -> None:
    assert failure(lambda: rewritten(net, {}, require_weights=False)) == REFUSED[net]


def test_the_ways_out_of_a_net_of_constants() -> None:
    made = rewritten(TANH_OF_PARAMETER, {}, require_weights=False, shapes={"p": (5, 3)})
    assert [(value.name, value.shape) for value in made.inputs] == [("p", (5, 3))]
    assert not rewritten(TANH_OF_PARAMETER, {}, require_weights=False, keep_constant=["p"]).inputs


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"keep_constant": ["xs"]},
            'keep_constant names "xs", which the net does not fill\n  fix: use cont or x',
        ),
        (
            {"keep_constant": ["x"], "shapes": {"x": (4, 2, 3)}},
            'keep_constant names "x", which has a shape of an input\n  fix: leave out one of the two options',
        ),
    ],
)
def test_what_cannot_be_kept(options: dict[str, Any], expected: str) -> None:
    assert (
        failure(lambda: rewritten(X + CONT + LSTM, {}, require_weights=False, **options), OptionsError)
        == expected
    )


def test_sizes_of_new_inputs() -> None:
    """Their shapes are those of the file, and may be stated and vary like others."""
    net = X + CONT + LSTM
    assert [v.shape for v in rewritten(net, {}, require_weights=False).inputs[:2]] == [(4, 2, 3), (4, 2)]
    stated = rewritten(net, {}, require_weights=False, shapes={"x": (8, 2, 3), "cont": (8, 2)})
    assert [v.shape for v in stated.inputs[:2]] == [(8, 2, 3), (8, 2)]
    varying = rewritten(net, {}, require_weights=False, dynamic=["batch"])
    assert [str(v.shape[1]) for v in varying.inputs[:2]] == ["N", "N"]


def test_numbers_are_those_of_declared_inputs() -> None:
    """What a program writes into the blobs acts as what is fed to Input layers."""
    fed = {"x": numbers(4, 2, 3), "cont": np.array([[0, 1], [1, 0], [1, 1], [1, 1]], np.float32)}
    weights = {"h/0": numbers(20, 3), "h/1": numbers(20), "h/2": numbers(20, 5)}
    declared = rewritten(LSTM, {name: array.shape for name, array in fed.items()}, weights)
    filled = rewritten(X + CONT + LSTM, {}, weights)
    expected, result = (prototrt.Session(graph).run(fed)["h"] for graph in (declared, filled))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "command", [["inspect"], ["dot", "-o", "net.dot"], ["convert", "-o", "net.onnx"], ["verify"]]
)
def test_commands_tell_the_same(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(X + layer("TanH", "t", "x"))
    result = run(command[0], "net.prototxt", *command[1:])
    assert result.exit_code == 0
    assert (
        'warning: net.prototxt: no output depends on an input, so "x", which DummyData fills, became an input;'
        " --keep-constant x keeps it constant\n"
    ) in result.stderr


IMAGE, WEIGHTS, BIAS = numbers(1, 3, 4, 4), numbers(2, 3, 1, 1), numbers(2)
CONVOLUTION = operator("Conv", ("image", "w", "b"), ("y",), kernel=1)
HELD: dict[
    str, tuple[list[Any], dict[str, Any], list[str]]
] = {  # operators, what the init net fills, the inputs
    "convolution": ([CONVOLUTION], {"w": WEIGHTS, "b": BIAS, "image": IMAGE}, ["image"]),
    "scaled before": (
        [operator("Sub", ("raw", "mean"), ("image",), broadcast=1), CONVOLUTION],
        {"mean": numbers(4), "raw": IMAGE, "w": WEIGHTS, "b": BIAS},
        ["raw"],
    ),
    "a bias that is reshaped": (
        [
            operator("ExpandDims", ("extra",), ("wide",), dims=[0]),
            CONVOLUTION,
            operator("Add", ("wide", "y"), ("z",)),
        ],
        {"extra": numbers(2, 4, 4), "w": WEIGHTS, "b": BIAS, "image": IMAGE},
        ["image"],
    ),
    "two streams": (
        [
            CONVOLUTION,
            operator("Conv", ("other", "w", "b"), ("z",), kernel=1),
            operator("Sum", ("y", "z"), ("s",)),
        ],
        {"w": WEIGHTS, "b": BIAS, "image": IMAGE, "other": IMAGE},
        ["image", "other"],
    ),
    "rows of a table": (
        [operator("Gather", ("table", "ids"), ("y",))],
        {"table": numbers(5, 3), "ids": np.array([1, 4], np.int32)},
        ["ids"],
    ),
    "without weights": ([operator("Relu", ("image",), ("y",))], {"image": IMAGE}, ["image"]),
}


@pytest.mark.parametrize("case", HELD)
def test_what_an_init_net_holds(case: str) -> None:
    operators, blobs, inputs = HELD[case]
    graph = caffe2_nets.graph_of(operators, {}, blobs)
    assert [(value.name, value.shape) for value in graph.inputs] == [
        (name, blobs[name].shape) for name in inputs
    ]
    words = ", ".join(f'"{name}"' for name in inputs)
    assert words + (", which the init net holds, became") in graph.warnings[-1]


def test_an_image_that_stays_in_the_init_net() -> None:
    operators, blobs, _ = HELD["convolution"]
    graph = caffe2_nets.graph_of(operators, {}, blobs, keep_constant=["image"])
    assert not graph.inputs
    assert graph.warnings[-1].endswith('output "y" depends on no input, so it is always the same')


def test_a_net_of_caffe2_that_only_fills() -> None:
    fill = operator("GivenTensorFill", (), ("x",), shape=[2], values=[1.0, 2.0])
    assert caffe2_nets.refusal([fill, operator("Relu")], {}, {}) == (
        "no output depends on an input that is not a state\n"
        '  because their data come from layer "x" (GivenTensorFill)\n'
        '  fix: add an input to the net; or keep_constant=["x"] if a constant result is meant'
    )

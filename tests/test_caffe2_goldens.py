"""Every net that real Caffe2 ran gives Caffe2's numbers, on every way we have of running it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.samples import kinds_in_sequence, one_of_each, runs_on_ways
from prototrt.tests.small_nets import is_sound

CASES = caffe2_cases()


def sequences(case: Caffe2Case) -> list[str]:
    """The ways in which a recurrence can be written: as a single step only where T is 1."""
    if not case.is_recurrent:
        return ["auto"]
    return ["loop", "unroll", *(["step"] if case.has_one_step else [])]


def test_all_goldens_are_here() -> None:
    assert len(CASES) == 66


SLOW_TO_BUILD = ("ff_detections", "ff_net_faster", "ff_net_mask", "ff_proposals", "ff_pyramid", "ff_regions")
"""Detectors of many loops, which take TensorRT 7 to 60 s each."""
BUILT = [case for case in CASES if not str(case).endswith(SLOW_TO_BUILD)]


@pytest.mark.parametrize(
    ("case", "sequence", "on"),
    runs_on_ways(
        [(case, sequence) for case in CASES for sequence in sequences(case)],
        lambda case, sequence: kinds_in_sequence(case.families, case, sequence),
    ),
)
def test_golden(case: Caffe2Case, sequence: Form, on: Way) -> None:
    case.check(prototrt.Session(case.rewritten(sequence), on=on, cut=True).run(case.arrays("inputs")))


@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: case.families), ids=str)
def test_text_gives_the_same_graph(case: Caffe2Case) -> None:
    assert case.rewritten(suffix="pbtxt").text() == case.rewritten().text()


@pytest.mark.trt
@pytest.mark.parametrize(
    "case",
    [
        *one_of_each(BUILT, lambda case: case.families),
        *(pytest.param(case, marks=pytest.mark.exhaustive) for case in CASES if case not in BUILT),
    ],
    ids=str,
)
def test_golden_builds(case: Caffe2Case) -> None:
    plan = prototrt.build(case.rewritten(), backend="rtx")
    assert is_sound(plan.plan)
    bindings = {binding["name"] for binding in plan.manifest["inputs"] + plan.manifest["outputs"]}
    assert set(case.arrays("inputs")) | set(case.arrays("outputs")) <= bindings


def test_last_states_are_fed_back_where_their_initial_values_are_inputs() -> None:
    (case,) = [case for case in CASES if case.folder.name == "lstm_basic"]
    graph = case.rewritten()
    pairs = {(pair.input.name, pair.output.name, pair.exposed) for pair in graph.recurrences}
    assert pairs == {
        ("hidden_init", "lstm/hidden_state_last", True),
        ("cell_init", "lstm/cell_state_last", True),
    }
    session = prototrt.Session(graph)
    inputs = case.arrays("inputs")
    first = session.run(inputs)
    carried = session.run({"data": inputs["data"], "seq_lengths": inputs["seq_lengths"]})
    given = prototrt.Session(graph).run(
        {
            **inputs,
            "hidden_init": first["lstm/hidden_state_last"],
            "cell_init": first["lstm/cell_state_last"],
        }
    )
    assert all((carried[name] == given[name]).all() for name in given)


def test_an_input_that_two_states_start_from_is_no_pair() -> None:
    """The April-2017 helper of cuDNN's Recurrent gave the initial cell state twice."""
    (case,) = [case for case in CASES if case.folder.name == "lstm_1l"]
    model = case.load()
    (recurrent,) = [layer for layer in model.layers if layer.type == "Recurrent"]
    bottoms = (recurrent.bottoms[0], "cell_init", "cell_init", recurrent.bottoms[3])
    layers = (*model.layers[:-1], replace(recurrent, bottoms=bottoms))
    shapes = {name: array.shape for name, array in case.arrays("inputs").items()}
    graph = prototrt.rewrite(replace(model, layers=layers), shapes=shapes)
    assert graph.recurrences == ()
    assert [value.name for value in graph.outputs] == ["rnn_output", "rnn_hidden_output", "rnn_cell_output"]


@pytest.mark.trt
@pytest.mark.parametrize("steps", [1, 5])
def test_the_number_of_steps_may_vary(steps: int) -> None:
    """The step net counts its steps, to compare them with the lengths."""
    (case,) = [case for case in CASES if case.folder.name == "lstm_basic"]
    inputs = case.arrays("inputs")
    shapes = {name: array.shape for name, array in inputs.items()}
    least, most = {"data": (1, 2, 4)}, {"data": (9, 2, 4)}
    graph = prototrt.rewrite(case.load(), shapes=shapes, min_shapes=least, max_shapes=most)
    expected = case.arrays("outputs")["lstm/hidden_state_all"][:steps]
    feeds = {**inputs, "data": inputs["data"][:steps]}
    for on in ("reference", "network"):
        found = prototrt.Session(graph, on=on).run(feeds)["lstm/hidden_state_all"]
        np.testing.assert_allclose(found, expected, 1e-4, 2e-5)


def test_lengths_stay_whole_numbers() -> None:
    (case,) = [case for case in CASES if case.folder.name == "attn_regular_masked"]
    dtypes = {value.name: value.dtype.value for value in case.rewritten().inputs}
    assert {name for name, dtype in dtypes.items() if dtype == "int32"} == {
        "decoder_seq_lengths",
        "encoder_seq_lengths",
    }


def test_a_state_whose_last_value_is_no_output_of_the_net_becomes_one() -> None:
    (case,) = [case for case in CASES if case.folder.name == "lstm_layered2"]
    graph = case.rewritten()
    assert [(pair.input.name, pair.output.name) for pair in graph.recurrences] == [
        ("hidden_init", "enc/hidden_state_last"),
        ("cell_init", "enc/cell_state_last"),
    ]
    assert "enc/hidden_state_last" in [value.name for value in graph.outputs]

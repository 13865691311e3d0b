"""Recurrences that a user states, of a net whose recurrent layers were written out by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.caffe_proto.text.marks import MarkedRecurrence, marked_recurrences
from prototrt.surgery.expansion.recurrences import likely_recurrences
from prototrt.surgery.ir import Array, DType, Graph, Value
from prototrt.tests.command_line import done, run
from prototrt.tests.npz import write_npz
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, numbers, stored

INPUTS = {"x": (2, 3), "cont": (2, 1), "h_prev": (2, 4), "c_prev": (2, 4)}
STEP = """
layer { name: "reshape" type: "Reshape" bottom: "cont" top: "delta" reshape_param { shape { dim: 0 } } }
layer { name: "delta_h" type: "Scale" bottom: "h_prev" bottom: "delta" top: "h_kept" scale_param { axis: 0 } }
layer { name: "delta_c" type: "Scale" bottom: "c_prev" bottom: "delta" top: "c_kept" scale_param { axis: 0 } }
layer { name: "of_x" type: "InnerProduct" bottom: "x" top: "of_x" inner_product_param { num_output: 16 } }
layer { name: "of_h" type: "InnerProduct" bottom: "h_kept" top: "of_h"
  inner_product_param { num_output: 16 bias_term: false } }
layer { name: "sum" type: "Eltwise" bottom: "of_x" bottom: "of_h" top: "gates" }
layer { name: "cut" type: "Slice" bottom: "gates" top: "i" top: "f" top: "o" top: "g" slice_param { axis: 1 } }
layer { name: "i" type: "Sigmoid" bottom: "i" top: "i" }
layer { name: "f" type: "Sigmoid" bottom: "f" top: "f" }
layer { name: "o" type: "Sigmoid" bottom: "o" top: "o" }
layer { name: "g" type: "TanH" bottom: "g" top: "g" }
layer { name: "keep" type: "Eltwise" bottom: "f" bottom: "c_kept" top: "kept" eltwise_param { operation: PROD } }
layer { name: "write" type: "Eltwise" bottom: "i" bottom: "g" top: "written" eltwise_param { operation: PROD } }
layer { name: "c" type: "Eltwise" bottom: "kept" bottom: "written" top: "c" }
layer { name: "squash" type: "TanH" bottom: "c" top: "squashed" }
layer { name: "h" type: "Eltwise" bottom: "o" bottom: "squashed" top: "h" eltwise_param { operation: PROD } }
"""
WEIGHTS = stored("of_x", [numbers(16, 3), numbers(16, seed=1)]) | stored("of_h", [numbers(16, 4, seed=2)])
PAIRS = {"h": "h_prev", "c": "c_prev"}
OUTPUTS = ("h", "c")
OPEN = {name: ("N", *sizes[1:]) for name, sizes in INPUTS.items()}


def step(folder: Path, inputs: Mapping[str, Sequence[int]] = INPUTS) -> prototrt.Model:
    return loaded(folder, inputs_of(inputs) + STEP, WEIGHTS)


def calls() -> list[dict[str, Array]]:
    """Four steps, of which the third begins a sequence in one of the streams."""
    conts = ([0, 0], [1, 1], [0, 1], [1, 1])
    return [
        {"x": numbers(2, 3, seed=place), "cont": np.array(cont, np.float32)[:, None]}
        for place, cont in enumerate(conts)
    ]


def fed_by_hand(model: prototrt.Model, first: Mapping[str, Array]) -> list[dict[str, Array]]:
    """What a program computes that feeds the outputs back itself."""
    session = prototrt.Session(prototrt.rewrite(model, outputs=OUTPUTS))
    results, state = [], dict(first)
    for feeds in calls():
        results.append(session.run({**feeds, **state}))
        state = {fed: results[-1][output] for output, fed in PAIRS.items()}
    return results


ZEROS = {"h_prev": np.zeros((2, 4), np.float32), "c_prev": np.zeros((2, 4), np.float32)}


def assert_same(found: Sequence[Mapping[str, Array]], expected: Sequence[Mapping[str, Array]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in other:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["caffe", "batch-first"])
@pytest.mark.parametrize("on", WAYS)
def test_a_session_feeds_back_what_the_user_pairs(on: Way, layout: Any, tmp_path: Path) -> None:
    model = step(tmp_path)
    graph = prototrt.rewrite(model, recurrences=PAIRS, outputs=OUTPUTS, layout=layout)
    session = prototrt.Session(graph, on=on)
    assert_same([session.run(feeds) for feeds in calls()], fed_by_hand(model, ZEROS))
    session.reset()
    assert_same([session.run(feeds) for feeds in calls()], fed_by_hand(model, ZEROS))


def test_the_caller_sees_the_outputs_as_before(tmp_path: Path) -> None:
    graph = prototrt.rewrite(step(tmp_path), recurrences=PAIRS, outputs=OUTPUTS)
    assert [value.name for value in graph.outputs] == ["h", "c", "h_prev_next", "c_prev_next"]
    assert [(pair.output.name, pair.input.name, pair.exposed) for pair in graph.recurrences] == [
        ("h_prev_next", "h_prev", False),
        ("c_prev_next", "c_prev", False),
    ]


def test_states_are_carried_whatever_outputs_the_user_names(tmp_path: Path) -> None:
    model = step(tmp_path)
    graph = prototrt.rewrite(model, recurrences=PAIRS, outputs=["h"])
    assert [value.name for value in graph.outputs] == ["h", "h_prev_next", "c"]
    session = prototrt.Session(graph)
    expected = [{"h": results["h"]} for results in fed_by_hand(model, ZEROS)]
    assert_same([session.run(feeds) for feeds in calls()], expected)


def test_a_net_of_states_alone_is_refused(tmp_path: Path) -> None:
    model = loaded(
        tmp_path, inputs_of({"h_prev": (1, 4)}) + 'layer { name: "h" type: "TanH" bottom: "h_prev" top: "h" }'
    )
    with pytest.raises(prototrt.NetError, match="no output depends on an input that is not a state"):
        prototrt.rewrite(model, recurrences={"h": "h_prev"})


def test_streams_of_any_number(tmp_path: Path) -> None:
    model = step(tmp_path)
    graph = prototrt.rewrite(model, recurrences=PAIRS, outputs=OUTPUTS, shapes=OPEN, sizes={"N": (1, 2, 8)})
    session = prototrt.Session(graph)
    assert_same([session.run(feeds) for feeds in calls()], fed_by_hand(model, ZEROS))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("sizes", ["stated", "open"])
def test_a_state_that_begins_with_the_same_numbers_in_each_call(on: Way, sizes: str, tmp_path: Path) -> None:
    model = step(tmp_path)
    first = ZEROS if sizes == "stated" else {name: numbers(2, 4, seed=9)[:1] for name in ZEROS}
    options = prototrt.RewriteOptions(recurrences=PAIRS, outputs=OUTPUTS, state="zero")
    if sizes == "open":
        options = replace(options, state=first, shapes=OPEN, sizes={"N": (1, 2, 8)})
    graph = prototrt.rewrite(model, options=options)
    assert [value.name for value in graph.inputs] == ["x", "cont"]
    assert not graph.recurrences
    every = {name: np.broadcast_to(array, (2, 4)) for name, array in first.items()}
    feeds = calls()[1]
    expected = prototrt.Session(prototrt.rewrite(model, outputs=OUTPUTS)).run({**feeds, **every})
    session = prototrt.Session(graph, on=on)
    assert_same([session.run(feeds), session.run(feeds)], [expected, expected])


def test_streams_are_served_together(tmp_path: Path) -> None:
    graph = prototrt.rewrite(
        step(tmp_path), recurrences=PAIRS, outputs=OUTPUTS, shapes=OPEN, sizes={"N": (1, 2, 8)}
    )
    single = prototrt.Session(graph)
    with prototrt.Sessions(prototrt.Session(graph), streams=2) as pool:
        streams = [pool.open() for _ in range(2)]
        for feeds in calls():
            together = pool.step(
                {
                    stream: {name: array[place : place + 1] for name, array in feeds.items()}
                    for place, stream in enumerate(streams)
                }
            )
            expected = single.run(feeds)
            for place, stream in enumerate(streams):
                np.testing.assert_allclose(together[stream]["h"], expected["h"][place : place + 1], atol=1e-6)


def test_the_command_writes_them_everywhere(tmp_path: Path) -> None:
    net, weights = tmp_path / "step.prototxt", tmp_path / "step.npz"
    net.write_text(inputs_of(INPUTS) + STEP)
    write_npz(weights, WEIGHTS)
    pairs = [word for output, fed in PAIRS.items() for word in ("--recurrence", f"{output}={fed}")]
    common = [str(net), str(weights), *pairs, "--output", "h", "--output", "c"]
    target = tmp_path / "step.onnx"
    told = done("convert", *common, "-o", str(target), "--verify").output
    assert "state    h_prev_next -> h_prev 2x4" in told
    manifest = json.loads((tmp_path / "step.onnx.json").read_text())
    assert [(pair["output"], pair["input"]) for pair in manifest["recurrences"]] == [
        ("h_prev_next", "h_prev"),
        ("c_prev_next", "c_prev"),
    ]
    assert "state    c_prev_next -> c_prev 2x4" in done("inspect", *common).output
    models = tmp_path / "models.yaml"
    models.write_text(
        f"models:\n- prototxt: {net}\n  weights: {weights}\n  format: onnx\n  recurrences: {{h: h_prev, c: c_prev}}\n"
        "  outputs: [h, c]\n"
    )
    done("batch", str(models), "-o", str(tmp_path / "out"))
    (written,) = (tmp_path / "out").rglob("*.onnx.json")
    assert json.loads(written.read_text())["recurrences"] == manifest["recurrences"]


def test_inspect_proposes_pairs_and_assumes_none(tmp_path: Path) -> None:
    net = tmp_path / "step.prototxt"
    net.write_text(inputs_of(INPUTS) + STEP)
    told = done("inspect", str(net), "--output", "h", "--output", "c").output
    assert "state?   h -> h_prev 2x4: if so, convert with --recurrence h=h_prev" in told
    assert "state?   c -> c_prev 2x4: if so, convert with --recurrence c=c_prev" in told
    inspection = prototrt.inspect(prototrt.load(net), outputs=OUTPUTS)
    assert not inspection.recurrences  # type: ignore[union-attr]  # it is a net


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            {"hidden": "h_prev"},
            'recurrences={"hidden": "h_prev"}: "hidden" is not an output\n  fix: name one of the outputs: c or h',
        ),
        (
            {"h": "h_before"},
            'recurrences={"h": "h_before"}: "h_before" is not an input\n'
            "  fix: name one of the inputs: c_prev, cont, h_prev or x",
        ),
        (
            {"h": "h_prev", "c": "h_prev"},
            'recurrences={"c": "h_prev"}: "h_prev" is fed by "h" already\n  fix: leave out one of "h" and "c"',
        ),
        (
            {"h": "x"},
            'recurrences={"h": "x"}: "h" is 2x4, expected 2x3, as "x" is\n'
            '  fix: give the input the sizes of the output, as in shapes={"x": (2, 4)}',
        ),
        (
            {"h": "wide"},
            'recurrences={"h": "wide"}: "h" is 2x4, expected 1x2x4, as "wide" is\n'
            "  fix: add a Reshape to 1x2x4 after it, and feed its top back",
        ),
    ],
)
def test_pairs_that_do_not_fit(pairs: dict[str, str], message: str, tmp_path: Path) -> None:
    text = inputs_of({**INPUTS, "wide": (1, 2, 4)}) + STEP
    text += 'layer { name: "read" type: "TanH" bottom: "wide" top: "also" }\n'
    model = loaded(tmp_path, text, WEIGHTS)
    with pytest.raises(prototrt.ShapeError) as refusal:
        prototrt.rewrite(
            model, recurrences=pairs, outputs=(*OUTPUTS, "also") if "wide" in pairs.values() else OUTPUTS
        )
    assert str(refusal.value) == f"{model.file}: {message}"


def test_a_pair_is_written_with_a_sign_between(tmp_path: Path) -> None:
    net = tmp_path / "step.prototxt"
    net.write_text(inputs_of(INPUTS) + STEP)
    result = run("inspect", str(net), "--recurrence", "h:h_prev")
    assert result.exit_code == 2
    assert '"h:h_prev" is not a recurrence: write the output and the input, as in h=h_prev' in result.output


def graph_of(inputs: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[int, ...]]) -> Graph:
    given, written = (
        tuple(Value(name, DType.FLOAT32, shape) for name, shape in values.items())
        for values in (inputs, outputs)
    )
    return Graph("", given, written, ())


@pytest.mark.parametrize(
    ("inputs", "outputs", "pairs"),
    [
        (["h_prev"], ["h"], {"h": "h_prev"}),
        (["c_tm1", "x"], ["c_t", "y"], {"c_t": "c_tm1"}),
        (
            ["lstm_h_0", "lstm_c_0"],
            ["lstm_c_T", "lstm_h_T"],
            {"lstm_h_T": "lstm_h_0", "lstm_c_T": "lstm_c_0"},
        ),
        (["prev_state"], ["next_state"], {"next_state": "prev_state"}),
        (["h_in"], ["h_out", "h_new"], {}),
        (["data"], ["prob"], {}),
    ],
)
def test_names_that_suggest_a_pair(inputs: list[str], outputs: list[str], pairs: dict[str, str]) -> None:
    graph = graph_of(dict.fromkeys(inputs, (1, 4)), dict.fromkeys(outputs, (1, 4)))
    assert likely_recurrences(graph) == pairs


def test_other_shapes_are_no_pair() -> None:
    assert likely_recurrences(graph_of({"h_prev": (1, 4)}, {"h": (1, 5)})) == {}


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.booleans())
def test_a_file_carries_pairs_of_any_names(output: str, fed: str, exposed: bool) -> None:
    pair = MarkedRecurrence(output, fed, exposed)
    assert "\n" not in pair.comment
    assert pair.comment.isascii()
    assert marked_recurrences(f'name: "net"\n{pair.comment}\n# and more\n') == [pair]

"""ONNX's own LSTM, where a recurrence is exactly that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prototrt
from prototrt.converter.backends.onnx.evaluator import OnnxEvaluator
from prototrt.converter.options import ExportOptions
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph, Value
from prototrt.surgery.ops import GREATER, LeakyReLU, Scan, Sigmoid
from prototrt.surgery.passes import fuse_lstms
from prototrt.surgery.pipeline import CANONICAL, lowered
from prototrt.surgery.recurrent.cells import Cell, LSTMCell, RNNCell, RNNForm, scan
from prototrt.surgery.recurrent.gru import GRUCell
from prototrt.surgery.recurrent.resets import GuardedCell
from prototrt.surgery.runner import run
from prototrt.tests.command_line import done
from prototrt.tests.golden_cases import Case, caffe_cases
from prototrt.tests.small_nets import inputs_of, loaded, numbers, op

LSTMS = [case for case in caffe_cases() if "LSTM" in case.facts["layer_types"]]


def case_of(name: str) -> Case:
    (case,) = [case for case in LSTMS if str(case) == name]
    return case


def kinds(graph: Graph, path: Path) -> Counter[str]:
    prototrt.export_onnx(graph, path, onnx_lstm=True)
    onnx.checker.check_model(str(path), full_check=True)
    return Counter(node.op_type for node in onnx.load(str(path)).graph.node)


def without_cont(case: Case) -> Graph:
    inputs = case.arrays("inputs")[0]
    shapes = {name: array.shape for name, array in inputs.items() if not name.startswith("cont")}
    return prototrt.rewrite(case.load(), shapes=shapes, sequence="loop", cont="drop")


def drawn(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    return {
        value.name: rng.uniform(0, 1, value.shape).astype(value.dtype.numpy)  # type: ignore[arg-type]  # fixed
        for value in graph.inputs
    }


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "VanillaRNN"])
def test_a_stream_without_a_step_keeps_its_state(kind: str, tmp_path: Path) -> None:
    """onnxruntime returns zeros for it."""
    bottoms = ("x", "cont", "lengths")
    layer = op(kind, "recurrent_param { num_output: 2 sequence_lengths: true past_end: HOLD }", bottoms)
    text = inputs_of({"x": (3, 2, 2), "cont": (3, 2), "lengths": (2,)}) + layer
    graph = prototrt.rewrite(loaded(tmp_path, text, random_weights=1), cont="drop")
    assert kinds(graph, tmp_path / "model.onnx")["Scan"] == 0
    sessions = prototrt.Session(graph), prototrt.Session(graph, on="onnx-lstm")
    for lengths in ([3, 2], [0, 1], [0, 0]):
        feeds = {"x": numbers(3, 2, 2), "lengths": np.array(lengths, np.int32)}
        expected, found = (session.run(feeds)["y"] for session in sessions)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm_t20", "lstm_stacked", "lstm_expose", "lstm_carry", "net_lrcn"])
def test_a_plain_lstm_is_one_operator(name: str, tmp_path: Path) -> None:
    graph = without_cont(case_of(name))
    scans = sum(isinstance(node.op, Scan) for node in graph.nodes)
    found = kinds(graph, tmp_path / "model.onnx")
    assert (found["LSTM"], found["Scan"]) == (scans, 0)
    feeds = drawn(graph)
    results = OnnxEvaluator(graph, ExportOptions(onnx_lstm=True)).run(feeds)
    for value, expected in zip(graph.outputs, graph.evaluate(*feeds.values()), strict=True):
        np.testing.assert_allclose(results[value.name], expected, rtol=1e-4, atol=1e-5)


def test_backwards(tmp_path: Path) -> None:
    graph = without_cont(case_of("lstm_t5_n3"))
    nodes = [
        replace(node, op=replace(node.op, reverse=True)) if isinstance(node.op, Scan) else node
        for node in graph.nodes
    ]
    graph = graph.with_nodes(nodes)
    assert kinds(graph, tmp_path / "model.onnx")["LSTM"] == 1
    assert_same(graph)


@pytest.mark.parametrize("name", ["lstm_static", "lstm_static_4axis"])
def test_a_static_input_is_part_of_the_gates(name: str, tmp_path: Path) -> None:
    """They are computed outside, and passed on by a unit matrix."""
    graph = without_cont(case_of(name))
    operators = kinds(graph, tmp_path / "model.onnx")
    assert (operators["LSTM"], operators["Scan"]) == (1, 0)
    assert_same(graph)


def test_too_many_gates_are_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_lstms, "MOST_GATES", 8)
    operators = kinds(without_cont(case_of("lstm_static")), tmp_path / "model.onnx")
    assert (operators["LSTM"], operators["Scan"]) == (0, 1)


def test_a_cont_of_several_steps_stays_a_scan(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "prototrt")  # a command that ran before may have set another
    case = case_of("lstm_t20")
    graph = prototrt.rewrite(case.load(), sequence="loop")
    operators = kinds(graph, tmp_path / "model.onnx")
    assert (operators["LSTM"], operators["Scan"]) == (0, 1)
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("prototrt")]
    assert message == (
        f'{case.folder / "model.prototxt"}:25: layer "lstm" (LSTM): stays a Scan: cont resets its states, and'
        ' ONNX\'s operators have no reset: use cont="drop" if every step continues, or shapes with T = 1, or let the'
        " net itself state where at most 32 sequences start, in all streams at once"
    )


STRETCHES = {
    "whole": ([0, 1, 1, 1, 1, 1], 1),
    "carried": ([1, 1, 1, 1, 1, 1], 1),
    "two": ([0, 1, 1, 0, 1, 1], 2),
    "carried, then three": ([1, 1, 0, 0, 1, 0], 4),
}
"""The conts that a net states itself, and in how many stretches they cut it."""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "VanillaRNN"])
@pytest.mark.parametrize("case", STRETCHES)
def test_a_constant_cont_cuts_the_steps(case: str, kind: str, reverse: bool, tmp_path: Path) -> None:
    cont, stretches = STRETCHES[case]
    graph = with_cont(kind, [[step, step] for step in cont], reverse, tmp_path)
    found = kinds(graph, tmp_path / "model.onnx")
    assert (found[kind.removeprefix("Vanilla")], found["Scan"]) == (stretches, 0)
    assert_same(graph)


def test_streams_that_start_at_different_steps_stay_a_scan(tmp_path: Path) -> None:
    graph = with_cont("LSTM", [[0, 1], [1, 0], [1, 1]], False, tmp_path)
    assert kinds(graph, tmp_path / "model.onnx")["Scan"] == 1


def test_more_stretches_than_operators_should_be_stay_a_scan(tmp_path: Path) -> None:
    graph = with_cont("LSTM", [[0]] * 33, False, tmp_path)
    assert kinds(graph, tmp_path / "model.onnx")["Scan"] == 1


def with_cont(kind: str, cont: list[list[int]], reverse: bool, folder: Path) -> Graph:
    """A recurrent layer of 2 units over a cont (T, N) that the net itself makes."""
    steps, streams = len(cont), len(cont[0])
    rows = "".join(
        f'layer {{ name: "c{t}_{n}" type: "DummyData" top: "c{t}_{n}" dummy_data_param {{'
        f" shape {{ dim: 1 dim: 1 }} data_filler {{ value: {value} }} }} }}\n"
        for t, row in enumerate(cont)
        for n, value in enumerate(row)
    )
    for t in range(steps):
        rows += op("Concat", "concat_param { axis: 1 }", [f"c{t}_{n}" for n in range(streams)], [f"r{t}"])
    rows += op("Concat", "concat_param { axis: 0 }", [f"r{t}" for t in range(steps)], ["cont"])
    fields = f"recurrent_param {{ num_output: 2 {'reverse: true' if reverse else ''} }}"
    text = inputs_of({"x": (steps, streams, 3)}) + rows + op(kind, fields, ["x", "cont"], ["h"])
    return prototrt.rewrite(loaded(folder, text, random_weights=1), sequence="loop")


@pytest.mark.parametrize("cont", [0.0, 1.0, 0.5])
def test_the_cont_of_one_step_multiplies_the_states(cont: float, tmp_path: Path) -> None:
    graph = prototrt.rewrite(case_of("lstm_stream_t1").load(), sequence="loop")
    operators = kinds(graph, tmp_path / "model.onnx")
    assert (operators["LSTM"], operators["Scan"]) == (1, 0)
    assert_same(graph, cont=cont)


def test_python_keeps_the_recurrence_of_one_step_for_an_operator(tmp_path: Path) -> None:
    model = case_of("lstm_stream_t1").load()
    assert kinds(prototrt.rewrite(model, for_operators=True), tmp_path / "model.onnx")["LSTM"] == 1
    assert kinds(prototrt.rewrite(model), tmp_path / "model.onnx")["LSTM"] == 0


@pytest.mark.parametrize("sequence", ["auto", "loop", "step"])
def test_one_step_is_an_operator(sequence: str, tmp_path: Path) -> None:
    net = str(case_of("lstm_stream_t1").folder / "model.prototxt")
    file = str(tmp_path / "model.onnx")
    told = done(
        *(
            "convert",
            net,
            "--random-weights",
            "1",
            "--onnx-lstm",
            "--sequence",
            sequence,
            "--verify",
            "-o",
            file,
        )
    )
    assert "an operator for 1 of 1 recurrence" in told.stdout
    assert [node.op_type for node in onnx.load(file).graph.node].count("LSTM") == 1


@pytest.mark.parametrize("words", [["--cont", "drop"], ["--shape", "x:1x2x4", "--shape", "cont:1x2"]])
def test_what_the_warning_proposes_makes_an_operator(words: list[str], tmp_path: Path) -> None:
    net, file = str(case_of("lstm_t20").folder / "model.prototxt"), str(tmp_path / "model.onnx")
    told = done("convert", net, "--random-weights", "1", "--onnx-lstm", *words, "-o", file)
    assert "an operator for 1 of 1 recurrence" in told.stdout
    assert told.stderr == ""


@pytest.mark.parametrize("name", ["rnn_t5", "rnn_carry"])
def test_a_plain_rnn_is_one_operator(name: str, tmp_path: Path) -> None:
    graph = without_cont(*[case for case in caffe_cases() if str(case) == name])
    operators = kinds(graph, tmp_path / "model.onnx")
    assert (operators["RNN"], operators["Scan"]) == (1, 0)
    assert_same(graph)


WIDTH, STEPS, STREAMS = 5, 4, 3
CELLS: dict[str, tuple[int, Callable[[Callable[..., Value]], Cell]]] = {
    "LSTM": (4, lambda draw: LSTMCell(draw(4 * WIDTH, WIDTH))),
    "GRU": (3, lambda draw: GRUCell((draw(2 * WIDTH, WIDTH), draw(WIDTH, WIDTH)))),
    "GRU, reset after": (3, lambda draw: GRUCell((draw(3 * WIDTH, WIDTH),), draw(1, 3 * WIDTH))),
    "RNN": (1, lambda draw: RNNCell(draw(WIDTH, WIDTH))),
    "RNN, sigmoid": (1, lambda draw: RNNCell(draw(WIDTH, WIDTH), RNNForm(Sigmoid()))),
    "RNN, ReLU": (1, lambda draw: RNNCell(draw(WIDTH, WIDTH), RNNForm(LeakyReLU()))),
}


def recurrence(name: str, *, ends: bool, reverse: bool) -> Graph:
    """A cell over gates (T, N, G H); with ``ends``, the streams have lengths (N,)."""
    gates, cell_of = CELLS[name]
    build = Builder()
    cell = cell_of(lambda *shape: build.constant(numbers(*shape, seed=sum(shape))))
    x = build.input("x", (STEPS, STREAMS, gates * WIDTH))
    states = [build.input(f"{state}0", (STREAMS, size)) for state, size in cell.states.items()]
    marks = []
    if ends:
        lengths = build.input("lengths", (STREAMS,), DType.INT32)
        step_numbers = build.constant(np.arange(STEPS, dtype=np.int32).reshape(-1, 1, 1))
        marks = [build.add(GREATER, build.reshape(lengths, (1, STREAMS, 1)), step_numbers)]
    step = scan(build, GuardedCell(cell, ends=ends), [x, *marks], states, reverse=reverse)
    return lowered(build.graph("", [*step.states, *step.outputs]), "reference")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_each_cell_in_both_directions_with_and_without_lengths(
    name: str, ends: bool, reverse: bool, tmp_path: Path
) -> None:
    graph = run(recurrence(name, ends=ends, reverse=reverse), [CANONICAL])
    operators = kinds(graph, tmp_path / "model.onnx")
    assert (operators[name.partition(",")[0]], operators["Scan"]) == (1, 0)
    lengths = {"lengths": np.array([4, 1, 2], np.int32)} if ends else {}
    assert_same(graph, **lengths)


def assert_same(graph: Graph, **chosen: Any) -> None:
    """The operators give the numbers of the reference for these inputs, and others drawn."""
    feeds = drawn(graph)
    for name, value in chosen.items():
        feeds[name] = np.full_like(feeds[name], value)
    results = OnnxEvaluator(graph, ExportOptions(onnx_lstm=True)).run(feeds)
    for value, expected in zip(graph.outputs, graph.evaluate(*feeds.values()), strict=True):
        np.testing.assert_allclose(results[value.name], expected, rtol=1e-4, atol=1e-5)


def test_it_is_asked_for(tmp_path: Path) -> None:
    prototrt.export_onnx(without_cont(case_of("lstm_t20")), tmp_path / "model.onnx")
    nodes = onnx.load(str(tmp_path / "model.onnx")).graph.node
    assert {node.op_type for node in nodes} >= {"Scan"}


def test_the_summary_counts_operators_and_scans(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" top: "cont" input_param { shape { dim: 3 dim: 1 dim: 2 }'
        " shape { dim: 3 dim: 1 } } }\n"
        'layer { name: "a" type: "RNN" bottom: "x" bottom: "cont" top: "a"'
        " recurrent_param { num_output: 2 } }\n"
    )
    options = ["-o", str(tmp_path / "net.onnx"), "--random-weights", "1", "--onnx-lstm"]
    kept = done("convert", str(net), *options)
    dropped = done("convert", str(net), *options, "--cont", "drop")
    assert "operator for 0 of 1 recurrence" in kept.stdout
    assert "operator for 1 of 1 recurrence" in dropped.stdout

"""ONNX's own LSTM, where a recurrence is exactly that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import prototrt
from prototrt.converter.onnx.evaluator import OnnxEvaluator
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ops import Scan
from prototrt.tests.golden_cases import Case, caffe_cases

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
    feeds = drawn(graph)
    results = OnnxEvaluator(graph, ExportOptions(onnx_lstm=True)).run(feeds)
    for value, expected in zip(graph.outputs, graph.evaluate(*feeds.values()), strict=True):
        np.testing.assert_allclose(results[value.name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm_static", "lstm_static_4axis"])
def test_a_static_input_stays_a_scan(name: str, tmp_path: Path) -> None:
    found = kinds(without_cont(case_of(name)), tmp_path / "model.onnx")
    assert (found["LSTM"], found["Scan"]) == (0, 1)


def test_a_recurrence_that_looks_at_cont_stays_a_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "prototrt")  # a command that ran before may have set another
    case = case_of("lstm_t20")
    graph = prototrt.rewrite(case.load(), sequence="loop")
    found = kinds(graph, tmp_path / "model.onnx")
    assert (found["LSTM"], found["Scan"]) == (0, 1)
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("prototrt")]
    assert message == (
        f'{case.folder / "model.prototxt"}:25: layer "lstm" (LSTM): stays a Scan: a cont, a static input,'
        " float16 or another cell does not fit ONNX's LSTM"
    )


def test_another_cell_stays_a_scan(tmp_path: Path) -> None:
    (case,) = [case for case in caffe_cases() if str(case) == "rnn_t5"]
    graph = prototrt.rewrite(case.load(), sequence="loop", cont="drop")
    found = kinds(graph, tmp_path / "model.onnx")
    assert (found["LSTM"], found["Scan"]) == (0, 1)


def test_it_is_asked_for(tmp_path: Path) -> None:
    prototrt.export_onnx(without_cont(case_of("lstm_t20")), tmp_path / "model.onnx")
    nodes = onnx.load(str(tmp_path / "model.onnx")).graph.node
    assert {node.op_type for node in nodes} >= {"Scan"}

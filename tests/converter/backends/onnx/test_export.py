"""The written files: correct, complete, and run by onnxruntime."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.converter.backends.onnx import api, file
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, Graph, OpenSize, Range
from prototrt.surgery.ops import ADD, MULTIPLY, Axis, Identity, MatMul, Reshape, Scan, TanH
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.tests.digit_strips import digits
from prototrt.tests.dynamic_lstm import dynamic_graph
from prototrt.tests.fresh_python import run_python
from prototrt.tests.golden_cases import caffe_cases, rewritten
from prototrt.tests.tools.caffemodel_writer import write

ROOT = Path(__file__).parents[4]
DIGITS = ROOT / "samples" / "digits"


def exported(graph: Graph, path: Path, **options: Any) -> onnx.ModelProto:
    prototrt.export_onnx(graph, path, **options)
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(str(path))


def answers(path: Path, **feeds: Array) -> dict[str, Array]:
    session = api.import_package("onnxruntime").InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def array(numbers: object) -> Array:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("name", ["lstm_carry", "net_crnn", "net_inception", "rnn_expose", "embed"])
def test_the_checker_accepts_the_file(name: str, tmp_path: Path) -> None:
    (case,) = [case for case in caffe_cases() if str(case) == name]
    exported(rewritten(case, case.arrays("inputs")[0]), tmp_path / "model.onnx")


def test_sizes_that_vary_have_names(tmp_path: Path) -> None:
    model = exported(dynamic_graph(), tmp_path / "model.onnx")
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes["x"] == ["T", "N", 6]
    assert shapes["cont"] == ["T", "N"]
    assert shapes["lstm_h_0"] == shapes["lstm_h_T"] == [1, "N", 8]


def test_the_model_says_who_wrote_it_and_what_to_feed_back(tmp_path: Path) -> None:
    model = exported(dynamic_graph(), tmp_path / "model.onnx")
    assert (model.producer_name, model.producer_version) == ("prototrt", prototrt.__version__)
    assert {fact.key: fact.value for fact in model.metadata_props} == {
        "recurrence lstm_h_0": "lstm_h_T",
        "recurrence lstm_c_0": "lstm_c_T",
    }


def test_manifest_says_what_to_feed_back(tmp_path: Path) -> None:
    graph = digits()
    model = exported(graph, tmp_path / "model.onnx")
    manifest = json.loads((tmp_path / "model.onnx.json").read_text())
    pairs = [
        {"input": pair.input.name, "output": pair.output.name, "exposed": pair.exposed}
        for pair in graph.recurrences
    ]
    assert manifest["recurrences"] == pairs
    assert {prop.key: prop.value for prop in model.metadata_props} == {
        f"recurrence {pair['input']}": pair["output"] for pair in pairs
    }
    assert manifest["onnx"] == {"opset": 17, "nodes": len(model.graph.node)}
    assert set(manifest["sources"]) == {"prototxt", "weights"}


def test_nodes_know_their_layer(tmp_path: Path) -> None:
    model = exported(digits(), tmp_path / "model.onnx")
    notes = {node.name: node.doc_string for node in model.graph.node}
    line = (DIGITS / "deploy.prototxt").read_text()[
        : (DIGITS / "deploy.prototxt").read_text().index('"conv1"')
    ]
    assert notes["conv1"] == f"conv1 (Convolution), line {line.count(chr(10))}"


def test_large_weights_go_to_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = digits()
    whole = exported(graph, tmp_path / "whole.onnx")
    monkeypatch.setattr(file, "EXTERNAL_FROM", 1 << 16)
    exported(graph, tmp_path / "split.onnx")
    assert (tmp_path / "split.onnx").stat().st_size < (tmp_path / "whole.onnx").stat().st_size / 5
    stored = onnx.load(str(tmp_path / "split.onnx"), load_external_data=False).graph.initializer
    outside = [tensor for tensor in stored if tensor.external_data]
    for tensor in outside:
        facts = {entry.key: entry.value for entry in tensor.external_data}
        assert facts["location"] == "split.onnx.data"
        assert int(facts["offset"]) % 4096 == 0
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in whole.graph.initializer}
    loaded = onnx.load(str(tmp_path / "split.onnx")).graph.initializer
    assert {tensor.name for tensor in outside} == {
        name for name, array in arrays.items() if array.nbytes > 1024
    }
    for tensor in loaded:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), arrays[tensor.name])


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    build, weights = Builder(), np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
    x = build.input("x", (1, 256))
    y = build.product(build.product(x, build.constant(weights)), build.constant(weights))
    model = exported(build.graph("", [y]), tmp_path / "model.onnx")
    assert len(model.graph.initializer) == 1


def test_names_of_a_body_do_not_hide_outer_ones(tmp_path: Path) -> None:
    """Two builders that know nothing of each other call values the same; ONNX scopes are nested."""
    inner = Builder()
    state, step = inner.input("x", (2,)), inner.input("y", (2,))
    body = inner.graph("", [inner.add(ADD, state, step, hint="sum"), state])
    build = Builder()
    x, y = build.input("x", (2,)), build.input("y", (3, 2))
    last, befores = build.add_all(Scan(body, 1, 1), x, y)
    graph = build.graph("", [last, befores, build.add(TanH(), last, hint="sum")])
    exported(graph, tmp_path / "model.onnx")
    feeds = {"x": array([1, 2]), "y": np.arange(6, dtype=np.float32).reshape(3, 2)}
    results = answers(tmp_path / "model.onnx", **feeds)
    np.testing.assert_array_equal(results[last.name], [7, 11])
    np.testing.assert_array_equal(results[befores.name], [[1, 2], [1, 3], [3, 6]])


def test_a_scan_runs_backwards_and_reads_from_outside(tmp_path: Path) -> None:
    build = Builder()
    x, factor = build.input("x", (3, 1)), build.input("factor", (1,))

    def cell(body: Builder, inputs: Any, states: Any) -> Step:
        total = body.add(ADD, body.add(MULTIPLY, states[0], factor), inputs[0])
        return Step([total], [total, factor])

    zero = build.constant(np.zeros(1, np.float32))
    end = scan(build, cell, [x], [zero], reverse=True)
    exported(build.graph("", [*end.states, *end.outputs]), tmp_path / "model.onnx")
    results = answers(tmp_path / "model.onnx", x=array([[1], [2], [3]]), factor=array([10]))
    last, sums, factors = results.values()
    np.testing.assert_array_equal(last, [321])
    np.testing.assert_array_equal(sums, [[321], [32], [3]])
    np.testing.assert_array_equal(factors, [[10], [10], [10]])


def test_symbols_stay_open(tmp_path: Path) -> None:
    build = Builder()
    build.symbols.update(T=Range(1, 4, 8), N=Range(1, 2, 8))
    steps, streams = (OpenSize.symbol(*symbol) for symbol in build.symbols.items())
    x = build.input("x", (steps, streams, 6))
    y = build.add(Reshape((Axis(1), Axis(0), 2, 3)), x)
    model = exported(build.graph("", [y]), tmp_path / "model.onnx")
    assert [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["T", "N", ""]
    given = np.arange(36, dtype=np.float32).reshape(3, 2, 6)
    (result,) = answers(tmp_path / "model.onnx", x=given).values()
    np.testing.assert_array_equal(result, given.reshape(2, 3, 2, 3))


def test_an_output_may_be_an_input_or_a_constant(tmp_path: Path) -> None:
    build = Builder()
    x = build.input("x", (2,))
    one = build.constant(np.ones(2, np.float32))
    exported(build.graph("", [x, one, build.add(Identity(), x)]), tmp_path / "model.onnx")
    given, constant, copied = answers(tmp_path / "model.onnx", x=array([3, 4])).values()
    np.testing.assert_array_equal([given, constant, copied], [[3, 4], [1, 1], [3, 4]])


def test_products_of_more_axes_transpose_their_constant(tmp_path: Path) -> None:
    build, rng = Builder(), np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((2, 3, 4), (2, 5, 4)))
    y = build.add(MatMul(transpose_b=True), build.input("a", a.shape), build.input("b", b.shape))
    exported(build.graph("", [y]), tmp_path / "model.onnx")
    (result,) = answers(tmp_path / "model.onnx", a=a, b=b).values()
    np.testing.assert_allclose(result, np.einsum("nij,nkj->nik", a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["onnx.helper", "onnxruntime"])
def test_a_missing_package_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> None:
        raise ModuleNotFoundError(f"No module named '{module}'")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(BuildError) as caught:
        api.import_package(name)
    assert str(caught.value) == (
        f"ONNX needs the package {name.split('.')[0]}, which cannot be imported: No module named '{name}'\n"
        f"  fix: {pip_install('onnx')}"
    )


def test_nothing_is_left_where_the_checker_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder()
    graph = build.graph("", [build.add(TanH(), build.input("x", (2,)))])
    monkeypatch.setitem(lowers.rules, TanH, lambda model, op, x: [model.add("NoSuchOperator", x)])
    with pytest.raises(BuildError, match="onnx's checker refuses the model"):
        prototrt.export_onnx(graph, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in other units elsewhere")
def test_large_weights_are_never_held_twice(tmp_path: Path) -> None:
    """264 MiB: the peak stays below 1.6 times the caffemodel.

    VmHWM begins anew with the program; ru_maxrss would count the memory of the process that forked it.
    """
    weights = np.broadcast_to(np.float32(1), (33 << 7, 4 << 10))
    layers = [f"fc{index}" for index in range(4)]
    write(tmp_path / "large.caffemodel", {name: [weights] for name in layers})
    net = ['layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4096 } } }']
    for name in layers:
        shape = f"num_output: {weights.shape[0]} bias_term: false"
        net.append(
            f'layer {{ name: "{name}" type: "InnerProduct" bottom: "x" top: "{name}"'
            f" inner_product_param {{ {shape} }} }}"
        )
    (tmp_path / "large.prototxt").write_text("\n".join(net))
    code = """
import re
from pathlib import Path
import prototrt
prototrt.export_onnx(prototrt.rewrite(prototrt.load("large.prototxt", "large.caffemodel")), "large.onnx")
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""
    ran = run_python("-c", code, cwd=tmp_path)
    assert int(ran.stdout) < 1.6 * (tmp_path / "large.caffemodel").stat().st_size
    assert (tmp_path / "large.onnx").stat().st_size > 4 * weights.nbytes

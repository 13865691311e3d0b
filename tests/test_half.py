"""Nets that compute in float16 stay near what real Caffe computed, on every way, and make smaller engines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt import Form, Way
from prototrt.cli import main
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.surgery.ir import Array, DType, Graph, walk
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ops import Cast
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.digit_strips import DIGITS
from prototrt.tests.golden_cases import Case, caffe_cases, check_half, recurrent_runs, rewritten
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.samples import kinds_in_sequence, one_of_each, runs_on_ways
from prototrt.tests.small_nets import inputs_of, is_sound, loaded, op, stored

NET = [str(DIGITS / "deploy.prototxt"), str(DIGITS / "digits.caffemodel")]
CASES = [case for case in caffe_cases() if str(case) != "filter"]


def halved(case: Case, sequence: Form = "auto") -> Graph:
    return rewritten(case, case.arrays("inputs")[0], sequence, precision="fp16")


HALVED = [case for case in CASES if case.has_product]
"""Nets with a product: the others have nothing to compute in float16."""


def test_nets_have_products() -> None:
    assert [case for case in CASES if precision_of(halved(case)) == "fp16"] == HALVED
    names = {str(case) for case in HALVED}
    assert {str(case) for case in CASES if case.is_recurrent} < names
    assert {"net_alexnet", "net_crnn", "embed", "deconv_upsample", "batchnorm_scale_relu_inplace"} < names
    assert {"pool_ave_pad", "softmax_channels", "argmax_axis"}.isdisjoint(names)


@pytest.mark.parametrize(
    ("case", "on"), runs_on_ways([(case,) for case in HALVED], lambda case: case.layer_types)
)
def test_golden_in_float16(case: Case, on: Way) -> None:
    check_half(case, on)


@pytest.mark.parametrize(
    ("case", "sequence", "on"),
    runs_on_ways(
        recurrent_runs(), lambda case, sequence: kinds_in_sequence(case.layer_types, case, sequence)
    ),
)
def test_recurrent_golden_in_float16_in_every_sequence(case: Case, sequence: Form, on: Way) -> None:
    check_half(case, on, sequence)


DECIDE_BY_FEATURES = ("caffe2-ff_net_faster", "caffe2-ff_net_mask")
"""Whole detectors: they choose boxes by features that float16 rounds, and so may choose others."""


LARGE = "caffe2-ff_regions"
"""Takes a third of the time of all."""


@pytest.mark.trt
@pytest.mark.parametrize(
    "case",
    [
        *one_of_each(
            [case for case in caffe2_cases() if str(case) not in (*DECIDE_BY_FEATURES, LARGE)],
            lambda case: case.families,
        ),
        *(pytest.param(case, marks=pytest.mark.slow) for case in caffe2_cases() if str(case) == LARGE),
    ],
    ids=str,
)
def test_net_of_caffe2_in_float16(case: Caffe2Case) -> None:
    session = prototrt.Session(case.rewritten(precision="fp16"), on="network", cut=True)
    results = session.run(case.arrays("inputs"))
    assert_near(results, case.arrays("outputs"))


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(recurrent_cases(), lambda case: {case.cell}), ids=str)
def test_variant_in_float16(case: RecurrentCase, tmp_path: Path) -> None:
    net = case.net()
    graph = prototrt.rewrite(net.load(tmp_path), outputs=list(net.expected), precision="fp16")
    assert precision_of(graph) == "fp16"
    assert_near(prototrt.Session(graph, on="network").run(net.feeds), net.expected)


def assert_near(results: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    for name, wanted in expected.items():
        difference = difference_of(results[name], wanted, TOLERANCES["fp16"])
        assert difference.is_small, (name, difference)


@pytest.mark.parametrize(("case", "sequence"), recurrent_runs(), ids=str)
def test_nothing_is_cast_back_and_forth(case: Case, sequence: Form) -> None:
    graph = halved(case, sequence)
    floats = (Cast(DType.FLOAT32), Cast(DType.FLOAT16))
    cast = {node.outputs[0] for node in walk(graph) if node.op in floats}
    assert cast
    assert not [node for node in walk(graph) if node.op in floats and node.inputs[0] in cast]


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(HALVED, lambda case: case.families), ids=str)
def test_golden_builds_in_float16(case: Case) -> None:
    plan = prototrt.build(halved(case), backend="rtx")
    assert is_sound(plan.plan)
    assert plan.manifest["precision"] == "fp16"
    assert {value["dtype"] for value in plan.manifest["inputs"] + plan.manifest["outputs"]} == {"float32"}


@pytest.mark.trt
def test_an_engine_is_half_as_large_as_its_weights_are() -> None:
    """A step of an LSTM whose weights are 8.4 MB in float32; the rest of the engine, 0.5 MB, stays."""
    size = Size(512, 1, 1)
    numbers = 4 * size.hidden * (2 * size.hidden + 1)
    full, half = (
        prototrt.build(lstm_graph(size, "step", precision), backend="rtx").plan.nbytes
        for precision in ("fp32", "fp16")
    )
    assert full - half == pytest.approx(2 * numbers, rel=0.05)


def test_dynamic_shapes_in_float16() -> None:
    """Sizes that vary pass through the Casts."""
    ranges = {"data": (1, 1, 32, 16), "cont": (1, 1)}
    graph = prototrt.rewrite(prototrt.load(*NET), min_shapes=ranges, precision="fp16")
    cast = next(node for node in graph.nodes if node.outputs[0].dtype is DType.FLOAT16)
    assert isinstance(cast.outputs[0].shape[0], str)


def prototrt_command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.trt
def test_convert_in_float16(tmp_path: Path) -> None:
    target = tmp_path / "digits.plan"
    result = prototrt_command(
        "convert", *NET, "-o", str(target), "--backend", "rtx", "--precision", "fp16", "--verify"
    )
    assert result.exit_code == 0, result.output
    assert "\ndigits: 19 Caffe layers -> 66 nodes -> 91 TensorRT layers in float16\n" in result.output
    manifest = json.loads(Path(f"{target}.json").read_text())
    assert (manifest["precision"], manifest["verification"]["precision"]) == ("fp16", "fp16")


def test_verify_holds_float16_against_float32() -> None:
    """The reference stays float32: what float16 costs is seen, and allowed."""
    arguments = ["verify", *NET, "--precision", "fp16", "--on", "onnx", "--calls", "2", "--json"]
    result = prototrt_command(*arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["precision"] == "fp16"
    assert 1e-4 < max(item["max_rel"] for item in found["comparisons"]) < 2e-2


def test_verify_compares_every_layer_in_float16() -> None:
    result = prototrt_command("verify", *NET, "--precision", "fp16", "--on", "onnx", "--layers", "--json")
    assert result.exit_code == 0, result.output
    assert {"conv1", "steps", "lstm1", "prob"} <= {
        item["blob"] for item in json.loads(result.stdout)["comparisons"]
    }


@pytest.mark.trt
def test_overflow_is_found_by_verify(tmp_path: Path) -> None:
    """Weights that fit, results that do not: nobody can know it without computing."""
    text = inputs_of({"x": (1, 64)}) + op("InnerProduct", "inner_product_param { num_output: 1 }")
    loaded(tmp_path, text, stored("op", [np.full((1, 64), 60000), [0]]))
    np.savez(tmp_path / "in.npz", x=np.ones((1, 64), np.float32))
    net, weights, inputs = (str(tmp_path / name) for name in ("net.prototxt", "net.npz", "in.npz"))
    arguments = ["verify", net, weights, "--inputs", inputs, "--precision", "fp16", "--on", "network"]
    result = prototrt_command(*arguments)
    assert result.exit_code == 5
    assert result.stderr.splitlines()[-3:] == [
        f'error: {net}:2: layer "op" (InnerProduct), blob "y": network and reference diverge here by inf,'
        " expected at most 0.001",
        "  because in call 0, only one of them has NaN or infinity at some elements",
        "  fix: use --precision fp32",
    ]


def test_batch_varies_the_precision(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(
        f"models:\n- prototxt: {NET[0]}\n  weights: {NET[1]}\n  name: digits\n  format: onnx\n"
        "  verify: true\n  matrix: {precision: [fp32, fp16]}\n"
    )
    result = prototrt_command("batch", str(models), "-o", str(tmp_path / "out"), "--jobs", "1")
    assert result.exit_code == 0, result.output
    sizes = {}
    for precision in ("fp32", "fp16"):
        written = tmp_path / "out" / f"digits-{precision}.onnx"
        assert json.loads(Path(f"{written}.json").read_text())["precision"] == precision
        sizes[precision] = written.stat().st_size
    assert sizes["fp16"] < 0.6 * sizes["fp32"]

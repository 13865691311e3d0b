"""Models in the opset that is asked for: written anew for it, checked, and equal in onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError, OptionsError, Origin, UnsupportedLayerError
from prototrt.converter.backends.onnx.evaluator import OnnxEvaluator, OnnxFileEvaluator
from prototrt.converter.backends.onnx.opset import opset_for
from prototrt.converter.options import ConvertOptions, ExportOptions
from prototrt.converter.product import Product
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph
from prototrt.surgery.ops import Binary, BinaryKind, Quantize
from prototrt.tests.caffe2_cases import caffe2_cases
from prototrt.tests.converter.backends.onnx.test_primitives import CASES, graph_of
from prototrt.tests.golden_cases import caffe_cases, case_called, fork_cases, rewritten
from prototrt.tests.samples import first_of_each
from prototrt.tests.small_nets import failure, float32, numbers, tanh

OPSETS = [11, 13, 15, 17, 18, 21]
PARTS = 4
SAMPLE = [
    "lstm_t5_n3",
    "softmax_channels",
    "reduction_mean_axis",
    "argmax_ties",
    "pool_max_mask",
    "interp_zoom",
]


def feeds_of(graph: Graph, arrays: dict[str, Array]) -> dict[str, Array]:
    """The inputs of a golden in the types of the graph, and states of 0."""
    return {
        value.name: np.zeros(value.shape, value.dtype.numpy)  # type: ignore[arg-type]  # fixed
        if value.name not in arrays
        else arrays[value.name].astype(value.dtype.numpy)
        for value in graph.inputs
    }


def all_goldens(
    part: int = 0, parts: int = 1, is_sample: bool = False
) -> Iterator[tuple[str, Graph, dict[str, Array]]]:
    """Every ``parts``-th of them, rewritten. In a sample, there is one of each family of rules."""
    of_caffe2, of_caffe = caffe2_cases(), [*caffe_cases(), *fork_cases()]
    if is_sample:
        of_caffe2 = first_of_each(of_caffe2, lambda case: case.families)
        of_caffe = first_of_each(of_caffe, lambda case: case.families)
    for case in of_caffe2[part::parts]:
        yield str(case), case.rewritten(), case.arrays("inputs")
    for caffe in of_caffe[part::parts]:
        inputs = caffe.arrays("inputs")[0]
        yield str(caffe), rewritten(caffe, inputs), inputs


def assert_agrees(graph: Graph, arrays: dict[str, Array], opsets: Sequence[int], folder: Path) -> None:
    """Export in these opsets, with onnx's checker, and compare with the default one in onnxruntime."""
    feeds = feeds_of(graph, arrays)
    expected = OnnxEvaluator(graph).run(feeds)
    for opset in opsets:
        prototrt.export_onnx(graph, folder / "model.onnx", opset=opset)
        model = onnx.load(str(folder / "model.onnx"))
        assert [each.version for each in model.opset_import] == [opset]
        onnx.checker.check_model(model, full_check=True)
        for name, result in OnnxFileEvaluator(folder / "model.onnx").run(feeds).items():
            np.testing.assert_allclose(result, expected[name], 1e-5, 1e-5, err_msg=f"{name} in {opset}")


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_golden_in_each_opset(name: str, opset: int, tmp_path: Path) -> None:
    case = case_called(name)
    inputs = case.arrays("inputs")[0]
    assert_agrees(rewritten(case, inputs), inputs, [opset], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("opsets", [1, pytest.param(len(OPSETS), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, PARTS))]
)
def test_all_goldens_in_opsets(part: int, opsets: int, tmp_path: Path) -> None:
    """A sample, of which one golden is in one opset, the next in the next; or all in all."""
    count = 0
    for _, graph, inputs in all_goldens(part, PARTS, is_sample=opsets == 1):
        turned = OPSETS[count % len(OPSETS) :] + OPSETS[: count % len(OPSETS)]
        assert_agrees(graph, inputs, turned[:opsets], tmp_path)
        count += 1
    assert count >= (60 if opsets == 1 else 299) // PARTS


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("case", [name for name in CASES if name != "to 8 bits, by channel"])
def test_a_primitive_in_each_opset(case: str, opset: int, tmp_path: Path) -> None:
    op, arrays = CASES[case]
    graph = graph_of(op, arrays)
    inputs = {f"x{place}": array for place, array in enumerate(arrays) if place not in op.constants}
    assert_agrees(graph, inputs, [opset], tmp_path)


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize("kind", [BinaryKind.MAXIMUM, BinaryKind.MINIMUM])
def test_the_larger_of_whole_numbers(kind: BinaryKind, opset: int, tmp_path: Path) -> None:
    a, b = np.array([3, -2, 5], np.int32), np.array([1, 4, 5], np.int32)
    assert_agrees(graph_of(Binary(kind), [a, b]), {"x0": a, "x1": b}, [opset], tmp_path)


@pytest.mark.parametrize("opset", [13, 17, 19])
def test_numbers_of_8_bits_in_a_net_of_float16(opset: int, tmp_path: Path) -> None:
    """QuantizeLinear reads float32 here: some versions of onnxruntime cut float16 off."""
    scale = np.array([0.01, 0.02, 0.03], np.float16)
    x = numbers(2, 3).astype(np.float16)
    assert_agrees(graph_of(Quantize(axis=1), [x, scale]), {"x0": x}, [opset], tmp_path)


def test_scales_of_channels_need_opset_13(tmp_path: Path) -> None:
    graph = graph_of(*CASES["to 8 bits, by channel"])
    assert _refusal(graph, 11, tmp_path) == (
        "needs scales for each channel, which ONNX has from opset 13 on\n"
        "  because the model is written in opset 11\n"
        "  fix: use opset=13"
    )


def test_float8_needs_opset_21(tmp_path: Path) -> None:
    graph = graph_of(Quantize(DType.FLOAT8), [numbers(2, 3), float32(0.01)])
    assert _refusal(graph, 20, tmp_path) == (
        "needs numbers of float8 as this model has them, which ONNX has from opset 21 on\n"
        "  because the model is written in opset 20\n"
        "  fix: use opset=21"
    )


def test_an_onnx_that_is_too_old_for_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx.defs.onnx_opset_version", lambda: 20)
    graph = graph_of(Quantize(DType.FLOAT8), [numbers(2, 3), float32(0.01)])
    assert failure(lambda: opset_for(graph, ExportOptions()), BuildError) == (
        "the model needs opset 21, and the installed onnx has up to 20\n  fix: pip install --upgrade onnx"
    )


def test_a_type_that_an_operator_does_not_read_yet(tmp_path: Path) -> None:
    build = Builder()
    x = build.input("x", (2, 3), DType.BFLOAT16)
    graph = build.graph("", [build.add(Binary(BinaryKind.ADD), x, x)])
    assert _refusal(graph, 11, tmp_path) == (
        "needs Add of tensor(bfloat16), which ONNX has from opset 13 on\n"
        "  because the model is written in opset 11\n"
        "  fix: use opset=13"
    )


def test_an_opset_that_the_installed_onnx_does_not_have(tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    with pytest.raises(OptionsError) as error:
        prototrt.export_onnx(tanh(), tmp_path / "model.onnx", opset=newest + 1)
    assert str(error.value).startswith(
        f"opset={newest + 1} is newer than the installed onnx, which has up to {newest}\n  fix: use opset={newest}, or"
    )


def test_an_opset_is_for_onnx_models() -> None:
    with pytest.raises(OptionsError) as error:
        Product(file="net.plan", exporting=ExportOptions(opset=13))
    assert str(error.value) == "opset is for ONNX models, but FILE does not end in .onnx"


def test_verification_runs_the_same_opset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opsets: list[int | None] = []
    init = OnnxEvaluator.__init__

    def recorded(self: OnnxEvaluator, graph: Graph, exporting: ExportOptions, device: str) -> None:
        opsets.append(exporting.opset)
        init(self, graph, exporting, device)

    monkeypatch.setattr(OnnxEvaluator, "__init__", recorded)
    converting = ConvertOptions(verify=True)
    product = Product(
        file=str(tmp_path / "net.onnx"), exporting=ExportOptions(opset=12), converting=converting
    )
    manifest = product.write(tanh())
    assert opsets == [12]
    assert manifest["onnx"]["opset"] == 12


def _refusal(graph: Graph, opset: int, folder: Path) -> str:
    """The message for a graph whose nodes come from one layer, without that layer's name."""
    origin = Origin("net.prototxt", 3, "fc", "InnerProduct")
    graph = graph.with_nodes(replace(node, origin=origin) for node in graph.nodes)
    message = failure(
        lambda: prototrt.export_onnx(graph, folder / "model.onnx", opset=opset), UnsupportedLayerError
    )
    assert not [*folder.iterdir()]
    head, _, rest = message.partition(": needs")
    assert head == 'net.prototxt:3: layer "fc" (InnerProduct)'
    return f"needs{rest}"

"""Models for OpenCV and OpenVINO, read by these programs, and those for the parsers of old releases of TensorRT."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError, Problems, UnsupportedLayerError
from prototrt.converter.backends.onnx.evaluator import OnnxEvaluator
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.files.readers.names import ReaderName
from prototrt.converter.files.readers.reader import reader_named
from prototrt.converter.options import CompareOptions
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.detection import suppression
from prototrt.surgery.ir import Array, DType, Graph
from prototrt.surgery.ops import (
    ABS,
    DIVIDE,
    EQUAL,
    SIGN,
    Convolution,
    HardSigmoid,
    NonMaxSuppression,
    PReLU,
    Reduce,
    ReduceKind,
    Resize,
    Scatter,
    Select,
    TanH,
)
from prototrt.tests.caffe2_cases import caffe2_cases
from prototrt.tests.converter.backends.onnx.test_opsets import all_goldens, feeds_of
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.golden_cases import caffe_cases, case_called, fork_cases, rewritten
from prototrt.tests.small_nets import failure, float32, numbers

PAGE = Path(__file__).parents[4] / "docs" / "other-tools.md"
UPDATE = (
    "run pytest -m exhaustive tests/converter/backends/onnx/test_readers.py -k table_says --update-goldens"
)
PROGRAMS: Sequence[ReaderName] = ("opencv", "openvino")
PARSERS: Sequence[ReaderName] = ("tensorrt-8.2", "tensorrt-8.5", "tensorrt-8.6", "tensorrt-10.1")


def _opencv() -> Callable[[str, Mapping[str, Array], list[str]], Sequence[Array]]:
    cv2 = pytest.importorskip("cv2")

    def run(file: str, feeds: Mapping[str, Array], outputs: list[str]) -> Sequence[Array]:
        net = cv2.dnn.readNetFromONNX(file)
        for name, array in feeds.items():
            net.setInput(array, name)
        results: Sequence[Array] = net.forward(outputs)
        return results

    return run


def _openvino() -> Callable[[str, Mapping[str, Array], list[str]], Sequence[Array]]:
    openvino = pytest.importorskip("openvino")

    def run(file: str, feeds: Mapping[str, Array], outputs: list[str]) -> Sequence[Array]:
        core = openvino.Core()
        model = core.compile_model(core.read_model(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        results = model(dict(feeds))
        return [results[name] for name in outputs]

    return run


RUNNERS = {"opencv": _opencv, "openvino": _openvino}


def assert_reads(reader: ReaderName, graph: Graph, arrays: dict[str, Array], folder: Path) -> None:
    """What the program computes equals onnxruntime's numbers for the model that no program asked for."""
    feeds = feeds_of(graph, arrays)
    assert_computes(reader, graph, feeds, OnnxEvaluator(graph).run(feeds), folder)


def assert_computes(
    reader: ReaderName,
    graph: Graph,
    feeds: Mapping[str, Array],
    expected: Mapping[str, Array],
    folder: Path,
) -> None:
    file, names = folder / "model.onnx", [value.name for value in graph.outputs]
    prototrt.export_onnx(graph, file, readers=[reader])
    if reader not in RUNNERS:
        return
    for name, result in zip(names, RUNNERS[reader]()(str(file), feeds, names), strict=True):
        assert result.shape == expected[name].shape, name
        np.testing.assert_allclose(result, expected[name], 1e-3, 1e-4, err_msg=name)


@pytest.mark.parametrize("reader", PROGRAMS)
@pytest.mark.parametrize(
    "name", ["lstm_carry", "rnn_t5", "net_crnn", "batchnorm_batch_statistics", "pool_max_mask"]
)
def test_a_program_reads_a_golden(name: str, reader: ReaderName, tmp_path: Path) -> None:
    inputs = case_called(name).arrays("inputs")[0]
    assert_reads(reader, rewritten(case_called(name), inputs), inputs, tmp_path)


@pytest.mark.parametrize("name", ["lstm_carry", "rnn_t5", "net_crnn", "pool_max_mask"])
def test_openvino_with_its_own_settings(name: str) -> None:
    """It computes in bfloat16 where the processor has it."""
    pytest.importorskip("openvino")
    inputs = case_called(name).arrays("inputs")[0]
    graph = rewritten(case_called(name), inputs)
    assert verify(graph, [inputs], CompareOptions(ways=["openvino", "openvino-f32"])).holds


PACKAGES = {"opencv": "cv2", "openvino": "openvino"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_conversion_is_checked_in_its_program(program: ReaderName, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[program])
    assert _verified(program, tmp_path)["comparisons"][0]["way"].startswith(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_not_installed_is_told(
    program: ReaderName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[program], None)
    checks = _verified(program, tmp_path)
    name = {"opencv": "opencv-python"}.get(program, program)
    assert checks["comparisons"][0]["way"] == "onnx"
    assert checks["warnings"][-1] == (
        f"the model was not run in {program}, but in onnxruntime: the package {name} cannot be imported"
    )


WHOLE = ("net_ssd", "net_refinedet", "det_polygons", "det_prior_input", "net_yolov2", "net_yolov3")
REGIONS = ("net_faster_rcnn", "net_rfcn", "proposal_rpn")


@pytest.mark.parametrize("name", [*WHOLE, *REGIONS])
def test_opencv_runs_a_detector_whole(name: str, tmp_path: Path) -> None:
    """Suppression is native for this target. The conversion is computed in OpenCV and compared."""
    pytest.importorskip("cv2")
    checks = _verified("opencv", tmp_path, name)
    assert (checks["comparisons"][0]["way"], checks["holds"]) == ("opencv", True)


def test_opencv_suppresses_a_long_list_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the 6000 regions of py-faster-rcnn."""
    pytest.importorskip("cv2")
    monkeypatch.setattr(suppression, "MOST_NATIVE", 30)
    assert _verified("opencv", tmp_path, "net_faster_rcnn")["holds"]


@pytest.mark.parametrize("name", ["det_corner_size", "det_eta", "net_pvanet", "detectnet_clusters"])
def test_opencv_refuses_what_native_suppression_decides_otherwise(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedLayerError, match=r"needs Loop, which OpenCV 5\.0 does not take"):
        _verified("opencv", tmp_path, name)


def _verified(program: ReaderName, folder: Path, name: str = "net_lenet") -> Mapping[str, Any]:
    case = case_called(name)
    shapes = {key: array.shape for key, array in case.arrays("inputs")[0].items()}
    options: dict[str, Any] = {"target": program, "verify": True, "shapes": shapes}
    files = case.folder / "model.prototxt", case.folder / "model.caffemodel"
    weights = files[1] if files[1].exists() else None
    made = prototrt.convert(files[0], weights, folder / "n.onnx", **options)
    checks: Mapping[str, Any] = made.manifest["verification"]
    return checks


WINDOWS = {
    "a pooling": "pooling_param { kernel_size: 2 stride: 2 pool: AVE }",
    "the maxima": "pooling_param { kernel_size: 2 stride: 2 }",
    "a large convolution": "convolution_param { num_output: 64 kernel_size: 5 stride: 2 pad: 2 }",
    "a deconvolution": "convolution_param { num_output: 64 kernel_size: 2 group: 64 pad: 1 }",
}


@pytest.mark.parametrize("case", WINDOWS)
def test_windows_over_a_constant_image(case: str, tmp_path: Path) -> None:
    """OpenCV 5.0 fails at them, so their results are in the model."""
    kind = {"a large convolution": "Convolution", "a deconvolution": "Deconvolution"}.get(case, "Pooling")
    side = 17 if kind == "Deconvolution" else 32
    shape = f"shape {{ dim: 1 dim: 64 dim: {side} dim: {side} }} data_filler {{ type: 'constant' value: 3 }}"
    net = tmp_path / "net.prototxt"
    net.write_text(
        f'layer {{ name: "image" type: "DummyData" top: "image" dummy_data_param {{ {shape} }} }}'
        f'layer {{ name: "w" type: "{kind}" bottom: "image" top: "w" {WINDOWS[case]} }}'
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 64 dim: 16 dim: 16 } } }'
        'layer { name: "sum" type: "Eltwise" bottom: "w" bottom: "x" top: "sum" }'
    )
    graph = prototrt.rewrite(prototrt.load(net, random_weights=1))
    assert_reads("opencv", graph, {"x": numbers(1, 64, 16, 16)}, tmp_path)


@pytest.mark.parametrize("reader", PROGRAMS)
def test_a_plain_lstm_of_any_length_is_one_operator(reader: ReaderName, tmp_path: Path) -> None:
    case = case_called("lstm_t20")
    shapes = {name: array.shape for name, array in case.arrays("inputs")[0].items() if name != "cont"}
    graph = prototrt.rewrite(case.load(), shapes=shapes, sequence="loop", cont="drop")
    assert_reads(reader, graph, case.arrays("inputs")[0], tmp_path)
    assert [node.op_type for node in onnx.load(str(tmp_path / "model.onnx")).graph.node].count("LSTM") == 1


PRIMITIVES = {
    "a mean over three axes": (Reduce(ReduceKind.MEAN, (0, 2, 3)), [numbers(2, 3, 4, 5)]),
    "a sum over three axes that vanish": (
        Reduce(ReduceKind.SUM, (0, 1, 2), keep=False),
        [numbers(2, 3, 4, 5)],
    ),
    "the tangent of large numbers": (TanH(), [float32([-1e4, -60, -15.5, 0, 9, 88.5, 3e38])]),
    "slopes along the last axis": (PReLU(), [numbers(2, 3, 4), numbers(1, 1, 4, seed=1)]),
    "all axes of whole numbers": (
        Reduce(ReduceKind.SUM, (0, 1)),
        [np.arange(12, dtype=np.int32).reshape(4, 3)],
    ),
    "most axes, none of them last": (Reduce(ReduceKind.MAX, (0, 1, 3, 4)), [numbers(4, 5, 4, 3, 5)]),
    "slopes that are computed": (PReLU(), [numbers(2, 3, 4, 4), numbers(1, 3, 1, 1, seed=1)]),
    "magnitudes of whole numbers": (ABS, [np.array([7, -7], np.int32)]),
    "signs of whole numbers": (SIGN, [np.array([7, -7, 0], np.int32)]),
    "a row that becomes several": (Resize(6, 5), [numbers(6, 2, 1, 4)]),
    "a column that becomes several": (Resize(6, 5), [numbers(6, 2, 4, 1)]),
    "places on one axis": (Scatter(4), [numbers(2), np.array([3, 1], np.int32)]),
    "one truth value or another": (
        Select(),
        [np.array([True, False]), np.array([True, True]), np.array([False, False])],
    ),
    "boxes without an area": (
        NonMaxSuppression(0.45),
        [
            float32([[[1, 1, 1, 1], [3, 3, 3, 3], [0, 0, 2, 2], [0, 0, 2, 2.1], [0, 0, 0, 2]]]),
            np.ones((1, 5), bool),
        ],
    ),
    "small boxes": (
        NonMaxSuppression(0.45),
        [float32([[[0, 0, 1e-4, 1e-4], [0.5, 0.5, 0.5001, 0.5001]]]), np.ones((1, 2), bool)],
    ),
    "a line through 0": (HardSigmoid(0.5, 0), [numbers(2, 3)]),
    "a level line": (HardSigmoid(0, 0.75), [numbers(2, 3)]),
    "whole numbers": (DIVIDE, [np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)]),
}


@pytest.mark.parametrize("reader", PROGRAMS)
@pytest.mark.parametrize("case", PRIMITIVES)
def test_what_a_program_computes_wrongly_is_said_otherwise(
    case: str, reader: ReaderName, tmp_path: Path
) -> None:
    op, arrays = PRIMITIVES[case]
    inputs = {f"x{place}": array for place, array in enumerate(arrays)}
    assert_reads(reader, graph_of(op, arrays), inputs, tmp_path)


READ = "read"


def outcomes(folder: Path, is_sample: bool = False) -> dict[ReaderName, Counter[str]]:
    """How many goldens a program reads, and how many it refuses, by reason. Fails for one that is read wrongly.

    In a sample, one golden is read by every fourth program, the next by those after them.
    """
    counts: dict[ReaderName, Counter[str]] = {reader: Counter() for reader in (*PROGRAMS, *PARSERS)}
    for number, (_, graph, arrays) in enumerate(all_goldens(is_sample=is_sample)):
        feeds = feeds_of(graph, arrays)
        expected = OnnxEvaluator(graph).run(feeds)
        for reader, count in [*counts.items()][number % 4 :: 4] if is_sample else counts.items():
            try:
                assert_computes(reader, graph, feeds, expected, folder)
                count[READ] += 1
            except (Problems, UnsupportedLayerError) as error:
                count[_reason(str(error))] += 1
    return counts


def _reason(message: str) -> str:
    operator = re.search(r"needs (\w+), which", message)
    return f"`{operator[1]}`" if operator else "an output without axes"


def row(reader: ReaderName, counts: Counter[str]) -> str:
    reasons = ", ".join(f"{counts[reason]} for {reason}" for reason in sorted(counts) if reason != READ)
    return f"| {reader_named(reader).program} | {counts[READ]} | {reasons or 'none'} |"


def written_row(reader: ReaderName) -> str:
    program = re.escape(reader_named(reader).program)
    (found,) = re.findall(rf"^\| {program} \| \d+ \|.*$", PAGE.read_text(), re.MULTILINE)
    return str(found)


def written_counts(reader: ReaderName) -> Counter[str]:
    _, _, read, reasons, _ = written_row(reader).split("|")
    refused = {reason: int(count) for count, reason in re.findall(r"(\d+) for ([^,]+?)(?:,| $)", reasons)}
    return Counter({READ: int(read), **refused})


@pytest.mark.parametrize("reader", [*PROGRAMS, *PARSERS])
def test_a_row_of_the_table_counts_all_goldens(reader: ReaderName) -> None:
    """A new golden makes the table stale."""
    goldens = len(caffe2_cases()) + len(caffe_cases()) + len(fork_cases())
    assert written_counts(reader).total() == goldens, UPDATE


@pytest.mark.slow
def test_programs_read_a_sample_of_the_goldens(tmp_path: Path) -> None:
    """They refuse none for a reason that the table does not have, and not more than it says."""
    for reader, counts in outcomes(tmp_path, is_sample=True).items():
        assert counts[READ] > 10, reader
        assert counts <= written_counts(reader), UPDATE


@pytest.mark.exhaustive
def test_the_table_says_how_many_goldens_each_program_reads(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for reader, counts in outcomes(tmp_path).items():
        written, current = written_row(reader), row(reader, counts)
        if request.config.getoption("--update-goldens"):
            PAGE.write_text(PAGE.read_text().replace(written, current))
        else:
            assert written == current, UPDATE


def test_a_detector_is_refused_by_name(tmp_path: Path) -> None:
    case = case_called("net_ssd")
    graph = rewritten(case, case.arrays("inputs")[0])
    message = failure(
        lambda: prototrt.export_onnx(graph, tmp_path / "model.onnx", readers=["opencv"]),
        UnsupportedLayerError,
    )
    assert message.partition("prototxt:")[2] == (
        '322: layer "detection_out" (DetectionOutput): needs Loop, which OpenCV 5.0 does not take\n'
        "  because OpenCV computes wrong numbers in a net with a loop\n"
        '  fix: cut the net before this layer with outputs=["BLOB"]'
    )
    assert not [*tmp_path.iterdir()]


def test_a_number_without_axes_is_refused_for_opencv(tmp_path: Path) -> None:
    graph = graph_of(Reduce(ReduceKind.SUM, (0, 1), keep=False), [numbers(2, 3)])
    with pytest.raises(UnsupportedLayerError, match="single number without axes, which OpenCV"):
        prototrt.export_onnx(graph, tmp_path / "model.onnx", readers=["opencv"])


def _graph_of_booleans() -> Graph:
    build = Builder()
    a, b = (build.input(name, (2, 3), DType.BOOL) for name in "ab")
    return build.graph("", [build.add(EQUAL, a, b)])


def _convolution() -> Graph:
    """A convolution over one axis."""
    build = Builder()
    weights = [build.constant(numbers(*shape)) for shape in ((3, 2, 3), (3,))]
    x = build.input("x", (1, 2, 5))
    return build.graph("", [build.add(Convolution((1,), (0,), (1,)), x, *weights)])


REFUSED: Mapping[str, tuple[Graph, ReaderName, str]] = {
    "an operator of other types": (
        _graph_of_booleans(),
        "tensorrt-8.2",
        "needs Equal, which the ONNX parser of TensorRT 8.2 does not take\n"
        "  because its table of operators has Equal only of float16, float32, int32: "
        "https://github.com/onnx/onnx-tensorrt/blob/release/8.2-GA/docs/operators.md\n",
    ),
    "images of one axis": (
        _convolution(),
        "tensorrt-8.2",
        "needs Conv, which the ONNX parser of TensorRT 8.2 does not take\n"
        "  because it takes only images of 2 or 3 axes: ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_of_operators_is_asked_before_anything_is_written(case: str, tmp_path: Path) -> None:
    graph, reader, expected = REFUSED[case]
    message = failure(
        lambda: prototrt.export_onnx(graph, tmp_path / "model.onnx", readers=[reader]), UnsupportedLayerError
    )
    assert expected in message
    assert not [*tmp_path.iterdir()]


def test_the_same_model_is_taken_by_a_newer_parser(tmp_path: Path) -> None:
    manifest = prototrt.export_onnx(_convolution(), tmp_path / "model.onnx", readers=["tensorrt-8.5"])
    assert manifest["onnx"]["opset"] == 17


def test_a_model_has_an_opset_that_its_readers_have(tmp_path: Path) -> None:
    manifest = prototrt.export_onnx(graph_of(TanH(), [numbers(2)]), tmp_path / "model.onnx", readers=PARSERS)
    assert manifest["onnx"]["opset"] == 13


def test_an_opset_that_a_reader_does_not_have(tmp_path: Path) -> None:
    graph = graph_of(TanH(), [numbers(2)])
    message = failure(
        lambda: prototrt.export_onnx(graph, tmp_path / "model.onnx", opset=17, readers=["tensorrt-8.2"]),
        OptionsError,
    )
    assert message == (
        "opset=17 is newer than the ONNX parser of TensorRT 8.2, which has up to 13\n"
        "  fix: leave it out, or use opset=13"
    )


@pytest.mark.parametrize("reader", [*PROGRAMS, *PARSERS])
def test_operators_of_a_table_are_operators_of_onnx(reader: ReaderName) -> None:
    """A misspelt one would never be refused."""
    facts = reader_named(reader)
    old = {"ImageScaler", "ParametricSoftplus", "ScaledTanh", "Scatter", "Upsample"}
    known_operators = {schema.name for schema in onnx.defs.get_all_schemas()} | old
    assert {*facts.operators, *facts.lacks, *facts.axes, *facts.constants} <= known_operators

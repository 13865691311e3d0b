"""Numbers of 8 bits, by hand, on every way; and the passes that make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import Form, Precision, Way
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph, Node, walk
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ops import (
    Convolution,
    Dequantize,
    LeakyReLU,
    MatMul,
    MaxPool,
    Quantize,
    Scan,
)
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.quantization_placement import quantized_values
from prototrt.surgery.passes.quantize_products import quantize_products
from prototrt.surgery.pipeline import quantizable
from prototrt.tests.digit_strips import DIGITS
from prototrt.tests.golden_cases import Case, caffe_cases
from prototrt.tests.samples import one_of_each
from prototrt.tests.small_nets import (
    WAYS,
    failure,
    float32,
    has_engine,
    inputs_of,
    loaded,
    numbers,
    op,
    stored,
    told,
)

EVERYTHING = RewriteOptions(precision="int8", quantize_all=True)
SKIPPED = ("batch_sizes", "train_val_digits")
RANGE = 3.0

ROUNDED = [
    (
        DType.INT8,
        0.5,
        [0.25, 0.75, 1.25, -0.25, 3.2, 63.5, 64, 1e9, -1e9],
        [0, 1, 1, 0, 3, 63.5, 63.5, 63.5, -64],
    ),
    (
        DType.FLOAT8,
        0.5,
        [0.25, 4.5, 8.5, -8.5, 9.5, 300, -1e9, 0.001],
        [0.25, 4.5, 8, -8, 10, 224, -224, 0.0009765625],
    ),
]
"""Ties go to the even number: 0.25 / 0.5 is 0 or 1, 17 in float8 is 16 or 18. What is too large becomes the largest."""


def there_and_back(to: DType, scale: Array, axis: int | None, shape: tuple[int, ...]) -> Graph:
    build = Builder({"x", "y"})
    x, factor = build.input("x", shape), build.constant(scale)
    y = build.add(Dequantize(axis), build.add(Quantize(to, axis), x, factor), factor)
    return build.graph("", [build.named(y, "y", "y", 0)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("to", "scale", "x", "expected"), ROUNDED, ids=["int8", "float8"])
def test_numbers_are_rounded_to_8_bits(
    to: DType, scale: float, x: list[float], expected: list[float], on: Way
) -> None:
    graph = there_and_back(to, float32(scale), None, (len(x),))
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({"x": x})["y"], float32(expected))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("to", [DType.INT8, DType.FLOAT8])
def test_each_channel_has_a_scale(to: DType, on: Way) -> None:
    graph = there_and_back(to, float32([1, 0.25]), 1, (1, 2, 2))
    found = prototrt.Session(graph, on=on).run({"x": float32([[[3.25, -2], [3.25, -2]]])})["y"]
    wanted = [[[3, -2], [3.25, -2]]] if to is DType.INT8 else [[[3.25, -2], [3.25, -2]]]
    np.testing.assert_array_equal(found, float32(wanted))


@pytest.mark.trt
@pytest.mark.parametrize("to", [DType.INT8, DType.FLOAT8])
@pytest.mark.parametrize("axis", [None, 0])
def test_8_bits_have_an_engine(to: DType, axis: int | None) -> None:
    assert has_engine(there_and_back(to, np.ones(() if axis is None else 4, np.float32), axis, (4, 2)))


@given(st.lists(st.floats(-500, 500, width=32), min_size=1, max_size=20), st.floats(2**-10, 10, width=32))
def test_rounding_is_at_most_half_a_step_and_done_once(x: list[float], scale: float) -> None:
    (once,) = Quantize().evaluate(float32(x), float32(scale))
    (back,) = Dequantize().evaluate(once, float32(scale))
    inside = np.abs(float32(x)) <= 127 * float32(scale)
    assert (np.abs(back - float32(x))[inside] <= 0.5001 * scale).all()
    np.testing.assert_array_equal(Quantize().evaluate(back, float32(scale))[0], once)


def digits(**options: Any) -> Graph:
    model = prototrt.load(DIGITS / "deploy.prototxt", DIGITS / "digits.caffemodel")
    ranges = {"data": 1.0, "pool1": RANGE, "pool2": RANGE, "ip1": RANGE}
    return prototrt.rewrite(
        model, options=RewriteOptions(**{"precision": "int8", "ranges": ranges, **options})
    )


def nodes(graph: Graph, kind: type) -> list[Node]:
    return [node for node in walk(graph) if isinstance(node.op, kind)]


def writer(graph: Graph, name: str) -> Node:
    (found,) = [node for node in walk(graph) if name in [value.name for value in node.outputs]]
    return found


def test_a_blob_stays_in_8_bits_between_two_convolutions() -> None:
    graph = digits()
    assert [type(node.op) for node in graph.nodes[1:6]] == [
        Convolution,
        Quantize,
        LeakyReLU,
        MaxPool,
        Dequantize,
    ]
    assert [node.outputs[0].dtype.value for node in graph.nodes[1:6]] == ["float16", *["int8"] * 3, "float16"]
    assert not nodes(graph, LeakyReLU)[0].outputs[0].name.startswith("conv1")


def test_bindings_and_state_stay_float32() -> None:
    graph = digits()
    assert {value.dtype for value in (*graph.inputs, *graph.outputs)} == {DType.FLOAT32}
    for scan in nodes(graph, Scan):
        states = scan.op.named_inputs(scan.inputs).states  # type: ignore[attr-defined]
        assert {value.dtype for value in states} == {DType.FLOAT32}


def test_a_hidden_state_has_the_scale_of_its_bound() -> None:
    (product,) = [node for node in walk(digits()) if node.name == "__lstm1_recurrent_product"]
    (quantized,) = [node for node in walk(digits()) if node.outputs[0].name == "__lstm1_quantized"]
    assert isinstance(product.op, MatMul)
    assert quantized.inputs[1].data == np.float16(1 / 127)
    assert quantized.inputs[0].name == "__lstm1_delta_product_h"


def test_weights_are_symmetric_and_have_a_scale_for_each_channel() -> None:
    graph = digits(sequence="loop")
    weights = writer(graph, "__conv2_weights_dequantized")
    numbers_, scales = (value.data for value in weights.inputs)
    assert numbers_ is not None
    assert scales is not None
    assert weights.inputs[0].dtype is DType.INT8
    assert (numbers_.shape, scales.shape) == ((24, 12, 3, 3), (24,))
    assert (np.abs(numbers_.astype(int)).max((1, 2, 3)) == 127).all()


@pytest.mark.parametrize("sequence", ["auto", "loop", "unroll", "step"])
def test_every_form_computes_the_same(sequence: Form) -> None:
    shapes = {"data": (1, 1, 32, 16), "cont": (1, 1)}
    feeds = [{"data": numbers(*shapes["data"], seed=call), "cont": np.ones((1, 1))} for call in range(3)]
    loop, other = (prototrt.Session(digits(shapes=shapes, sequence=form)) for form in ("loop", sequence))
    for feed in feeds:
        np.testing.assert_array_equal(other.run(feed)["prob"], loop.run(feed)["prob"])


@pytest.mark.parametrize("precision", ["int8", "fp8", "int8,bf16", "fp8,bf16", "bf16"])
def test_the_precision_is_known_again(precision: Precision) -> None:
    assert precision_of(digits(precision=precision)) == precision


def test_products_without_a_scale_stay_as_they_are_with_a_warning() -> None:
    graph = digits(ranges={"pool1": RANGE})
    assert [told(str(warning)).partition("digits/")[2] for warning in graph.warnings] == [
        'deploy.prototxt:101: layer "ip1" (InnerProduct): is not quantized: there is no scale for its input "pool2"',
        'deploy.prototxt:123: layer "lstm1" (LSTM): is not quantized: there is no scale for its input "ip1"',
    ]
    assert "__ip1_weights_dequantized" not in graph.text()
    assert "__lstm1_W_hc_dequantized" in graph.text()


def test_8_bits_need_ranges() -> None:
    assert failure(lambda: digits(ranges=None), OptionsError) == (
        'precision="int8" needs the ranges of the values of the net\n'
        '  fix: measure them with `prototrt.calibrate(...)`, and give scales="scales.json"'
    )


def test_a_layer_to_keep_is_in_the_net() -> None:
    assert failure(lambda: digits(keep_float=("score2",)), OptionsError) == (
        'keep_float names "score2", which is not a layer of the net\n  fix: use score'
    )


@pytest.mark.parametrize("largest", [0.0, -1.0, np.nan, np.inf])
def test_ranges_are_positive_numbers(largest: float) -> None:
    assert failure(lambda: digits(ranges={"pool1": largest}), OptionsError) == (
        f'the range of "pool1" is {largest:g}, expected a number above 0\n'
        "  fix: leave it out, and its products stay float16"
    )


def test_a_small_bias_does_not_keep_a_product_in_float32(tmp_path: Path) -> None:
    """Its digits do not matter beside the products of weights of 8 bits."""
    fields = "convolution_param { num_output: 2 kernel_size: 1 }"
    blobs = stored("op", [numbers(2, 3, 1, 1), [1e-7, 0]])
    model = loaded(tmp_path, inputs_of({"x": (1, 3, 2, 2)}) + op("Convolution", fields), blobs)
    graph = prototrt.rewrite(model, precision="int8", ranges={"x": 3.0}, quantize_all=True)
    assert [node.outputs[0].dtype for node in nodes(graph, Convolution)] == [DType.FLOAT16]
    assert graph.warnings == ()


@pytest.mark.trt
@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_the_parser_of_tensorrt_reads_the_onnx_model(precision: Precision, tmp_path: Path) -> None:
    trt = find_backend("rtx").trt
    prototrt.export_onnx(digits(precision=precision), tmp_path / "net.onnx")
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(tmp_path / "net.onnx")), [parser.get_error(0).desc()]
    assert builder.build_serialized_network(network, builder.create_builder_config()) is not None


def test_a_net_without_products_is_told_of() -> None:
    graph = digits(keep_float=("conv2", "ip1", "lstm1", "lstm2"))
    assert precision_of(graph) == "fp16"
    assert str(graph.warnings[-1]).endswith(": int8 has no effect: the net has no product that is quantized")


def float_around(case: Case, precision: Precision) -> Graph:
    """The net with 8 bits and float32: what is left between the ways is the order of sums."""
    options = RewriteOptions(precision=precision, quantize_all=True)
    graph = quantizable(case.load())
    ranges = dict.fromkeys(quantized_values(graph, options), RANGE)
    return drop_unused(quantize_products(graph, ranges, options))


CASES = [case for case in caffe_cases() if str(case) not in SKIPPED]
KEPT = ("deconv_group_dilation", "embed")
"""Nets of which 8 bits keep each product as it is."""
QUANTIZED = [case for case in CASES if case.has_product and str(case) not in KEPT]


def test_nets_have_values_to_quantize() -> None:
    assert [case for case in CASES if quantized_values(quantizable(case.load()), EVERYTHING)] == QUANTIZED


@pytest.mark.parametrize("on", WAYS[1:])
@pytest.mark.parametrize("precision", ["int8", "fp8"])
@pytest.mark.parametrize("case", one_of_each(QUANTIZED, lambda case: case.layer_types), ids=str)
def test_ways_agree_in_8_bits(case: Case, precision: Precision, on: Way) -> None:
    """They round the same numbers. Where sums in another order are on two sides of a tie, they differ by one step."""
    graph = float_around(case, precision)
    reference, other = prototrt.Session(graph), prototrt.Session(graph, on=on)
    for feeds in case.arrays("inputs"):
        wanted, found = reference.run(feeds), other.run(feeds)
        for name, array in wanted.items():
            off = np.abs(found[name] - array) > 1e-5 * np.abs(array).max(initial=1e-9)
            assert np.mean(off) <= 0.01 if off.size else True, name


BUILT = [
    pytest.param(*each.values, "int8", marks=each.marks)
    for each in one_of_each(QUANTIZED, lambda case: case.families)
] + [
    (case, precision)
    for case in QUANTIZED
    for precision in ("fp8", "int8,bf16", "bf16")
    if str(case) in ("net_resnet_block", "rnn_t5")
]


@pytest.mark.trt
@pytest.mark.parametrize(("case", "precision"), BUILT, ids=str)
def test_golden_builds(case: Case, precision: Precision) -> None:
    model = case.load()
    ranges = dict.fromkeys(quantized_values(quantizable(model), EVERYTHING), RANGE)
    assert has_engine(prototrt.rewrite(model, precision=precision, ranges=ranges, quantize_all=True))

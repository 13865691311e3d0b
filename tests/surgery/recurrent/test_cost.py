"""What a recurrent layer costs: TensorRT layers, and weights in the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Cont, Form, Precision
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.tests.bench.kernels import kernels, kernels_of_a_call
from prototrt.tests.bench.recurrent import VARIANTS, ours, through_onnx

pytestmark = [pytest.mark.trt, pytest.mark.slow]

NET = """
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: {steps} dim: 2 dim: 8 }} }} }}
layer {{ name: "cont" type: "Input" top: "cont" input_param {{ shape {{ dim: {steps} dim: 2 }} }} }}
layer {{ name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "lstm"
  recurrent_param {{ num_output: {size} {options} }} }}
"""


def model(folder: Path, options: str = "", steps: int = 12, size: int = 8) -> prototrt.Model:
    file = folder / "net.prototxt"
    file.write_text(NET.format(options=options, steps=steps, size=size))
    return prototrt.load(file, random_weights=1)


@pytest.mark.parametrize(
    ("options", "cont", "most"),
    [
        ("", "drop", 28),
        ("", "keep", 32),
        ("bidirectional: CONCAT", "drop", 38),
        ("bidirectional: CONCAT", "keep", 48),
        ("num_layers: 2", "drop", 61),
        ("num_layers: 2", "keep", 68),
    ],
)
@pytest.mark.parametrize("steps", [2, 500])
def test_layers(options: str, cont: Cont, most: int, steps: int, tmp_path: Path) -> None:
    graph = prototrt.rewrite(model(tmp_path, options, steps), cont=cont, sequence="loop")
    assert network_of(graph, find_backend()).definition.num_layers <= most


@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.exhaustive), "fp16"])
@pytest.mark.parametrize(
    ("layer", "form", "most"),
    [
        ("LSTM", "step", 3),
        ("LSTM with peepholes", "step", 3),
        ("two LSTM layers", "step", 5),
        ("LSTM in both directions", "step", 3),
        ("LSTM with projection", "step", 3),
        ("GRU", "step", 3),
        ("GRU in both directions", "step", 5),
        ("GRU with linear_before_reset", "step", 3),
        ("RNN", "step", 3),
        ("VanillaRNN", "step", 2),
        ("LSTM", "loop", 2),
        ("LSTM in both directions", "loop", 2),
        ("GRU", "loop", 2),
        ("LSTM", "unroll", 2.5),
        ("LSTM in both directions", "unroll", 2.5),
        ("LSTM with projection", "unroll", 2.5),
    ],
)
def test_kernels_of_a_step(layer: str, form: Form, most: float, precision: Precision) -> None:
    """Counted in the plan: a state, or a sum, that costs a kernel of its own is seen here."""
    assert kernels(layer, form, precision) <= most


@pytest.mark.parametrize(
    "layer", ["LSTM", "LSTM in both directions", "GRU with linear_before_reset", "VanillaRNN"]
)
def test_the_batch_in_front_costs_no_kernel_of_a_step(layer: str) -> None:
    caffe, batch_first = (
        kernels(layer, "step", "fp32", layout, streams=4) for layout in ("caffe", "batch-first")
    )
    assert batch_first <= caffe


@pytest.mark.parametrize("steps", [2, 8])
@pytest.mark.parametrize("layer", ["LSTM", "LSTM in both directions", "GRU"])
def test_short_loops_are_written_out_by_tensorrt(layer: str, steps: int) -> None:
    """So ``sequence="auto"`` has little to gain from writing out steps itself: a few kernels of a call."""
    loop, unroll = (kernels_of_a_call(layer, form, "fp16", steps) for form in ("loop", "unroll"))
    assert abs(loop - unroll) <= 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_smaller_than_onnx_through_the_parser(variant: str) -> None:
    pytest.importorskip("onnx", reason="makes the model to compare with")
    layers, plans = zip(*(built(make, variant) for make in (ours, through_onnx)), strict=True)
    assert layers[0] < 0.8 * layers[1]
    assert plans[0] < 0.98 * plans[1]


def built(make: Callable[[str, int], tuple[Any, Any, object]], variant: str) -> tuple[int, int]:
    """Layers of the network that is made so, and bytes of its plan."""
    builder, network, kept = make(variant, 128)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    sizes = network.num_layers, plan.nbytes
    del kept, network  # a builder that goes before its networks may wait for them for ever
    return sizes


@pytest.mark.parametrize("options", ["", "bidirectional: SUM", "num_layers: 2"])
def test_no_weight_is_stored_twice(options: str, tmp_path: Path) -> None:
    """Twice the units: the plan grows by what the weights grow, and hardly more."""
    small, large = (
        sum_and_plan(prototrt.rewrite(model(tmp_path, options, size=size), sequence="loop"))
        for size in (128, 256)
    )
    weights = large[0] - small[0]
    assert weights < large[1] - small[1] < 1.1 * weights


def test_plan_of_a_tiny_net_for_any_number_of_streams(tmp_path: Path) -> None:
    """Two loops for the directions took 66 MB: sums of H <= 4 products are spelled out, step in step."""
    net = model(tmp_path, "bidirectional: CONCAT num_layers: 2", steps=20, size=4)
    least, most = ({"x": (20, streams, 8), "cont": (20, streams)} for streams in (1, 8))
    graph = prototrt.rewrite(net, sequence="loop", min_shapes=least, max_shapes=most)
    assert prototrt.build(graph, backend="rtx").plan.nbytes < 12e6


def sum_and_plan(graph: prototrt.Graph) -> tuple[int, int]:
    """Bytes of the constants of a graph, and of its plan."""
    constants = {
        id(value.data): np.asarray(value.data).nbytes
        for node in graph.nodes
        for inner in (node, *[n for body in [getattr(node.op, "body", None)] if body for n in body.nodes])
        for value in inner.inputs
        if value.data is not None
    }
    return sum(constants.values()), prototrt.build(graph, backend="rtx").plan.nbytes

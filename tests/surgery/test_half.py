"""Graphs that compute in float16: what does, what does not, and what the user is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Form
from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Node, Op, Value, walk
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ir.uniform_constants import is_broadcast
from prototrt.surgery.ops import ADD, MULTIPLY, Clip, Scan, TanH
from prototrt.surgery.passes.compute_in_half import HalfWeights, compute_in_half, precision_loss
from prototrt.surgery.passes.precision import IN_HALF
from prototrt.tests.memory import little_memory
from prototrt.tests.small_nets import Blobs, Shapes, float32, numbers, op, rewritten, stored, told

SHAPES = {"x": (2, 3)}
ORIGIN = Origin("net.prototxt", 3, "op", "InnerProduct")


def product(*weights: float, bias: float = 0.0) -> Graph:
    """One InnerProduct with these weights."""
    fields = f"inner_product_param {{ num_output: {len(weights) // 3} }}"
    blobs = stored("op", [float32(weights).reshape(-1, 3), np.full(len(weights) // 3, bias)])
    return half(op("InnerProduct", fields), SHAPES, blobs)


def half(layers: str, shapes: Shapes = SHAPES, blobs: Blobs | None = None) -> Graph:
    return rewritten(layers, shapes, blobs, precision="fp16")


def primitives() -> Iterator[type[Op]]:
    kinds = (getattr(ops, name) for name in ops.__all__)
    return (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Op))


def test_every_primitive_has_a_role() -> None:
    assert {kind.__name__ for kind in IN_HALF} == {kind.__name__ for kind in primitives()} - {"Scan"}


def test_a_product_computes_in_float16_between_float32_bindings() -> None:
    graph = product(1, 2, 3)
    assert {value.dtype for value in (*graph.inputs, *graph.outputs)} == {DType.FLOAT32}
    assert [type(node.op).__name__ for node in graph.nodes] == ["Cast", "MatMul", "Binary", "Cast"]
    assert precision_of(graph) == "fp16"
    assert graph.warnings == ()


def test_results_are_rounded_once() -> None:
    """By hand: 1 + 2^-11 + 2^-11 is 1 if each sum is rounded to float16, 1 + 2^-10 if the end is."""
    graph = product(1, 2**-11, 2**-11)
    results = prototrt.Session(graph).run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(results["y"], np.full((2, 1), 1 + 2**-10))


def test_weights_beyond_float16_stay_with_a_warning() -> None:
    graph = product(1e5, -3e5, 2)
    assert precision_of(graph) == "fp32"
    assert told(graph.warnings[0]) == (
        'net.prototxt:2: layer "op" (InnerProduct): stays in float32: '
        "float16 ends at 65504, and some numbers here reach 3e+05"
    )


def test_weights_below_float16_stay_with_a_warning() -> None:
    graph = product(1e-6, -2e-6, 0)
    assert precision_of(graph) == "fp32"
    assert told(graph.warnings[0]) == (
        'net.prototxt:2: layer "op" (InnerProduct): stays in float32: '
        "float16 loses digits below 6.1e-05, and the largest number here is 2e-06"
    )


@pytest.mark.parametrize("weights", [(65504, 1, 0), (6.2e-5, 1e-9, 0), (0, 0, 0), (np.nan, np.inf, 1)])
def test_weights_that_float16_holds(weights: tuple[float, ...]) -> None:
    graph = product(*weights)
    assert precision_of(graph) == "fp16"
    assert not any("float32" in warning for warning in graph.warnings)


AFTER = (
    'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"'
    " inner_product_param { num_output: 2 bias_term: false } }\n"
)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (
            op("Clip", "clip_param { min: -1 max: 1e6 }", ["ip"]),
            "float16 ends at 65504, and some numbers here reach 1e+06",
        ),
        (
            op("ReLU", "relu_param { negative_slope: 1e-6 }", ["ip"]),
            "float16 loses digits below 6.1e-05, and the largest number here is 1e-06",
        ),
        (
            op("Power", "power_param { scale: 1e-6 }", ["ip"]),
            "float16 loses digits below 6.1e-05, and the largest number here is 1e-06",
        ),
    ],
)
def test_numbers_of_a_layer_that_float16_does_not_hold(layer: str, reason: str) -> None:
    graph = half(AFTER + layer, SHAPES, stored("ip", [numbers(2, 3)]))
    (last,) = [node for node in graph.nodes if node.outputs[0] in graph.outputs]
    assert {value.dtype for value in (*last.inputs, *last.outputs)} - {DType.BOOL} == {DType.FLOAT32}
    (warning,) = graph.warnings
    assert told(warning).endswith(f": stays in float32: {reason}")


def test_infinite_numbers_of_a_layer_are_infinite_in_float16() -> None:
    graph = half(
        AFTER + op("Clip", "clip_param { min: 0 max: inf }", ["ip"]), SHAPES, stored("ip", [numbers(2, 3)])
    )
    assert graph.warnings == ()
    assert [node.outputs[0].dtype for node in graph.nodes if isinstance(node.op, Clip)] == [DType.FLOAT16]


def test_an_output_that_is_read_in_float32_is_cast_once() -> None:
    layers = AFTER + op("Softmax", "", ["ip"])
    graph = rewritten(layers, SHAPES, stored("ip", [numbers(2, 3)]), precision="fp16", outputs=["ip", "y"])
    assert [type(node.op).__name__ for node in graph.nodes] == ["Cast", "MatMul", "Cast", "Softmax"]
    assert [value.name for value in graph.outputs] == ["ip", "y"]


def test_a_net_without_products_is_told_of() -> None:
    graph = half(op("TanH"))
    assert precision_of(graph) == "fp32"
    assert [told(warning) for warning in graph.warnings] == [
        "net.prototxt: fp16 has no effect: the net has no product that float16 can compute"
    ]


def test_float16_that_was_not_asked_for_is_no_reason_to_warn(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from prototrt.surgery.ir import DType\n"
        "from prototrt.surgery.rules import layer_rule\n\n"
        "@layer_rule('Rounding')\n"
        "def rounding(build, layer, x):\n"
        "    return [build.cast(build.cast(x, DType.FLOAT16), DType.FLOAT32)]\n"
    )
    graph = rewritten(op("Rounding"), SHAPES, rules=str(rules))
    assert precision_of(graph) == "fp16"
    assert graph.warnings == ()


def test_indices_stay_exact() -> None:
    """2049 is no float16."""
    layers = op("Embed", "embed_param { input_dim: 3000 num_output: 1 bias_term: false }")
    graph = half(layers, {"x": (1,)}, stored("op", [np.arange(3000)[:, None] % 2]))
    assert precision_of(graph) == "fp16"
    results = prototrt.Session(graph).run({"x": float32([2049])})
    assert results["y"].item() == 1


def test_the_place_of_a_maximum_stays_exact() -> None:
    layers = (
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"'
        " inner_product_param { num_output: 4000 bias_term: false } }\n"
        'layer { name: "best" type: "ArgMax" bottom: "ip" top: "y" argmax_param { axis: 1 } }\n'
    )
    weights = np.zeros((4000, 1))
    weights[3333] = 1
    graph = half(layers, {"x": (1, 1)}, stored("ip", [weights]))
    assert prototrt.Session(graph).run({"x": float32([[1]])})["y"].item() == 3333


def test_squares_are_summed_in_float32() -> None:
    """300^2 is beyond float16."""
    layers = (
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"'
        " inner_product_param { num_output: 2 bias_term: false } }\n"
        'layer { name: "sum" type: "Reduction" bottom: "ip" top: "y"'
        " reduction_param { operation: SUMSQ axis: 1 } }\n"
    )
    graph = half(layers, {"x": (1, 1)}, stored("ip", [[[300.0], [400.0]]]))
    assert prototrt.Session(graph).run({"x": float32([[1]])})["y"].item() == 250000


@pytest.mark.parametrize("sequence", ["loop", "unroll"])
@pytest.mark.parametrize("state", ["bind", "zero"])
def test_states_stay_float32(sequence: Form, state: str) -> None:
    """Also where they begin with constants, and where the Scan is written out."""
    layers = (
        'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y"'
        " recurrent_param { num_output: 4 } }"
    )
    weights = stored("lstm", [numbers(16, 3), numbers(16), numbers(16, 4)])
    shapes = {"x": (5, 2, 3), "cont": (5, 2)}
    graph = rewritten(layers, shapes, weights, precision="fp16", sequence=sequence, state=state)
    cells = [node for node in walk(graph) if "_c_activated" in node.name]
    assert len(cells) == (5 if sequence == "unroll" else 1)
    assert {node.inputs[0].dtype for node in cells} == {DType.FLOAT32}
    products = [node for node in walk(graph) if "recurrent_product" in node.name]
    assert {value.dtype for node in products for value in node.inputs} == {DType.FLOAT16}
    for node in graph.nodes:
        if isinstance(node.op, Scan):
            assert {value.dtype for value in node.op.named_outputs(node.op.body.outputs).states} == {
                DType.FLOAT32
            }


def test_a_scan_without_products_is_left_alone() -> None:
    build = Builder()
    h, x = build.input("h", (2,)), build.input("x", (5, 2))
    inside = build.body()
    state, step = inside.body_input("state", (2,)), inside.body_input("step", (2,))
    new = inside.add(TanH(), inside.add(ADD, state, step))
    scan = Scan(inside.graph("", [new, new]), 1, 1)
    graph = build.graph("g", build.add_all(scan, h, x))
    assert compute_in_half(graph) is graph


def test_rounding_does_not_add_up_in_the_cell() -> None:
    """An LSTM that adds 1/4096 to its cell in each of 4000 steps: in float16 it would stop at 1/2."""
    layers = (
        'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y"'
        ' recurrent_param { num_output: 1 candidate_activation: "Identity" cell_activation: "Identity" } }'
    )
    gates = float32([20, 20, 20, 0])  # i, f, o are 1
    weights = stored("lstm", [[[0], [0], [0], [1]], gates, np.zeros((4, 1))])
    graph = rewritten(layers, {"x": (4000, 1, 1), "cont": (4000, 1)}, weights, precision="fp16")
    assert precision_of(graph) == "fp16"
    feeds = {"x": np.full((4000, 1, 1), 2**-12, np.float32), "cont": np.ones((4000, 1), np.float32)}
    results = prototrt.Session(graph).run(feeds)
    np.testing.assert_allclose(results["y"][-1].item(), 4000 / 4096, rtol=1e-3)


def test_a_gate_near_one_keeps_its_distance() -> None:
    """A cell that forgets 1/2981 in each of 3000 steps: the nearest float16 forgets 1/2048, or nothing."""
    layers = (
        'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y"'
        ' recurrent_param { num_output: 1 candidate_activation: "Identity" cell_activation: "Identity" } }'
    )
    gates = float32([20, 8, 20, 0])
    weights = stored("lstm", [[[0], [0], [0], [1]], gates, np.zeros((4, 1))])
    graph = rewritten(layers, {"x": (3001, 1, 1), "cont": (3001, 1)}, weights, precision="fp16")
    feeds = {"x": np.zeros((3001, 1, 1), np.float32), "cont": np.ones((3001, 1), np.float32)}
    feeds["x"][0] = 1
    results = prototrt.Session(graph).run(feeds)
    np.testing.assert_allclose(results["y"][-1].item(), (1 + np.exp(-8)) ** -3000, rtol=1e-3)


def test_shared_weights_are_cast_once() -> None:
    data = numbers(3, 3)
    first, second = (Value(name, DType.FLOAT32, (3, 3), data) for name in "ab")
    weights = HalfWeights()
    assert weights.of(first).data is weights.of(second).data
    turned = Value("c", DType.FLOAT32, (3, 3), data.T)
    np.testing.assert_array_equal(weights.of(turned).data, data.T.astype(np.float16))


def test_a_node_rounds_what_it_computes() -> None:
    a, b = (Value(name, DType.FLOAT16, (1,)) for name in "ab")
    big, one = np.array([2048], np.float16), np.array([1.5], np.float16)
    c = Value("c", DType.FLOAT16, (1,))
    (total,) = Node("sum", ADD, (a, b), (c,), ORIGIN).evaluate(big, one)
    assert (total.dtype.name, total.item()) == ("float16", 2050)
    (times,) = Node("times", MULTIPLY, (a, b), (c,), ORIGIN).evaluate(one, one)
    assert (times.dtype.name, times.item()) == ("float16", 2.25)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^precision is 'half', expected one of fp32, fp16, bf16, int8"):
        rewritten(op("TanH"), SHAPES, precision="half")


def test_a_number_that_stands_everywhere_is_cast_once() -> None:
    """Fillers may ask for more than there is memory."""
    large = Value(
        "w", DType.FLOAT32, (1 << 20, 1 << 20), np.broadcast_to(np.float32(0.1), (1 << 20, 1 << 20))
    )
    assert precision_loss(TanH(), [large]) is None
    with little_memory():
        cast = HalfWeights().of(large)
    assert cast.data is not None
    assert (cast.dtype, cast.data.dtype.name, cast.data.shape) == (DType.FLOAT16, "float16", large.shape)
    assert (cast.data[-1, -1], is_broadcast(cast.data)) == (np.float16(0.1), True)

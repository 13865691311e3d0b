"""Scans that run side by side give what they gave one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import StateSource
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph, Node, OpenSize, Range, fixed, walk
from prototrt.surgery.ir.uniform_constants import are_equal
from prototrt.surgery.ops import ADD, LRN, Scan, TanH
from prototrt.surgery.passes.merge_reshapes import merge_reshapes
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.pipeline import lowered, quantizable, quantizable_values
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.tests.operations import growth

INPUTS = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer { name: "static" type: "Input" top: "static" input_param { shape { dim: 2 dim: 5 } } }
layer { name: "ends" type: "Input" top: "ends" input_param { shape { dim: 2 } } }
"""
LAYER = (
    'layer {{ name: "{}" type: "{}" bottom: "{}" bottom: "cont" {} top: "{}" recurrent_param {{ {} }} }}\n'
)
BOTH = "num_output: 4 bidirectional: CONCAT"


def layer(name: str, fields: str, kind: str = "LSTM", bottom: str = "x", more: str = "") -> str:
    return LAYER.format(name, kind, bottom, more, name, fields)


NETS = {
    "both directions": (layer("a", BOTH), 1),
    "a stack of both": (layer("a", BOTH + " num_layers: 2"), 2),
    "a static input": (layer("a", BOTH, more='bottom: "static"'), 1),
    "sequence lengths": (
        layer("a", BOTH + " sequence_lengths: true past_end: HOLD", more='bottom: "ends"'),
        1,
    ),
    "peepholes and projections": (
        layer("a", BOTH + " peephole: true num_proj: 3 num_nonrecurrent_proj: 2"),
        1,
    ),
    "GRU": (layer("a", BOTH, "GRU"), 1),
    "GRU with two biases": (layer("a", BOTH + " linear_before_reset: true", "GRU"), 1),
    "RNN": (layer("a", "num_output: 4", "RNN"), 1),
    "three beside each other": ("".join(layer(name, "num_output: 4") for name in "abc"), 1),
    "of two sizes": (layer("a", "num_output: 4") + layer("b", "num_output: 3"), 2),
    "one after the other": (layer("a", "num_output: 4") + layer("b", "num_output: 4", bottom="a"), 2),
    "both between": (
        layer("a", "num_output: 4")
        + layer("b", "num_output: 4 reverse: true", bottom="a")
        + layer("c", "num_output: 4 reverse: true"),
        2,
    ),
}


@pytest.mark.parametrize("state", ["bind", "zero"])
@pytest.mark.parametrize("net", NETS)
def test_numbers(net: str, state: StateSource, tmp_path: Path) -> None:
    text, scans = NETS[net]
    path = tmp_path / "net.prototxt"
    path.write_text(INPUTS + text)
    graph = prototrt.rewrite(prototrt.load(path, random_weights=1), sequence="loop", state=state)
    after = lowered(graph, "tensorrt")
    assert len(scans_of(after)) == scans
    assert_equal(after, graph)


def test_directions_of_8_bits_that_have_other_scales_run_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(INPUTS + layer("a", BOTH, "RNN"))
    model = prototrt.load(path, random_weights=1)
    ranges = {name: float(place) for place, name in enumerate(quantizable_values(quantizable(model)), 1)}
    graph = prototrt.rewrite(model, precision="int8", ranges=ranges, quantize_all=True)
    after = lowered(graph, "tensorrt")
    assert len(scans_of(after)) == 2
    assert_equal(after, graph)


def test_states_keep_the_shape_of_their_bindings(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(INPUTS + layer("a", BOTH + " num_layers: 2"))
    graph = lowered(prototrt.rewrite(prototrt.load(path, random_weights=1)), "tensorrt")
    first, second = scans_of(graph)
    shapes = [value.shape for node in (first, second) for value in node.inputs[:2]]
    assert shapes == [(2, 2, 4)] * 4
    assert [value.shape for value in graph.state_outputs] == [(4, 2, 4)] * 2


def test_weights_of_equal_branches_are_stored_once() -> None:
    weights = np.ones((3, 3), np.float32)
    after = stack_scans(branches(lambda body, h: body.product(h, body.constant(weights))))
    assert [len(scans_of(after)), *constants(after)] == [1, (1, 3, 3)]


def test_left_alone_where_a_primitive_knows_no_further_axis() -> None:
    graph = branches(lambda body, h: body.add(LRN(3, 1.0, 0.5, 1.0), h), (2, 3, 1, 1))
    assert stack_scans(graph) is graph


def test_left_alone_where_a_body_returns_a_constant() -> None:
    graph = branches(lambda body, h: body.constant(np.ones((2, 3), np.float32)), plain=True)
    assert stack_scans(graph) is graph


def test_of_two_reshapes_each_of_which_moves_a_symbol_none_is_merged() -> None:
    """TensorRT's layer leaves one size open."""
    build = Builder()
    steps, streams = (OpenSize.symbol(name, Range(1, 2, 4)) for name in "TN")
    x = build.input("x", (2, steps, 3, streams))
    y = build.reshape(x, (2, steps, streams, 3))
    graph = build.graph("net", [build.reshape(y, (steps, 2, streams, 3))])
    assert merge_reshapes(graph) is graph


def test_repeated_numbers_are_compared_once() -> None:
    large = np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))
    assert are_equal(large, large)
    assert not are_equal(large, np.broadcast_to(np.float32(2), large.shape))


def branches(
    change: Callable[[Builder, Value], Value], shape: tuple[int, ...] = (2, 3), *, plain: bool = False
) -> Graph:
    """Two Scans over x (T, ...), forwards and backwards, with ``h' = x + change(h)``."""
    build = Builder()
    x = build.input("x", (4, *shape))

    def cell(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        h = change(body, body.add(TanH(), states[0]))
        new = h if plain else body.add(ADD, inputs[0], h)
        return Step([new], [states[0]])

    starts = [build.input(name, shape) for name in ("f", "b")]
    ends = [
        scan(build, cell, [x], [start], reverse=back)
        for start, back in zip(starts, (False, True), strict=True)
    ]
    return build.graph("net", [value for end in ends for value in (*end.states, *end.outputs)])


def scans_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if isinstance(node.op, Scan)]


def constants(graph: Graph) -> list[tuple[object, ...]]:
    return [value.shape for node in walk(graph) for value in node.inputs if value.is_constant]


def assert_equal(after: Graph, before: Graph) -> None:
    """The same numbers for the same inputs, whose order may differ."""
    assert [value.name for value in after.outputs] == [value.name for value in before.outputs]
    random = np.random.default_rng(1)
    arrays = {
        value.name: random.uniform(0, 3, [fixed(dim, "a size") for dim in value.shape]).astype(np.float32)
        for value in before.inputs
    }
    found, expected = (g.evaluate(*(arrays[v.name] for v in g.inputs)) for g in (after, before))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beside", [False, True], ids=["one after the other", "side by side"])
def test_the_work_grows_with_the_layers(beside: bool, tmp_path: Path) -> None:
    graphs = {}
    for count in (8, 48):
        bottoms = ["x", *(f"l{place}" for place in range(count - 1))]
        layers = [
            layer(f"l{place}", "num_output: 4", bottom="x" if beside else bottom)
            for place, bottom in enumerate(bottoms)
        ]
        (tmp_path / "net.prototxt").write_text(INPUTS + "".join(layers))
        graphs[count] = prototrt.rewrite(prototrt.load(tmp_path / "net.prototxt", random_weights=1))
    assert growth(lambda count: stack_scans(graphs[count]), 8, 48) < 1.5

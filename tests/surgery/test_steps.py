"""Steps that are written out, as TensorRT gets them: the same numbers from fewer and larger products."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import Cont, Form, Precision
from prototrt.converter.checking.verification.comparison import TOLERANCES
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.options import CompareOptions
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Node, OpenSize, Range, Value, element_count
from prototrt.surgery.ops import ADD, Axis, Cast, Gather, MatMul, Reshape, Slice, TanH
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.join_columns import join_columns
from prototrt.surgery.passes.join_products import join_products
from prototrt.surgery.passes.keep_unit_axes import keep_unit_axes
from prototrt.surgery.pipeline import lowered
from prototrt.tests.small_nets import numbers

LAYERS = {
    "LSTM": ("LSTM", "", 1),
    "peepholes": ("LSTM", "peephole: true num_proj: 3", 2),
    "a static input": ("LSTM", "", 1),
    "two layers": ("LSTM", "num_layers: 2", 2),
    "both directions": ("LSTM", "bidirectional: CONCAT", 1),
    "two layers in both directions": ("LSTM", "bidirectional: SUM num_layers: 2", 2),
    "GRU": ("GRU", "", 2),
    "GRU in both directions": ("GRU", "bidirectional: CONCAT", 2),
    "GRU with a static input": ("GRU", "", 2),
    "GRU that resets late": ("GRU", "linear_before_reset: true", 1),
    "GRU that resets late in both directions": ("GRU", "linear_before_reset: true bidirectional: CONCAT", 1),
    "RNN": ("RNN", "", 2),
    "RNN in both directions": ("RNN", "bidirectional: CONCAT", 2),
    "VanillaRNN": ("VanillaRNN", "bidirectional: CONCAT", 1),
}
"""Type and fields of each layer, and the products that a step needs: those that depend on each other."""


def graph_of(folder: Path, layer: str, steps: int, width: int = 4, **options: Any) -> Graph:
    kind, fields, _ = LAYERS[layer]
    more = 'bottom: "static"' if "static" in layer else ""
    path = folder / "net.prototxt"
    path.write_text(
        f"""
        layer {{ name: "x" type: "Input" top: "x"
                 input_param {{ shape {{ dim: {steps} dim: 2 dim: {width} }} }} }}
        layer {{ name: "cont" type: "Input" top: "cont" input_param {{ shape {{ dim: {steps} dim: 2 }} }} }}
        layer {{ name: "static" type: "Input" top: "static" input_param {{ shape {{ dim: 2 dim: 3 }} }} }}
        layer {{ name: "l" type: "{kind}" bottom: "x" bottom: "cont" {more} top: "h"
                 recurrent_param {{ num_output: 5 {fields} }} }}"""
    )
    return prototrt.rewrite(prototrt.load(path, random_weights=1), **options)


def products(graph: Graph) -> int:
    return sum(isinstance(node.op, MatMul) for node in graph.nodes)


def matrices(graph: Graph) -> int:
    """The numbers that all products together read as weights."""
    return sum(element_count(node.inputs[1].shape) for node in graph.nodes if isinstance(node.op, MatMul))


def reshapes(graph: Graph) -> list[Node]:
    """Those that change a shape."""
    return [
        node
        for node in graph.nodes
        if isinstance(node.op, Reshape) and node.inputs[0].shape != node.outputs[0].shape
    ]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("steps", "sequence"), [(1, "step"), (3, "unroll")])
@pytest.mark.parametrize("layer", LAYERS)
def test_numbers(layer: str, steps: int, sequence: Form, precision: Precision, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, layer, steps, sequence=sequence, precision=precision)
    assert_equal(lowered(graph, "tensorrt"), graph, precision)


def assert_equal(after: Graph, before: Graph, precision: Precision = "fp32") -> None:
    """Both graphs give the same numbers for the same inputs."""
    after.verify()
    feeds = {value.name: numbers(*map(int, value.shape), seed=i) for i, value in enumerate(before.inputs)}
    found, expected = (each.evaluate(*(feeds[v.name] for v in each.inputs)) for each in (after, before))
    tolerance = TOLERANCES[precision]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, tolerance.relative, tolerance.absolute)


@given(data=st.data())
def test_any_cell_in_two_calls(data: st.DataObject) -> None:
    """What TensorRT gets computes what the graph computes, from any state, whatever the sizes."""
    draw = data.draw
    kind = draw(st.sampled_from(["LSTM", "GRU", "RNN", "VanillaRNN"]))
    more = {"LSTM": ["peephole: true", "num_proj: 2"], "GRU": ["linear_before_reset: true"]}
    fields = draw(st.lists(st.sampled_from(["num_layers: 2", *more.get(kind, [])]), unique=True))
    fields.append(f"bidirectional: {draw(st.sampled_from(['NONE', 'CONCAT', 'SUM']))}")
    steps, streams, width, hidden = (draw(st.integers(1, most)) for most in (3, 2, 4, 4))
    cont: Cont = draw(st.sampled_from(["keep", "drop"]))
    sequence: Form = draw(st.sampled_from(["auto", "unroll"]))
    text = f"""
        layer {{ name: "x" type: "Input" top: "x"
                 input_param {{ shape {{ dim: {steps} dim: {streams} dim: {width} }} }} }}
        layer {{ name: "cont" type: "Input" top: "cont"
                 input_param {{ shape {{ dim: {steps} dim: {streams} }} }} }}
        layer {{ name: "l" type: "{kind}" bottom: "x" bottom: "cont" top: "h"
                 recurrent_param {{ num_output: {hidden} {" ".join(fields)} }} }}"""
    with TemporaryDirectory() as folder:
        path = Path(folder, "net.prototxt")
        path.write_text(text)
        graph = prototrt.rewrite(prototrt.load(path, random_weights=1), cont=cont, sequence=sequence)
    after = lowered(graph, "tensorrt")
    after.verify()
    state = {value.name: numbers(*map(int, value.shape), seed=9) for value in graph.state_inputs}
    for call in range(2):
        feeds = state | {
            "x": numbers(steps, streams, width, seed=call),
            "cont": np.full((steps, streams), call, np.float32),
        }
        expected, found = (each.evaluate(*(feeds[v.name] for v in each.inputs)) for each in (graph, after))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)
        pairs = dict(zip(graph.outputs, expected, strict=True))
        state = {pair.input.name: pairs[pair.output] for pair in graph.recurrences}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_step_computes_at_once_what_does_not_depend_on_each_other(
    layer: str, precision: Precision, tmp_path: Path
) -> None:
    graph = graph_of(tmp_path, layer, 1, precision=precision)
    assert products(lowered(graph, "tensorrt")) == LAYERS[layer][2]


@pytest.mark.parametrize(("width", "zeros"), [(4, 5 * 5 + 5 * 4), (5, 0)])
def test_equal_sizes_need_no_zeros(width: int, zeros: int, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "GRU that resets late", 1, width=width)
    after = lowered(graph, "tensorrt")
    assert products(after) == 1
    assert matrices(after) == matrices(graph) + zeros


def test_both_directions_of_steps_written_out_are_computed_side_by_side(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "both directions", 3, sequence="unroll")
    assert (products(graph), products(lowered(graph, "tensorrt"))) == (1 + 2 * 3, 1 + 3)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_step_of_an_lstm_multiplies_once_and_reshapes_cont_alone(
    precision: Precision, tmp_path: Path
) -> None:
    graph = graph_of(tmp_path, "LSTM", 1, precision=precision)
    after = lowered(graph, "tensorrt")
    assert (products(graph), products(after)) == (2, 1)
    assert [node.inputs[0].name for node in reshapes(after)] == ["cont"]


def test_a_static_input_is_in_the_same_product(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "a static input", 1)
    assert (products(graph), products(lowered(graph, "tensorrt"))) == (3, 1)


def test_steps_of_several_share_the_product_of_the_sequence(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "LSTM", 3, sequence="unroll")
    after = lowered(graph, "tensorrt")
    assert products(after) == products(graph) == 4
    assert len(reshapes(after)) < len(reshapes(graph)) / 2


@pytest.mark.trt
def test_any_number_of_streams(tmp_path: Path) -> None:
    few, many = {"x": (1, 1, 4), "cont": (1, 1)}, {"x": (1, 3, 4), "cont": (1, 3)}
    graph = graph_of(tmp_path, "LSTM", 1, min_shapes=few, max_shapes=many)
    assert products(lowered(graph, "tensorrt")) == 1
    for streams in (1, 3):
        feeds = [{"x": numbers(1, streams, 4, seed=call), "cont": np.ones((1, streams))} for call in range(2)]
        assert verify(graph, feeds, CompareOptions(ways=["network"])).holds


def test_copies_of_a_step_share_the_weights_of_both_directions(tmp_path: Path) -> None:
    after = lowered(graph_of(tmp_path, "both directions", 3, sequence="unroll"), "tensorrt")
    stacked = [node.inputs[1] for node in after.nodes if isinstance(node.op, MatMul)][1:]
    assert [value.shape for value in stacked] == [(2, 20, 5)] * 3
    assert len({id(value.data) for value in stacked}) == 1


def test_weights_are_not_stored_twice_to_be_multiplied_with_those_of_another_layer(tmp_path: Path) -> None:
    """The first step of the second layer could be computed with the second one of the first layer, and so on."""
    graph = graph_of(tmp_path, "two layers", 3, sequence="unroll")
    assert products(lowered(graph, "tensorrt")) == products(graph) == 2 * (1 + 3)


def product(build: Builder, x: Value, columns: int = 3) -> Value:
    return build.product(x, build.constant(numbers(columns, 4, seed=columns)))


def test_products_that_anything_else_reads_stay() -> None:
    build = Builder()
    x, y = build.input("x", (2, 4)), build.input("y", (2, 4))
    first = product(build, x)
    total = build.add(ADD, first, product(build, y))
    graph = build.graph("net", [total, build.add(TanH(), first)])
    assert join_products(graph) is graph


def test_products_of_other_rows_and_weights_that_vary_stay() -> None:
    build = Builder()
    x, y, w = build.input("x", (2, 4)), build.input("y", (1, 4)), build.input("w", (3, 4))
    total = build.add(ADD, product(build, x), product(build, y))
    total = build.add(ADD, total, build.add(MatMul(transpose_b=True), x, w))
    graph = build.graph("net", [total])
    assert join_products(graph) is graph


def test_a_sum_of_two_kinds_of_products_and_more() -> None:
    build = Builder()
    x, y, z = (build.input(name, (2, 4)) for name in "xyz")
    half = [build.add(Cast(DType.FLOAT16), value) for value in (x, y)]
    weights = [build.constant(numbers(3, 4, seed=seed).astype(np.float16)) for seed in (1, 2)]
    bias = build.constant(numbers(1, 3).astype(np.float16))
    halves = [build.product(value, w) for value, w in zip(half, weights, strict=True)]
    biased = build.add(Cast(DType.FLOAT32), build.add(ADD, halves[0], bias))
    total = build.add(ADD, biased, build.add(Cast(DType.FLOAT32), halves[1]))
    total = build.add(ADD, total, build.add(ADD, product(build, y), product(build, z)))
    graph = build.graph("net", [build.add(ADD, total, build.input("u", (2, 3)))])
    after = lowered(graph, "tensorrt")
    after.verify()
    assert (products(graph), products(after)) == (4, 2)
    feeds = [numbers(2, 4, seed=1), numbers(2, 4, seed=2), numbers(2, 4, seed=3), numbers(2, 3, seed=4)]
    np.testing.assert_allclose(after.evaluate(*feeds)[0], graph.evaluate(*feeds)[0], rtol=5e-3, atol=5e-3)


def cut(build: Builder, x: Value, start: int, size: int) -> Value:
    return build.add(Slice(1, start, size), x)


@pytest.mark.parametrize("bias", [(1, 5), (1, 1), None])
def test_columns_that_are_added(bias: tuple[int, int] | None) -> None:
    """Some twice, some not at all, those that nothing is added to, and what is added before they are cut."""
    build = Builder()
    x, h = build.input("x", (2, 4)), build.input("h", (2, 3))
    p = product(build, x, 5)
    if bias is not None:
        p = build.add(ADD, p, build.constant(numbers(*bias)))
    total = build.add(ADD, build.product(h, build.constant(numbers(2, 3))), cut(build, p, 1, 2))
    graph = build.graph("net", [total, build.add(TanH(), cut(build, p, 2, 3))])
    after = drop_unused(join_columns(graph))
    assert_equal(after, graph)
    assert (products(graph), products(after)) == (2, 1)
    assert matrices(after) == 5 * 7


def test_columns_of_one_product_that_are_added_to_each_other() -> None:
    build = Builder()
    x, h = build.input("x", (2, 4)), build.input("h", (2, 3))
    p = product(build, x, 6)
    total = build.add(ADD, build.add(ADD, cut(build, p, 0, 3), cut(build, p, 3, 3)), product_of(build, h, 3))
    graph = build.graph("net", [total])
    after = drop_unused(join_columns(graph))
    assert_equal(after, graph)
    assert products(after) == 1


def product_of(build: Builder, x: Value, columns: int) -> Value:
    return build.product(x, build.constant(numbers(columns, int(x.shape[-1]), seed=columns)))


def test_columns_of_products_that_depend_on_each_other_stay() -> None:
    build = Builder()
    x, h = build.input("x", (2, 4)), build.input("h", (2, 3))
    p = product(build, x, 6)
    first = build.add(TanH(), cut(build, p, 0, 3))
    graph = build.graph("net", [build.add(ADD, cut(build, p, 3, 3), product_of(build, first, 3)), h])
    assert join_columns(graph) is graph


def test_columns_of_an_output_stay() -> None:
    build = Builder()
    x, h = build.input("x", (2, 4)), build.input("h", (2, 3))
    p = product(build, x, 6)
    total = build.add(ADD, cut(build, p, 0, 3), product_of(build, h, 3))
    graph = build.graph("net", [total, p, cut(build, p, 3, 3)])
    assert join_columns(graph) is graph


def test_values_that_are_needed_without_their_axis_get_a_reshape() -> None:
    build = Builder()
    x = build.input("x", (1, 2, 4))
    plain = build.reshape(x, (2, 4))
    shown = build.reshape(build.add(TanH(), plain), (1, 2, 4))
    again = build.reshape(build.add(TanH(), build.reshape(shown, (2, 4))), (1, 2, 4))
    graph = build.graph("net", [again, plain])
    after = keep_unit_axes(graph)
    after.verify()
    assert [node.outputs[0].shape for node in reshapes(after)] == [(2, 4)]
    given = numbers(1, 2, 4)
    for one, other in zip(after.evaluate(given), graph.evaluate(given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_not_known_now_is_not_cut() -> None:
    build = Builder()
    table = build.input("table", (OpenSize.symbol("K", Range(1, 2, 4)), 2, 4))
    build.symbols["K"] = Range(1, 2, 4)
    row = build.add(Gather(), table, build.constant(np.array(1, np.int32)))
    shown = build.reshape(build.add(TanH(), row), (1, 2, 4))
    again = build.reshape(build.add(TanH(), build.reshape(shown, (2, 4))), (1, 2, 4))
    after = keep_unit_axes(build.graph("net", [again]))
    after.verify()
    assert [type(node.op) for node in after.nodes] == [Gather, TanH, Reshape, TanH, Reshape]


def test_two_sizes_that_vary_are_not_moved_at_once() -> None:
    build = Builder()
    build.symbols.update(K=Range(1, 2, 4), L=Range(1, 2, 4))
    x = build.input("x", (1, *(OpenSize.symbol(*symbol) for symbol in build.symbols.items())))
    plain = build.add(Reshape((Axis(1), Axis(2))), x)
    result = build.add(Reshape((1, Axis(0), Axis(1))), build.add(TanH(), plain))
    graph = build.graph("net", [result])
    assert keep_unit_axes(graph) is graph

"""The builder: names, origins, and what it does not add."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import Origin, ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, OpenSize, Range, Value
from prototrt.surgery.ops import ADD, Affine, Concat, Identity, MatMul, Sigmoid, TanH, Tile

ORIGIN = Origin("net.prototxt", 7, "lstm1", "LSTM")


def builder(*reserved: str) -> Builder:
    build = Builder(reserved)
    build.origin = ORIGIN
    return build


def test_nodes_are_named_after_their_layer_and_counted() -> None:
    build = builder("__lstm1_tan_h_2")
    x = build.input("x", (2,))
    names = [build.add(TanH(), x).name, build.add(TanH(), x).name, build.add(TanH(), x, hint="gate").name]
    assert names == ["__lstm1_tan_h", "__lstm1_tan_h_3", "__lstm1_gate"], "a blob of the user keeps its name"
    assert all(node.origin is ORIGIN for node in build.nodes)


def test_body_draws_from_the_same_names() -> None:
    build = builder()
    body = build.body()
    outer, inner = build.input("x", (2,)), body.body_input("step", (2,))
    names = [build.add(TanH(), outer).name, body.add(TanH(), inner).name]
    assert names == ["__lstm1_tan_h", "__lstm1_tan_h_2"]
    assert inner.name == "__lstm1_step"
    assert body.nodes[0].origin is ORIGIN


def test_shape_error_gets_the_origin_of_the_layer() -> None:
    build = builder()
    x, y = build.input("x", (2, 3)), build.input("y", (4, 5))
    with pytest.raises(ShapeError) as refusal:
        build.add(Concat(0), x, y)
    assert str(refusal.value).startswith('net.prototxt:7: layer "lstm1" (LSTM): ')


def test_input_that_must_be_constant_is_our_mistake() -> None:
    build = builder()
    x = build.input("x", (1, 2))
    with pytest.raises(AssertionError, match=r"^input 1 of Affine\(\) must be constant$"):
        build.add(Affine(), x, x, x)


def test_reshape_to_the_same_shape_adds_nothing() -> None:
    build = builder()
    x = build.input("x", (2, 3))
    assert build.reshape(x, (2, 3)) is x
    assert build.aligned(x, 2) is x
    assert build.scaled(x, 1) is x
    assert build.shifted(x, 0) is x
    assert build.nodes == []


def test_reshape_of_a_constant_is_done_at_once() -> None:
    build = builder()
    constant = build.constant(np.arange(6, dtype=np.float32))
    assert build.reshape(constant, (2, 3)).shape == (2, 3)
    assert build.nodes == []
    data = build.reshape(constant, (2, 3)).data
    assert data is not None
    assert np.shares_memory(data, constant.data), "a view, not a copy"


def test_symbol_is_carried_through_a_reshape() -> None:
    build = builder()
    batch = OpenSize.symbol("N", Range(1, 2, 4))
    x = build.input("x", (batch, 6))
    assert build.reshape(x, (batch, 2, 3)).shape == ("N", 2, 3)
    assert build.nodes[0].op.shape((batch, 6)) == [("N", 2, 3)]


@pytest.mark.parametrize(
    ("axis", "shape"), [(None, (1, 1, 2, 3)), (0, (2, 3, 1, 1)), (1, (1, 2, 3, 1))], ids=["last", "0", "1"]
)
def test_aligned_puts_ones_around(axis: int | None, shape: tuple[int, ...]) -> None:
    build = builder()
    assert build.aligned(build.input("x", (2, 3)), 4, axis).shape == shape


def test_product_takes_weights_as_caffe_stores_them() -> None:
    build = builder()
    x, weights = build.input("x", (5, 2, 3)), build.constant(np.ones((4, 3), np.float32))
    assert build.product(x, weights).shape == (5, 2, 4)
    assert build.nodes[0].op == MatMul(transpose_b=True)
    turned = build.constant(np.ones((3, 4), np.float32))
    assert build.product(x, turned, transpose=True).shape == (5, 2, 4)


def test_name_of_the_user_goes_to_the_node_that_computes_it() -> None:
    build = builder()
    x = build.input("x", (2,))
    named = build.named(build.add(TanH(), build.add(Sigmoid(), x)), "top", "layer", since=0)
    assert [(node.name, node.outputs[0].name) for node in build.nodes] == [
        ("__lstm1_sigmoid", "__lstm1_sigmoid"),
        ("layer", "top"),
    ]
    assert build.nodes[1].outputs == (named,)


def test_bottom_that_becomes_a_top_is_copied() -> None:
    build = builder()
    x = build.input("x", (2,))
    named = build.named(x, "top", "layer", since=0)
    (copy,) = build.nodes
    assert copy.op == Identity()
    assert copy.inputs == (x,)
    assert copy.outputs == (named,)


def test_state_is_an_output_behind_the_others() -> None:
    build = builder("h")
    before = build.state_input("h", (2,))
    after = build.add(TanH(), before)
    reader = build.add(ADD, after, after)
    build.state("h_T", before, after)
    graph = build.graph("net", [reader])
    graph.verify()
    assert before.name == "h_2", "a blob of the user keeps its name"
    assert [value.name for value in graph.outputs] == [reader.name, "h_T"]
    assert [(pair.input.name, pair.output.name) for pair in graph.recurrences] == [("h_2", "h_T")]
    assert graph.nodes[1].inputs == (graph.outputs[1],) * 2, "readers of the state read it under its name"


def test_warnings_name_the_layer() -> None:
    build = builder()
    build.warn("is odd")
    assert build.warnings == ['net.prototxt:7: layer "lstm1" (LSTM): is odd']


def test_scalar_broadcasts_against_its_rank() -> None:
    build = builder()
    scalar = build.scalar(2, 3, DType.FLOAT16)
    assert scalar.shape == (1, 1, 1)
    assert scalar.dtype is DType.FLOAT16
    assert build.add(Tile(0, 2), build.input("x", (2, 3))).shape == (4, 3)
    assert build.nodes[-1].op == Tile(0, 2)


def test_constant_keeps_its_array() -> None:
    array = np.ones((2, 2), np.float32)
    constant = builder().constant(array, "kernel")
    assert isinstance(constant, Value)
    assert constant.data is array
    assert constant.name == "__lstm1_kernel"

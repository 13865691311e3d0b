"""The graph itself: what it refuses, how it reads as text, what it computes."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import ConversionError, Origin, ShapeError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.surgery.ir import (
    DType,
    Graph,
    Node,
    Op,
    OpenSize,
    Range,
    Recurrence,
    Value,
    bodies,
    describe,
    element_count,
    fixed,
    walk,
)
from prototrt.surgery.ops import ADD, LeakyReLU, Scan, Sigmoid, TanH

ORIGIN = Origin("net.prototxt", 3, "a", "TanH")


def value(name: str, data: float | None = None) -> Value:
    return Value(name, DType.FLOAT32, (2,), None if data is None else np.full(2, data, np.float32))


def node(op: Op, inputs: list[Value], output: Value) -> Node:
    return Node(output.name, op, tuple(inputs), (output,), ORIGIN)


X, Y, Z = value("x"), value("y"), value("z")
TWICE = Graph("twice", (X,), (Z,), (node(TanH(), [X], Y), node(ADD, [Y, Y], Z)))


def test_sound_graph_is_verified() -> None:
    TWICE.verify()


@pytest.mark.parametrize(
    ("nodes", "outputs", "message"),
    [
        pytest.param([node(TanH(), [Y], Z)], [Z], "z reads y before it is written", id="unwritten"),
        pytest.param(
            [node(TanH(), [Y], Z), node(TanH(), [X], Y)], [Z], "z reads y before it is written", id="order"
        ),
        pytest.param(
            [node(TanH(), [X], Y), node(TanH(), [X], Y)], [Y], "y has two writers", id="two writers"
        ),
        pytest.param([node(TanH(), [X], X)], [X], "x has two writers", id="input written"),
        pytest.param(
            [node(TanH(), [X], Y), node(TanH(), [X], value("y"))],
            [Y],
            "two values are called y",
            id="two of a name",
        ),
        pytest.param([node(TanH(), [X], Y)], [Z], "output z is never written", id="output"),
    ],
)
def test_broken_graph_is_refused(nodes: list[Node], outputs: list[Value], message: str) -> None:
    with pytest.raises(AssertionError, match=f"^{message}$"):
        Graph("broken", (X,), tuple(outputs), tuple(nodes)).verify()


def test_state_that_nobody_writes_is_refused() -> None:
    graph = Graph("broken", (X,), (), (), (Recurrence(X, Y),))
    with pytest.raises(AssertionError, match=r"^output y is never written$"):
        graph.verify()


def test_constant_is_read_and_returned_without_a_writer() -> None:
    half = value("half", 0.5)
    graph = Graph("sum", (X,), (Y, half), (node(ADD, [X, half], Y),))
    graph.verify()
    results = graph.evaluate(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(results, [[1.5, 2.5], [0.5, 0.5]])


def test_text_shows_bodies_constants_and_state() -> None:
    state, now, sequence, rows, last = (
        value("h"),
        value("x_t"),
        Value("xs", DType.FLOAT32, (OpenSize.symbol("T", Range(1, 4, 8)), 2)),
        Z,
        Y,
    )
    inner = value("h_t")
    body = Graph("", (state, now), (inner,), (node(ADD, [state, now], inner),))
    scan = Node("scan", Scan(body, 1, 1), (X, sequence), (last,), ORIGIN)
    graph = Graph(
        "sums",
        (X, sequence),
        (rows, last),
        (scan, node(ADD, [last, value("one", 1)], rows)),
        (Recurrence(X, last),),
        {"T": Range(1, 4, 8)},
    )
    assert graph.text() == (
        "graph sums(x: float32[2], xs: float32[T, 2])\n"
        "  y: float32[2] = Scan[states=1, sequences=1, reverse=False](x, xs)\n"
        "    graph (no name)(h: float32[2], x_t: float32[2])\n"
        "      h_t: float32[2] = Binary[kind=ADD](h, x_t)\n"
        "      return h_t\n"
        "  z: float32[2] = Binary[kind=ADD](y, const one: float32[2])\n"
        "  return z, y\n"
        "  recurrence y -> x\n"
    )
    assert bodies(scan.op) == [body]
    assert [each.name for each in walk(graph)] == ["scan", "h_t", "z"]


def test_values_are_told_apart_by_identity() -> None:
    assert value("x") != value("x")


def test_node_that_reads_nothing_replaced_stays_itself() -> None:
    reader = node(TanH(), [X], Y)
    assert reader.with_replacements({Z: Y}) is reader
    assert reader.with_replacements({X: Z}).inputs == (Z,)
    assert reader.with_replacements({X: Z}).origin is ORIGIN


def test_replaced_values_are_replaced_in_outputs_and_state() -> None:
    graph = Graph("g", (X,), (Y,), (node(TanH(), [X], Y),), (Recurrence(X, Y),))
    other = graph.with_nodes([node(Sigmoid(), [X], Z)], {Y: Z})
    assert other.outputs == (Z,)
    assert other.state_outputs == (Z,)
    assert other.state_inputs == (X,)


def test_node_made_by_surgery_gives_its_name_beyond_the_layer_as_a_hint() -> None:
    of_user = node(TanH(), [X], value("__a_tanh"))
    assert of_user.hint == "__a_tanh"
    assert replace(of_user, is_surgical=True).hint == "tanh"


def test_op_is_described_with_its_attributes() -> None:
    assert describe(LeakyReLU(0.25)) == "LeakyReLU[slope=0.25]"
    assert describe(TanH()) == "TanH"


def test_unknown_size_is_refused_by_its_name() -> None:
    assert fixed(3, "a size") == 3
    assert element_count((2, 3, 4)) == 24
    assert element_count(()) == 1
    with pytest.raises(ShapeError) as refusal:
        element_count((2, OpenSize.symbol("N", Range(1, 2, 4))), "a size of the weights")
    assert str(refusal.value) == (
        "a size of the weights is the symbol N, but its size must be known here\n"
        "  fix: give N one size in min_shapes and max_shapes"
    )


def test_types_that_numpy_lacks_need_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DType.BFLOAT16.__dict__, "numpy", raising=False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ConversionError) as caught:
        _ = DType.BFLOAT16.numpy
    assert str(caught.value) == f"computing in bfloat16 needs ml_dtypes\n  fix: {pip_install('bf16')}"
    assert DType.INT8.numpy == np.int8

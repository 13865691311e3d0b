"""Formulas: which nodes they add, and how these are named."""

from __future__ import annotations

import pickle
from weakref import ref

import numpy as np

import prototrt
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import centre
from prototrt.surgery.ir import Value
from prototrt.surgery.ops import MULTIPLY, TanH


def names(build: Builder) -> list[str]:
    return [node.name for node in build.nodes]


def test_a_hint_names_the_node_as_if_it_had_been_stated_at_first() -> None:
    stated, formula = Builder(["__share_2"]), Builder(["__share_2"])
    x, y = stated.input("x", (2,)), formula.input("x", (2,))
    for hint in (None, "share", None, "share", "binary", None):
        stated.add(MULTIPLY, x, x, hint=hint)
        _ = (y * y).named(hint) if hint else y * y
    assert names(formula) == names(stated)
    assert names(formula)[1:4] == ["__share", "__binary_2", "__share_3"], "numbers are not used up"


def test_a_hint_names_nothing_where_a_step_needs_no_node() -> None:
    build = Builder()
    product = build.input("x", (2, 3)) * 2
    for same in (product.reshape(2, 3), product.scaled(1), product.shifted(0), product.slice(1, 0, 3)):
        assert same.named("other") is product
    assert names(build) == ["__binary"]


def test_a_value_that_was_read_keeps_its_name() -> None:
    build = Builder()
    product = build.input("x", (2,)) * 2
    _ = product.tanh()
    assert product.named("late") is product
    assert names(build) == ["__binary", "__tan_h"]


def test_a_node_is_added_to_the_innermost_body_of_its_operands() -> None:
    build = Builder()
    outer, body = build.input("outer", (2,)), build.body()
    inner = body.body_input("inner", (2,))
    results = [outer * inner, inner - outer, 1 - body.from_outside(outer)]
    assert names(body) == ["__binary", "__binary_2", "__binary_3"]
    assert names(build) == []
    assert [result.build for result in results] == [body] * 3


def test_weights_of_a_finished_graph_join_a_formula_of_another_builder() -> None:
    """A pass compares a cell, built anew, with one that holds the same weights."""
    weights, build = Builder().constant(np.ones(2, np.float32)), Builder()
    _ = build.input("x", (2,)) + weights
    assert names(build) == ["__binary"]


def test_a_graph_does_not_keep_its_builder() -> None:
    build = Builder()
    graph = build.graph("", [build.input("x", (2,)) * 2])
    builder = ref(build)
    del build
    assert builder() is None
    assert type(pickle.loads(pickle.dumps(graph)).outputs[0]) is Value


def test_formulas_compute_what_they_say() -> None:
    build = Builder()
    x, y = build.input("x", (2, 3)), build.input("y", (2, 3))
    results = [
        2 - x,
        1 / (x + 3),
        y * x,
        y + x,
        y - x,
        -abs(x),
        (x + 3).log().sqrt(),
        (x + 3) ** 0.5,
        x.mean(1),
        x.apply(TanH()),
        *centre(x, (1,)),
    ]
    graph = build.graph("formulas", results)
    a, b = np.array([[-2, 0, 1], [4, 5, 9]], np.float32), np.array([[3, 1, 2], [0, 7, -1]], np.float32)
    expected = [
        2 - a,
        1 / (a + 3),
        b * a,
        b + a,
        b - a,
        -abs(a),
        np.sqrt(np.log(a + 3)),
        np.sqrt(a + 3),
        a.mean(1, keepdims=True),
        np.tanh(a),
        a - a.mean(1, keepdims=True),
        a.var(1, keepdims=True),
        a.mean(1, keepdims=True),
    ]
    for found, wanted in zip(prototrt.Session(graph).run({"x": a, "y": b}).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)

"""Pictures: the same text for the same graph, with every name quoted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Op
from prototrt.surgery.ops import (
    ADD,
    MULTIPLY,
    Axis,
    Cast,
    LeakyReLU,
    MatMul,
    MaxPool,
    Reduce,
    ReduceKind,
    Reshape,
    Scan,
    Slice,
    Transpose,
    Unary,
    UnaryKind,
)
from prototrt.surgery.views.dot import dot_from_graph, words_of
from prototrt.surgery.views.inspection import multiply_adds

LAYER = Origin("net.prototxt", 7, "rnn", "RNN")


def accumulating() -> Graph:
    """``h[t] = h[t-1] + W x[t]`` over 5 steps of 2 streams, carried from call to call."""
    build = Builder({"x", "rnn"})
    x = build.input("x", (5, 2, 3))
    before = build.input("rnn_h_0", (2, 4))
    build.origin = LAYER
    inner = build.body()
    state = inner.body_input("state", (2, 4))
    step = inner.body_input("step", (2, 3))
    product = inner.add(MatMul(transpose_b=True), step, build.constant(np.ones((4, 3), np.float32), "w"))
    new = inner.add(ADD, state, product)
    last, _ = build.add_all(Scan(inner.graph("body", [new, new]), 1, 1), before, x, hint="scan")
    top = build.named(build.add(LeakyReLU(), last), "rnn", "rnn", 0)
    build.state("rnn_h_T", before, last)
    return build.graph("net", [top])


def test_a_graph_with_a_scan(check_text: Callable[[Path, str], None]) -> None:
    golden = Path(__file__).parents[1] / "goldens" / "dot" / "scan.dot"
    check_text(golden, dot_from_graph(accumulating()))


def test_names_are_quoted_and_drawn_once() -> None:
    build = Builder()
    x = build.input('a "b"\\n', (1,))
    build.origin = Origin("net.prototxt", 1, 'input a "b"\\n', "ReLU")
    y = build.named(build.add(LeakyReLU(), x), "y", 'input a "b"\\n', 0)
    text = dot_from_graph(build.graph('"', [y]))
    assert text.startswith('digraph "\\"" {\n')
    assert r'"input a \"b\"\\n" [label="a \"b\"\\n",' in text
    assert r'"input a \"b\"\\n (2)" [label="input a \"b\"\\n\nReLU",' in text
    assert r'"input a \"b\"\\n" -> "input a \"b\"\\n (2)" [label="1"];' in text


def test_numbers_have_the_digits_of_float32() -> None:
    build = Builder()
    build.origin = LAYER
    y = build.add(LeakyReLU(slope=float(np.float32(0.1))), build.input("x", (2,)))
    assert r'\nLeakyReLU, slope 0.1"' in dot_from_graph(build.graph("net", [y]))


def test_scalars_show_their_number() -> None:
    build = Builder()
    x = build.input("x", (2, 2))
    y = build.add(ADD, x, build.scalar(0.5, 2))
    assert 'label="0.5", shape="plaintext"' in dot_from_graph(build.graph("net", [y]))


def test_the_body_of_a_scan_counts_once_a_step() -> None:
    assert multiply_adds(accumulating()) == {LAYER: 5 * (2 * 4 * 3)}


@pytest.mark.parametrize(
    ("op", "shapes", "words"),
    [
        (MULTIPLY, [(2, 3), (2, 3)], "Multiply"),
        (Unary(UnaryKind.SQRT), [(2,)], "Sqrt"),
        (LeakyReLU(), [(2,)], "ReLU"),
        (Reshape((Axis(0), 6)), [(4, 2, 3)], "Reshape to 4x6"),
        (Reduce(ReduceKind.MEAN, (0, 2)), [(2, 3, 4)], "Mean over axes 0, 2"),
        (Reduce(ReduceKind.MAX, (1,)), [(2, 3)], "Max over axis 1"),
        (Cast(DType.FLOAT16), [(2,)], "Cast to float16"),
        (Slice(1, 2, 3), [(4, 6)], "Slice 2 to 5 of axis 1"),
        (Transpose((0, 2, 1)), [(2, 3, 4)], "Transpose, order (0, 2, 1)"),
        (
            MaxPool((3, 2), (2, 2), (0, 0), (1, 1)),
            [(1, 1, 8, 8)],
            "MaxPool, window 3x2, stride 2x2, after (1, 1)",
        ),
        (MatMul(transpose_b=True), [(2, 3), (4, 3)], "MatMul"),
    ],
)
def test_boxes_speak_the_words_of_the_field(op: Op, shapes: list[tuple[int, ...]], words: str) -> None:
    build = Builder()
    build.origin = LAYER
    inputs = [build.input(f"x{place}", shape) for place, shape in enumerate(shapes)]
    build.add(op, *inputs)
    assert ", ".join(words_of(build.nodes[-1])) == words

"""Pictures: the same text for the same graph, with every name quoted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import ADD, LeakyReLU, MatMul, Scan
from prototrt.surgery.views.dot import dot_from_graph
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
    assert r'"input a \"b\"\\n (2)" [label="input a \"b\"\\n\nLeakyReLU[slope=0.0]",' in text
    assert r'"input a \"b\"\\n" -> "input a \"b\"\\n (2)" [label="1"];' in text


def test_numbers_have_the_digits_of_float32() -> None:
    build = Builder()
    build.origin = LAYER
    y = build.add(LeakyReLU(slope=float(np.float32(0.1))), build.input("x", (2,)))
    assert r'\nLeakyReLU[slope=0.1]"' in dot_from_graph(build.graph("net", [y]))


def test_scalars_show_their_number() -> None:
    build = Builder()
    x = build.input("x", (2, 2))
    y = build.add(ADD, x, build.scalar(0.5, 2))
    assert 'label="0.5", shape="plaintext"' in dot_from_graph(build.graph("net", [y]))


def test_the_body_of_a_scan_counts_once_a_step() -> None:
    assert multiply_adds(accumulating()) == {LAYER: 5 * (2 * 4 * 3)}

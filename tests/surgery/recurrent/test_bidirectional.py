"""Two opposite layers become a pair over one product, and give what they gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ops import Reverse, Scan
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, numbers, stored

INPUTS = inputs_of({"x": (4, 2, 3, 2), "cont": (4, 2)})
NET = (
    INPUTS
    + """layer { name: "rx" type: "Reverse" bottom: "x" top: "rx" reverse_param { axis: 0 } }
layer { name: "rcont" type: "Reverse" bottom: "cont" top: "rcont" reverse_param { axis: 0 } }
layer { name: "b" type: "LSTM" bottom: "rx" bottom: "rcont" top: "b" recurrent_param { num_output: 5 } }
layer { name: "rb" type: "Reverse" bottom: "b" top: "rb" reverse_param { axis: 0 } }
layer { name: "f" type: "LSTM" bottom: "x" bottom: "cont" top: "f" recurrent_param { num_output: 5 } }
layer { name: "both" type: "JOIN" bottom: "f" bottom: "rb" top: "both" }
"""
)
JOINS = {
    "Concat": NET.replace('"JOIN"', '"Concat"').replace(
        'top: "both"', 'top: "both" concat_param { axis: 2 }'
    ),
    "Eltwise": NET.replace('"JOIN"', '"Eltwise"'),
}


@pytest.mark.parametrize("on", [*WAYS, "onnx-lstm"])
@pytest.mark.parametrize("join", JOINS)
def test_opposite_layers(join: str, on: Way, tmp_path: Path) -> None:
    model = loaded(tmp_path, JOINS[join], random_weights=3)
    plain, graph = expand(model).graph, prototrt.rewrite(model)
    scans = [node.op for node in graph.nodes if isinstance(node.op, Scan)]
    assert sorted(scan.reverse for scan in scans) == [False, True]
    assert not any(isinstance(node.op, Reverse) for node in graph.nodes)
    assert sum("shared_product" in node.name for node in graph.nodes) == 1
    random = np.random.default_rng(4)
    feeds = {
        "x": random.standard_normal((4, 2, 3, 2)).astype(np.float32),
        "cont": np.array([[0, 1], [1, 1], [1, 0], [1, 1]], np.float32),
    }
    left, right = prototrt.Session(plain), prototrt.Session(graph, on=on)
    for _ in range(2):  # the second call begins with the state of the first
        np.testing.assert_allclose(right.run(feeds)["both"], left.run(feeds)["both"], 1e-5, 1e-6)


@pytest.mark.parametrize("join", ["CONCAT", "SUM"])
def test_the_field_says_the_same(join: str, tmp_path: Path) -> None:
    """``bidirectional`` equals two layers with the same blobs; cont is 1, so that no sequence begins inside."""
    random = np.random.default_rng(6)
    blobs = [random.standard_normal(shape).astype(np.float32) for shape in ((20, 6), (20,), (20, 5)) * 2]
    feeds = {
        "x": random.standard_normal((4, 2, 3, 2)).astype(np.float32),
        "cont": np.ones((4, 2), np.float32),
    }
    one = (
        'layer { name: "both" type: "LSTM" bottom: "x" bottom: "cont" top: "both"'
        f" recurrent_param {{ num_output: 5 bidirectional: {join} }} }}"
    )
    texts = {
        "one": INPUTS + one,
        "two": JOINS["Concat" if join == "CONCAT" else "Eltwise"],
    }
    results = []
    for name, text in texts.items():
        weights = stored("both", blobs) if name == "one" else stored("f", blobs[:3]) | stored("b", blobs[3:])
        model = loaded(tmp_path, text, weights)
        results.append(prototrt.Session(prototrt.rewrite(model)).run(feeds)["both"])
    np.testing.assert_allclose(results[0], results[1], 1e-5, 1e-6)


def test_a_sequence_read_backwards_begins_where_the_next_one_does(tmp_path: Path) -> None:
    """Two sequences one after the other in one stream give what each gives alone."""
    layer = (
        'layer { name: "y" type: "LSTM" bottom: "x" bottom: "cont" top: "y"'
        " recurrent_param { num_output: 3 bidirectional: CONCAT } }"
    )
    text = inputs_of({"x": (4, 1, 2), "cont": (4, 1)}) + layer
    model = loaded(tmp_path, text, random_weights=1)
    x = numbers(4, 1, 2)
    cont = np.array([[0], [1], [0], [1]], np.float32)
    whole = prototrt.Session(prototrt.rewrite(model)).run({"x": x, "cont": cont})["y"]
    shapes = {"x": (2, 1, 2), "cont": (2, 1)}
    for start in (0, 2):
        alone = prototrt.Session(prototrt.rewrite(model, shapes=shapes))
        part = alone.run({"x": x[start : start + 2], "cont": cont[:2]})["y"]
        np.testing.assert_allclose(whole[start : start + 2], part, 1e-5, 1e-6)

"""What surgery made is told from the user's layers by a stored fact: their names may begin with ``__``, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.converter.checking.verification.seeded import seeded_feeds
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.options import CompareOptions
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.views.dot import drawing_of_graph
from prototrt.surgery.views.drawing import SURGICAL, USER, DrawnFrame, DrawnNode

LAYERS = ["__fc", "__lstm1_gate_i", "lstm1", "last"]
NET = """
name: "underscores"
layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "marks" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer { name: "__fc" type: "InnerProduct" bottom: "x" top: "__fc" inner_product_param { num_output: 4 axis: 2 } }
layer { name: "__lstm1_gate_i" type: "TanH" bottom: "__fc" top: "t" }
layer { name: "lstm1" type: "LSTM" bottom: "t" bottom: "cont" top: "__h" recurrent_param { num_output: 5 } }
layer { name: "last" type: "Sigmoid" bottom: "__h" top: "__lstm1_gate_f" }
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return path


def rewritten(net: Path, **options: Any) -> Graph:
    return prototrt.rewrite(prototrt.load(net, random_weights=1), **options)


@pytest.mark.parametrize("options", [{}, {"sequence": "unroll"}, {"precision": "fp16"}], ids=str)
def test_layers_of_the_user_are_the_user_s(net: Path, options: dict[str, str]) -> None:
    nodes = list(walk(rewritten(net, **options)))
    assert [node.name for node in nodes if not node.is_surgical] == LAYERS
    names = [node.name for node in nodes]
    assert len(set(names)) == len(names), "a node of surgery's took the name of a layer"


def test_blobs_of_the_user_are_compared(net: Path) -> None:
    graph = rewritten(net)
    feeds = seeded_feeds(graph, 1)
    compared = [
        each.blob for each in verify(graph, feeds, CompareOptions(ways=["network"], layers=True)).comparisons
    ]
    assert compared[:4] == ["__fc", "t", "__h", "__lstm1_gate_f"]
    states = [value.name for value in graph.state_outputs]
    assert compared[4:] == states, "what surgery made is left out"


def test_layers_of_the_user_are_drawn_as_the_user_s(net: Path) -> None:
    items = drawing_of_graph(rewritten(net)).items
    drawn = {item.lines[0]: item.kind for item in items if isinstance(item, DrawnNode)}
    frames = {item.lines[0]: item.is_dashed for item in items if isinstance(item, DrawnFrame)}
    assert [drawn["__fc"], drawn["__lstm1_gate_i"], drawn["last"]] == [USER] * 3
    assert frames == {"lstm1": False}
    assert SURGICAL in drawn.values()

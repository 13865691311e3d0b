"""Recurrent layers that are modules of torch.nn, and those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form
from prototrt.caffe_proto.common.errors import ConversionWarning
from prototrt.surgery.ir import Graph
from prototrt.tests.small_nets import numbers

INPUTS = """
name: "net"
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: {steps} dim: 2 dim: 3 }} }} }}
layer {{ name: "cont" type: "Input" top: "cont" input_param {{ shape {{ dim: {steps} dim: 2 }} }} }}
"""
LAYER = """
layer {{ name: "{name}" type: "{type}" bottom: "{x}" bottom: "cont" top: "{name}"
  recurrent_param {{ num_output: 4 {options} }} {more} }}
"""
SHARED = 'param { name: "a" } param { name: "b" } param { name: "c" }'


def layer(name: str, kind: str = "LSTM", x: str = "x", options: str = "", more: str = "") -> str:
    return LAYER.format(name=name, type=kind, x=x, options=options, more=more)


NETS = {
    "lstm": (layer("a"), ["nn.LSTM(3, 4)"]),
    "gru": (layer("a", "GRU", options="linear_before_reset: true"), ["nn.GRU(3, 4)"]),
    "gru_before": (layer("a", "GRU"), []),
    "rnn": (layer("a", "VanillaRNN"), ["nn.RNN(3, 4)"]),
    "reverse": (layer("a", options="reverse: true"), ["nn.LSTM(3, 4)"]),
    "both": (layer("a", options="bidirectional: CONCAT"), ["nn.LSTM(3, 4)", "nn.LSTM(3, 4)"]),
    "two": (layer("a") + layer("b", x="a"), ["nn.LSTM(3, 4)", "nn.LSTM(4, 4)"]),
    "shared": (layer("a", more=SHARED) + layer("b", more=SHARED), ["nn.LSTM(3, 4)", "nn.LSTM(3, 4)"]),
}


def graph_of(body: str, folder: Path, *, steps: int = 5, drop: bool = True, sequence: Form = "auto") -> Graph:
    path = folder / "net.prototxt"
    path.write_text(INPUTS.format(steps=steps) + body)
    return prototrt.rewrite(
        prototrt.load(path, random_weights=1), cont="drop" if drop else "keep", sequence=sequence
    )


def text_of(graph: Graph, folder: Path) -> str:
    prototrt.export_torch(graph, folder / "net.py")
    return (folder / "net.py").read_text()


def modules_in(text: str) -> list[str]:
    return [line.split(" = ")[1].split("  #")[0] for line in text.split("\n") if " = nn." in line]


STARTS = "".join(
    f'layer {{ name: "{name}" type: "DummyData" top: "{name}" dummy_data_param {{ shape {{ dim: {steps} dim: 2 }}'
    f" data_filler {{ value: {value} }} }} }}\n"
    for name, steps, value in (("c0", 1, 0), ("c1", 2, 1), ("c2", 1, 0), ("c3", 1, 1))
)
STARTS += (
    'layer { name: "cont" type: "Concat" bottom: "c0" bottom: "c1" bottom: "c2" bottom: "c3" top: "cont"'
)
STARTS += " concat_param { axis: 0 } }\n"


def test_sequences_that_the_net_states_share_one_module(tmp_path: Path) -> None:
    """They begin at the first and at the fourth step."""
    body = layer("a")
    inputs = INPUTS.format(steps=5).split("\n")
    path = tmp_path / "net.prototxt"
    path.write_text("\n".join(line for line in inputs if '"cont"' not in line) + STARTS + body)
    graph = prototrt.rewrite(prototrt.load(path, random_weights=1))
    text = text_of(graph, tmp_path)
    assert (text.count("nn.LSTM("), text.count("self.a(")) == (1, 2)
    session_of: Any = pytest.importorskip(
        "prototrt.tests.converter.backends.torch.torch_session"
    ).TorchSession
    feeds = {"x": numbers(5, 2, 3)}
    expected = prototrt.Session(graph, on="reference").run(feeds)["a"]
    np.testing.assert_allclose(session_of(graph).run(feeds)["a"], expected, 1e-5, 1e-6)


@pytest.mark.parametrize("name", NETS)
def test_modules(name: str, tmp_path: Path) -> None:
    body, modules = NETS[name]
    text = text_of(graph_of(body, tmp_path), tmp_path)
    assert [each for each in modules_in(text) if "Parameter" not in each] == modules


@pytest.mark.parametrize("name", NETS)
def test_modules_compute_what_the_graph_computes(name: str, tmp_path: Path) -> None:
    """Two calls: the states of the first go into the second."""
    session_of: Any = pytest.importorskip(
        "prototrt.tests.converter.backends.torch.torch_session"
    ).TorchSession
    graph = graph_of(NETS[name][0], tmp_path)
    written, reference = session_of(graph), prototrt.Session(graph, on="reference")
    for seed in (1, 2):
        feeds = {"x": numbers(5, 2, 3) * seed}
        results, expected = written.run(feeds), reference.run(feeds)
        for output in graph.outputs[: -len(graph.recurrences)]:
            np.testing.assert_allclose(results[output.name], expected[output.name], 1e-5, 1e-6)


def test_weights_that_layers_share_are_one_parameter(tmp_path: Path) -> None:
    text = text_of(graph_of(NETS["shared"][0], tmp_path), tmp_path)
    ties = [f"self.b.{name} = self.a.{name}" for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0")]
    assert [tie for tie in ties if tie not in text] == []


def test_cont_of_a_loop_stays_an_equation(tmp_path: Path) -> None:
    """A module of PyTorch cannot reset a stream between two steps, but before the only one."""
    body = layer("a")
    assert "nn.LSTM" not in text_of(graph_of(body, tmp_path, drop=False), tmp_path)
    assert "nn.LSTM(3, 4)" in text_of(
        graph_of(body, tmp_path, steps=1, drop=False, sequence="loop"), tmp_path
    )


@pytest.mark.parametrize("sequence", ["auto", "step"])
def test_one_step_is_a_module_unless_primitives_are_asked_for(sequence: Form, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(INPUTS.format(steps=1) + layer("a"))
    prototrt.convert(path, None, tmp_path / "net.py", random_weights=1, sequence=sequence)
    assert ("nn.LSTM(3, 4)" in (tmp_path / "net.py").read_text()) == (sequence == "auto")


def test_no_warning_says_that_a_layer_stays(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    text_of(graph_of(layer("a", "GRU"), tmp_path, drop=False), tmp_path)
    assert [str(each.message) for each in recwarn if each.category is ConversionWarning] == []

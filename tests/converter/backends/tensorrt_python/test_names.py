"""Programs of nets whose names are hostile: each name of the file means one thing, and the network is ours."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.converter.backends.tensorrt_python import frame, source
from prototrt.converter.backends.tensorrt_python.evaluator import ProgramNetwork
from prototrt.converter.backends.tensorrt_python.export import program_of
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.backends.tensorrt_python.programs import read
from prototrt.tests.odd_names import NAMES, quoted
from prototrt.tests.small_nets import loaded

pytestmark = pytest.mark.trt

FOUR = st.lists(NAMES, min_size=4, max_size=4, unique=True)


def graph_of(net: str, names: Sequence[str]) -> Graph:
    """Weights, a loop and its states, a layer with two outputs, and a name with a folder."""
    a, b, c, d = map(quoted, names)
    text = f"""name: {quoted(net)}
        layer {{ name: "in" type: "Input" top: "in" top: "cont"
            input_param {{ shape {{ dim: 2 dim: 1 dim: 3 }} shape {{ dim: 2 dim: 1 }} }} }}
        layer {{ name: {a} type: "InnerProduct" bottom: "in" top: {a}
            inner_product_param {{ num_output: 3 axis: 2 }} }}
        layer {{ name: {b} type: "LSTM" bottom: {a} bottom: "cont" top: {b} recurrent_param {{ num_output: 2 }} }}
        layer {{ name: {c} type: "Slice" bottom: {b} top: {c} top: "p/a" slice_param {{ axis: 2 }} }}
        layer {{ name: {d} type: "Eltwise" bottom: {c} bottom: "p/a" top: {d} }}"""
    with tempfile.TemporaryDirectory() as folder:
        return replace(prototrt.rewrite(loaded(Path(folder), text, random_weights=1)), sources=())


def make_ours(graph: Graph) -> None:
    """The program compiles, and makes the network that we make."""
    backend = find_backend()
    program, _ = program_of(graph, Path("build.py"))
    made, ours = ProgramNetwork(program, backend), network_of(graph, backend)
    assert read(backend.trt, made.definition) == read(backend.trt, ours.definition)


@pytest.mark.slow
@given(net=NAMES, names=FOUR)
def test_any_names(net: str, names: list[str]) -> None:
    make_ours(graph_of(net, names))


HOSTILE = [
    ["network", "weights", "note", "named"],
    ["trt", "np", "fill", "loop"],
    ["class", "None", "add_trt", "print"],
    ['a"""', "b\\", "c\n    d", "{e}"],
    ["a)b(", "'", "#", "Written by prototrt "],
    ["\u2028", "é", "\uff11", "x.y"],
]


@pytest.mark.parametrize("names", HOSTILE, ids=str)
def test_hostile_names(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one function, and in a function for each few layers."""
    graph = graph_of(names[0], names)
    make_ours(graph)
    monkeypatch.setattr(source, "_MOST_TOGETHER", 2)
    make_ours(graph)


def test_a_program_takes_no_name_of_its_own_frame() -> None:
    text, _ = program_of(graph_of("net", ["a", "b", "c", "d"]), Path("build.py"))
    defined = {line[4:].split("(")[0] for line in text.text.splitlines() if line.startswith("def ")}
    assert defined <= {*frame.NAMES} | {"add_b"}

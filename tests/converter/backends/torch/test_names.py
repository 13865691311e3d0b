"""Modules of nets whose names are hostile: each name of the file means one thing, and the module computes the net."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import prototrt
from prototrt.converter.backends.torch.names import PythonNames
from prototrt.converter.backends.torch.source import module_text
from prototrt.converter.backends.torch.statements import wrap
from prototrt.surgery.ir import Graph
from prototrt.surgery.pipeline import lowered
from prototrt.tests.odd_names import NAMES, quoted
from prototrt.tests.operations import growth
from prototrt.tests.small_nets import loaded, numbers

FOUR = st.lists(NAMES, min_size=4, max_size=4, unique=True)


def graph_of(net: str, names: Sequence[str]) -> Graph:
    """A layer of PyTorch, a class of the file, sums in parentheses, and a function of the file."""
    a, b, c, d = map(quoted, names)
    text = f"""name: {quoted(net)}
        layer {{ name: "in" type: "Input" top: "in" input_param {{ shape {{ dim: 2 dim: 3 }} }} }}
        layer {{ name: {a} type: "InnerProduct" bottom: "in" top: {a} inner_product_param {{ num_output: 3 }} }}
        layer {{ name: {b} type: "Scale" bottom: {a} top: {b} scale_param {{ bias_term: true }} }}
        layer {{ name: {c} type: "Eltwise" bottom: {a} bottom: {b} top: {c} eltwise_param {{ coeff: 2 coeff: -3 }} }}
        layer {{ name: {d} type: "MVN" bottom: {c} top: {d} }}
        layer {{ name: "p/a" type: "Power" bottom: {d} top: "p/a" power_param {{ power: 3 scale: 2 shift: 1 }} }}"""
    with tempfile.TemporaryDirectory() as folder:
        return replace(prototrt.rewrite(loaded(Path(folder), text, random_weights=1)), sources=())


def bound(tree: ast.Module) -> Iterator[str]:
    """What a file names at its top."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from map(ast.unparse, node.targets)


def variables(tree: ast.Module) -> set[str]:
    """What functions and methods name: their arguments and variables."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {
        node.id
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef)
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


@example("true", ["none", "import", "load", "device"])
@example("WEIGHTS", ["caffe caffe mvn", "caffe_mvn", "MVN", "scale"])
@example("scale", ["nn", "torch", "weight", "self"])
@example("MVN", ["x" * 75, "y-" * 40, "#" * 300, "input"])
@given(net=NAMES, names=FOUR)
def test_a_name_means_one_thing(net: str, names: Sequence[str]) -> None:
    tree = ast.parse(module_text(lowered(graph_of(net, names), "torch"), "net.safetensors").text)
    outside = [*bound(tree)]
    assert len(outside) == len({*outside})
    assert {*outside}.isdisjoint(variables(tree))


@example("true", ["x" * 99, "y" * 99, "z" * 99, "input" * 20])
@example("WEIGHTS", ["none", "caffe_mvn", "running", "running_"])
@example("scale", ["nn", "torch", "weight", "self"])
@given(net=NAMES, names=FOUR)
def test_the_module_computes_the_net(net: str, names: Sequence[str]) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch safetensors")
    from prototrt.tests.converter.backends.torch.torch_session import TorchSession

    graph, x = graph_of(net, names), {"in": numbers(2, 3)}
    expected = prototrt.Session(graph, on="reference").run(x)
    results = TorchSession(graph).run(x)
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, 1e-4, 1e-5)


@pytest.mark.parametrize("longest", [8, 20, 40])
@pytest.mark.parametrize(
    "line",
    [
        "aaaa = 2 * (bbbbbbbbbb + cccccccccc)",
        "aaaa = (bbbbbbbbbb + ccccccccccccccccc)",
        "aaaa = bb(cccccccccc, (dddddddddd + eeeeeeeeee), f=(1, 2))",
        "aaaa = (bbbbbbbbbb, cccccccccc)",
        "aaaa, bbbb = (cccc(dddddddddd), eeee[0](ffffffffff))",
    ],
)
def test_a_long_line_means_what_it_meant(line: str, longest: int) -> None:
    assert ast.dump(ast.parse("\n".join(wrap(line, longest)))) == ast.dump(ast.parse(line))


def test_many_layers_whose_names_are_punctuation() -> None:
    def layers(count: int) -> None:
        names = PythonNames()
        for _ in range(count):
            names.new("layer")

    assert growth(layers, 100, 800) < 1.5

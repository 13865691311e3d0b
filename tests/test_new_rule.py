"""``prototrt new-rule``: the whole way of a user, from a layer without a rule to a net that converts."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.model import one_layer
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.views.new_rule import new_rule
from prototrt.tests.command_line import done, run
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.odd_names import NAMES, quoted
from prototrt.tests.small_nets import failure, numbers

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "before" type: "TanH" bottom: "x" top: "class" }
layer {
  name: "my \\"layer\\"" type: "MyScale" bottom: "class" bottom: "x" top: "y"
  my_scale_param { factor: 2.5 import: FAST names: "a" names: "b" class { k: 3 } }
  blobs { shape { dim: 3 } data: 1 data: 2 data: 3 }
}
layer { name: "act" type: "ReLU" bottom: "y" top: "y" }
layer { name: "code" type: "Python" bottom: "y" top: "z" python_param { module: "m.n" layer: "Layer" } }
"""
NAME = 'my "layer"'
RULE = '''"""A rule for the layer "my \\"layer\\"" of type MyScale."""

from __future__ import annotations

from prototrt.surgery.rules import Layer, LayerBuilder, Value, layer_rule


@layer_rule("MyScale")
def my_scale(build: LayerBuilder, layer: Layer, x: Value, x_2: Value) -> list[Value]:
    """Say what the layer computes, and which source says so."""
    # x: bottom "class", shape (2, 3)
    # x_2: bottom "x", shape (2, 3)
    # tops: "y"
    my_scale_param = layer.fields["my_scale_param"]
    factor = my_scale_param["factor"]  # 2.5
    field = my_scale_param["import"]  # 'FAST'
    names = my_scale_param["names"]  # ['a', 'b']
    field_2 = my_scale_param["class"]  # {'k': 3}
    blob_0 = build.parameter(layer, (3,), "blob 0")
    raise NotImplementedError("compute the tops of my \\"layer\\"")
    return [x]
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    Path("rules").mkdir()


@pytest.mark.slow
def test_the_whole_way() -> None:
    told = done("new-rule", "net.prototxt", NAME, "-o", "rules/mine.py").stdout.splitlines()
    assert told[2:] == [
        "test     python -m pytest rules/test_mine.py",
        "next     prototrt convert net.prototxt WEIGHTS.caffemodel --rules rules/mine.py -o net.plan",
    ]
    file = Path("rules/mine.py")
    assert file.read_text() == RULE
    x, before = numbers(2, 3), np.tanh(numbers(2, 3))
    y = before * 2.5 + x * np.array([1, 2, 3], np.float32)
    arrays: dict[str, Any] = {"x": x, "y": y, "class": before}
    np.savez("rules/recorded.npz", **arrays)
    assert "NotImplementedError: compute the tops of my" in output_of_test()
    first, _, rest = RULE.partition("    raise ")
    body = "    x = x * factor + x_2 * blob_0.reshape(1, 3)\n"
    file.write_text(f"{first}{body}    {rest.partition(chr(10))[2].lstrip()}")
    assert "1 passed" in output_of_test()
    file.write_text(file.read_text().replace("* factor", "* 2"))
    assert "Mismatched elements" in output_of_test()
    file.write_text(file.read_text().replace("* 2 ", "* factor "))
    done("convert", "net.prototxt", "--rules", "rules/mine.py", "--output", "y", "-o", "net.onnx")
    assert Path("net.onnx").is_file()


def output_of_test() -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "rules/test_mine.py",
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path.cwd(), check=False).stdout


def test_a_layer_with_a_rule_gets_another() -> None:
    told = done("new-rule", "net.prototxt", "act", "-o", "mine.py").stdout
    assert "--replace act=mine.py:re_lu" in told
    text = Path("mine.py").read_text()
    assert "layer_rule" not in text
    assert '# y: bottom "y", shape unknown' in text
    assert '# tops: "y@act"' in text
    assert 'replace={"act": str(HERE / "mine.py") + ":re_lu"}' in Path("test_mine.py").read_text()


def test_code_in_python_has_its_class() -> None:
    result = done("new-rule", "net.prototxt", "code", "-o", "mine.py", "--json")
    assert json.loads(result.stdout)["function"] == "layer_2"
    assert '@python_rule("m.n.Layer")\ndef layer_2(' in Path("mine.py").read_text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["layer", "Build", "Expression", "blob_0", "a.py"])
@example(["\\'", "LayerRule", "my_rule", "NotImplementedError", 'it\'s \\ "mine".py'])
@example(["x", "MyRule", "list", "my_rule", "{x}.py"])
@given(st.lists(NAMES, min_size=5, max_size=5, unique=True))
def test_a_rule_for_a_layer_of_any_names(names: Sequence[str]) -> None:
    layer, kind, a, b, file = names
    Path("odd.prototxt").write_text(
        f"layer {{ name: {quoted(layer)} type: {quoted(kind)} bottom: {quoted(a)} bottom: {quoted(b)} top: 'out/put'"
        " blobs { shape { dim: 1 } data: 1 } }"
    )
    net = prototrt.load("odd.prototxt")
    rule = new_rule(net, net.layers[-1].name, RewriteOptions())
    tree, test = ast.parse(rule.rule_text()), ast.parse(rule.test_text(file, "."))
    imported = [each.name for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    parameters = [argument.arg for argument in function.args.args]
    variables = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)} - {*imported, "list"}
    assert parameters[:2] == ["build", "layer"]
    assert len({*parameters, *imported, rule.function}) == 4 + len(imported) + 1
    assert variables - {"NotImplementedError"} == {"build", "layer", parameters[2], "blob_0"}
    assert {rule.function, *parameters, *variables}.isdisjoint({*vars(builtins)} - {"NotImplementedError"})
    for decorator in function.decorator_list:
        assert isinstance(decorator, ast.Call)
        assert ast.literal_eval(decorator.args[0]) == net.layers[-1].type
    texts = {each.value for each in ast.walk(test) if isinstance(each, ast.Constant)}
    assert {net.layers[-1].name, file, *net.layers[-1].bottoms} <= texts


def test_blobs_of_the_weights() -> None:
    digits = ROOT / "samples" / "digits"
    model = prototrt.load(digits / "deploy.prototxt", digits / "digits.caffemodel")
    written = prototrt.new_rule(model, "conv1", "mine.py")
    assert written.rule.blobs == [(12, 1, 3, 3)]
    assert all(shape is not None for shape in written.rule.bottoms.values())
    assert "digits.caffemodel" in Path(written.test).read_text()


REFUSALS = {
    "no layer": (
        ["net.prototxt", "cat", "-o", "mine.py"],
        3,
        'the net has no layer "cat"\n  fix: name one of its layers: act',
    ),
    "an input": (
        ["net.prototxt", "x", "-o", "mine.py"],
        3,
        "an input has no rule\n  fix: name a layer that computes something",
    ),
    "a file of the user": (
        ["net.prototxt", "act", "-o", "old.py"],
        2,
        "old.py is there already\n  fix: name another file",
    ),
    "a test of the user": (["net.prototxt", "act", "-o", "new.py"], 2, "test_new.py is there already\n"),
    "another suffix": (["net.prototxt", "act", "-o", "mine.txt"], 2, ".py"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    for name in ("old.py", "test_new.py"):
        Path(name).write_text("mine")
    arguments, exit_code, message = REFUSALS[case]
    result = run("new-rule", *arguments)
    assert message in result.output
    assert result.exit_code == exit_code
    assert {Path(name).read_text() for name in ("old.py", "test_new.py")} == {"mine"}
    assert not Path("mine.py").exists()


def test_one_layer_alone_computes_what_it_does_in_the_net() -> None:
    net = one_layer(prototrt.load("net.prototxt"), "before")
    x = numbers(4, 5)
    graph = prototrt.rewrite(net, shapes={"x": (4, 5)})
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["class"], np.tanh(x), rtol=1e-5)
    assert "no layer" in failure(lambda: one_layer(net, "act"), ConversionError)


def test_texts_of_a_list_stay_apart() -> None:
    fields = 'own_param { names: ["a", "b" "c", "d"] sizes: [1, -2], more { x: "e", y: "f"; } }'
    Path("net.prototxt").write_text(
        f'input: "x" layer {{ name: "own" type: "Own" bottom: "x" top: "y" {fields} }}'
    )
    assert prototrt.load("net.prototxt").layers[-1].fields == {
        "own_param": {"names": ["a", "bc", "d"], "sizes": [1, -2], "more": {"x": "e", "y": "f"}}
    }

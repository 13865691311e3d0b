"""Rules of users: what they read of a layer, whose place they take, and what is said when they fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, NetError, UnreadableFileError
from prototrt.caffe_proto.text.findings import written_value
from prototrt.tests.command_line import run
from prototrt.tests.small_nets import failure, numbers

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "mine" type: "MyScale" bottom: "x" top: "y" phase: TEST
  my_scale_param { factor: 2.5 mode: FAST name: "a" name: "b\\n" 'c' deep { k: [1, -2] ok: true } deep { k: 0x10 } }
  pooling_param { pool: AVE kernel_size: 3 mine: -.5f }
  power_param { scale: 0.1 }
}
layer { name: "act" type: "ReLU" bottom: "y" top: "z" relu_param { slope_of_fork: 3 } }
"""
FIELDS = {
    "my_scale_param": {
        "factor": 2.5,
        "mode": "FAST",
        "name": ["a", "b\nc"],
        "deep": [{"k": [1, -2], "ok": True}, {"k": 16}],
    },
    "pooling_param": {"pool": "AVE", "kernel_size": [3], "mine": -0.5},
    "power_param": {"scale": 0.1},
}
RULES = """
from prototrt.surgery.rules import Expression, layer_rule


@layer_rule("MyScale")
def my_scale(build, layer, x):
    return [(Expression(build, x) * layer.fields["my_scale_param"]["factor"]).value]


def slope(build, layer, x):
    return Expression(build, x) * layer.fields["relu_param"]["slope_of_fork"]


def forgets(build, layer, x):
    return layer.fields["relu_param"]["slope"]


def counts(build, layer, x):
    return 3


def ends(build, layer, x):
    raise SystemExit(1)


def mixes(build, layer, x):
    return x * (x > 0)
"""
ACT = {"act": "rules.py:slope"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    Path("rules.py").write_text(RULES)


def test_a_rule_reads_the_fields_as_they_are_written() -> None:
    assert prototrt.load("net.prototxt").layers[1].fields == FIELDS


def test_rules_for_a_type_and_for_one_layer_compute() -> None:
    graph = prototrt.rewrite(prototrt.load("net.prototxt"), rules="rules.py", replace=ACT)
    x = numbers(2, 3)
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["z"], x * 7.5, rtol=1e-6)
    assert not graph.warnings
    assert [(source.role, source.file) for source in graph.sources[1:]] == [
        ("rules", "rules.py"),
        ("replace", "rules.py"),
    ]


REFUSALS = {
    "forgets": (
        "net.prototxt:9: layer \"act\" (ReLU): the rule in rules.py:15 fails\n  because KeyError: 'slope'\n"
        "  fix: correct the rule; docs/forks.md shows one"
    ),
    "counts": (
        'net.prototxt:9: layer "act" (ReLU): the rule in rules.py:18 fails\n'
        "  because it returns 3, expected a list of values\n  fix: correct the rule; docs/forks.md shows one"
    ),
    "ends": (
        'net.prototxt:9: layer "act" (ReLU): the rule in rules.py:23 fails\n'
        "  because SystemExit: 1\n  fix: correct the rule; docs/forks.md shows one"
    ),
    "mixes": (
        'net.prototxt:9: layer "act" (ReLU): the rule in rules.py:26 fails\n'
        "  because its nodes do not fit together: __act_binary_2 (Binary[kind=MULTIPLY]): it reads float32 and bool\n"
        "  fix: correct the rule; docs/forks.md shows one"
    ),
    "nothing": (
        "rules.py: has no function nothing\n"
        "  fix: name one of its functions: my_scale, slope, forgets, counts, ends, mixes"
    ),
}


@pytest.mark.parametrize("function", REFUSALS)
def test_functions_that_are_no_rules(function: str) -> None:
    model = prototrt.load("net.prototxt")
    replace = {"act": f"rules.py:{function}"}
    kind = UnreadableFileError if function == "nothing" else NetError
    found = failure(lambda: prototrt.rewrite(model, rules="rules.py", replace=replace), kind)
    assert found == REFUSALS[function]


def test_places_that_name_no_function() -> None:
    model = prototrt.load("net.prototxt")
    assert failure(lambda: prototrt.rewrite(model, replace={"act": "rules.py"}), UnreadableFileError) == (
        'rules.py: names no function\n  fix: write the file and the function: replace={"act": "rules.py:FUNCTION"}'
    )
    assert failure(lambda: prototrt.rewrite(model, replace={"atc": "rules.py:slope"}), NetError) == (
        'net.prototxt: replace names "atc", which is no layer of the net\n  fix: name one of its layers: act'
    )


def test_a_built_in_rule_still_refuses_unknown_fields() -> None:
    model = prototrt.load("net.prototxt")
    found = failure(lambda: prototrt.rewrite(model, rules="rules.py"), ConversionError)
    assert found.startswith(
        'net.prototxt:9: layer "act" (ReLU), relu_param: there is no field "slope_of_fork"\n'
    )


def test_the_command_line() -> None:
    result = run(
        "inspect", "net.prototxt", "--rules", "rules.py", "--replace", "act=rules.py:slope", "--output", "z"
    )
    assert "outputs  z 2x3" in result.output
    result = run("inspect", "net.prototxt", "--replace", "act:rules.py")
    assert result.exit_code == 2
    assert '"act:rules.py" is not a replacement: write the layer, the file and its function' in result.output


def test_a_command_does_not_write_over_a_file_of_rules() -> None:
    typed = ["dot", "net.prototxt", "--replace", "act=rules.py:slope", "-o", "rules.py"]
    result = run(*typed)
    assert "rules.py" in result.output
    assert result.exit_code == 2
    assert Path("rules.py").read_text() == RULES


@pytest.mark.parametrize("text", ["", "{", "{ a }", "{ a: }", "[1", "-", "- x", "'a\\q'", "1 2"])
def test_values_that_cannot_be_read(text: str) -> None:
    assert written_value(text) is None


def test_a_field_with_an_unreadable_value_is_still_refused() -> None:
    Path("net.prototxt").write_text(NET.replace("ok: true", "ok"))
    model = prototrt.load("net.prototxt")
    found = failure(lambda: prototrt.rewrite(model, rules="rules.py", outputs=["y"]), ConversionError)
    assert found.startswith('net.prototxt:5: layer "mine" (MyScale): there is no field "my_scale_param"\n')

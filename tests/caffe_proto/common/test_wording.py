"""Texts that name options, in Python's words and in those of a surface."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import NetError, Problems
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import (
    Named,
    Option,
    OptionValue,
    Together,
    Worded,
    listed,
    python_words,
    worded,
)
from prototrt.cli import main
from prototrt.converter.options import ConversionOptions, VerifyOptions
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import files_with, nodes_of


def shouted(named: Named) -> str:
    return "/".join(map(shouted, named.each)) if isinstance(named, Together) else named.name.upper()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("strict", None, "strict"),
        ("strict", True, "strict=True"),
        ("random_weights", 0, "random_weights=0"),
        ("sequence", "loop", 'sequence="loop"'),
        ("outputs", ["a", 'b"c'], r'outputs=["a", "b\"c"]'),
        ("shapes", {"x": (1, "N"), "y": [3]}, 'shapes={"x": (1, N), "y": (3,)}'),
    ],
)
def test_python_words(name: str, value: OptionValue | None, words: str) -> None:
    assert python_words(Option(name, value)) == words


def test_texts_within_texts() -> None:
    inner = Worded("with {}", Option("tile", "native"))
    outer = Worded("{}: {} or {}", "net.prototxt", inner, 3)
    assert outer == 'net.prototxt: with tile="native" or 3'
    assert outer.by(shouted) == "net.prototxt: with TILE or 3"
    assert Worded.joined(", ", [inner, "x", Option("on")]).by(shouted) == "with TILE, x, ON"
    assert worded("as it is", shouted) == "as it is"


@given(st.text(), st.text())
def test_names_of_users_are_one_line_and_no_template(name: str, other: str) -> None:
    text = Worded("{} or {}", Worded("{}", name), other)
    assert text == text.by(shouted) == f"{visible_line(name)} or {visible_line(other)}"


def test_a_text_survives_another_process() -> None:
    text = Worded("{}: leave out {}", "net.prototxt", Worded("{}", Option("strict")))
    read = pickle.loads(pickle.dumps(text))
    assert (read, read.by(shouted)) == (text, "net.prototxt: leave out STRICT")


def test_errors_in_the_words_of_a_surface() -> None:
    error = NetError(
        Worded("{} is wrong", Option("calls")),
        where="a",
        blob="b",
        because=Worded("of {}", Option("on")),
        fix=Worded("leave out {}", Option("calls")),
    )
    assert str(error) == "a, b: calls is wrong\n  because of on\n  fix: leave out calls"
    several = Problems([error, NetError("no")])
    assert several.text.by(shouted) == (
        "a, b: CALLS is wrong\n  because of ON\n  fix: leave out CALLS\nno\n2 problems"
    )
    assert str(several) == "a, b: calls is wrong\n  because of on\n  fix: leave out calls\nno\n2 problems"


def test_a_long_list_is_shortened_except_where_it_is_wanted_whole() -> None:
    names = [f"n{number}" for number in range(2345)]
    text = Worded("no {}: {}", Option("on"), listed(names, most=2))
    assert text == "no on: n0, n1 and 2,343 more"
    assert text.by(shouted) == "no ON: n0, n1 and 2,343 more"
    assert pickle.loads(pickle.dumps(text)).by(shouted, whole=True) == f"no ON: {', '.join(names)}"
    assert listed(names[:2], most=2) == "n0, n1"
    assert listed([]) == ""


def test_many_problems_are_told_in_part() -> None:
    several = Problems([NetError(Worded("{} {}", Option("on"), number)) for number in range(1022)])
    told = [f"on {number}" for number in range(1022)]
    assert str(several) == "\n".join([*told[:20], "and 1,002 more", "1,022 problems"])
    assert several.text.by(python_words, whole=True) == "\n".join([*told, "1,022 problems"])
    assert len(several.errors) == 1022


# ---------------------------------------------------------------- the source
BELOW = [
    path
    for folder in ("caffe_proto", "surgery", "plugins", "converter")
    for path in (ROOT / folder).rglob("*.py")
    if "commandline" not in path.relative_to(ROOT).parts
    and path.name != "trtexec.py"  # whose options are NVIDIA's
    and path.parent.name != "tensorrt_python"  # programs have options of their own
]
OF_OTHER_TOOLS = {
    *("--resources",),  # dask worker
    *("--force-reinstall", "--no-cache-dir", "--upgrade"),  # pip
    *("--silent", "--pack-destination"),  # npm
    *("--fp16", "--memPoolSize", "--onnx", "--saveEngine", "--stronglyTyped", "--workspace"),  # trtexec
    *("--query-gpu", "--format"),  # nvidia-smi
}
SPELLING = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """All strings of a module with their lines, docstrings included, but not what a ``Command`` has typed behind it."""
    nodes = nodes_of(path)
    typed = {
        child
        for node in nodes
        if isinstance(node, ast.keyword) and node.arg == "typed"
        for child in ast.walk(node.value)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in typed:
            yield node.lineno, node.value


def test_nothing_below_the_command_line_spells_an_option() -> None:
    assert BELOW
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in files_with("--", BELOW)
        for line, text in texts(path)
        if set(SPELLING.findall(text)) - OF_OTHER_TOOLS
    ]
    assert found == []


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in files_with(f"{name}(", BELOW):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_templates_are_literals_with_a_place_for_each_part() -> None:
    """Else a brace in a name that a user chose would be taken for a place."""
    found = list(calls("Worded"))
    assert found
    for where, call in found:
        template = call.args[0]
        assert isinstance(template, ast.Constant), where
        if not any(isinstance(part, ast.Starred) for part in call.args):
            assert str(template.value).count("{}") == len(call.args) - 1, where


def parameters(command: click.Command) -> Iterator[str]:
    yield from (str(parameter.name) for parameter in command.params)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from parameters(below)


def test_options_that_are_named_exist() -> None:
    arguments = inspect.signature(prototrt.export_onnx).parameters
    known = {
        *parameters(main),
        *arguments,
        *(field.name for kind in (ConversionOptions, VerifyOptions) for field in fields(kind)),
    }
    found = [(where, call.args[0]) for where, call in calls("Option")]
    assert found
    for where, name in found:
        if isinstance(name, ast.Constant):
            assert name.value in known, where

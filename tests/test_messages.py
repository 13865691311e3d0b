"""Messages below the command line name commands as data: Python spells them differently."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import click
import pytest

import prototrt
from prototrt.caffe_proto.common.wording import FUNCTIONS, Command, Worded, python_words, worded
from prototrt.cli import main
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.front.commandline.wording import command_line_words
from prototrt.tests.public_cases import ROOT
from prototrt.tests.sources import files_with, nodes_of, parsed

ROOMS = ("caffe_proto", "surgery", "plugins", "converter")
MODULES = [
    path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if "commandline" not in path.relative_to(ROOT).parts
]
TYPED = re.compile(rf"\bprototrt (?:{'|'.join(sorted({*main.commands} - {'cache'}))}|cache prune)\b")
"""A command as it is typed."""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each text of a module that is not a docstring, with its line."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_no_message_below_the_command_line_spells_a_command() -> None:
    spelled = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in files_with("prototrt ", MODULES)
        for line, text in messages(parsed(path))
        if TYPED.search(text)
    ]
    assert len(MODULES) > 300
    assert spelled == []


def test_what_spells_a_command() -> None:
    source = '"""prototrt convert"""\nx = f"run `prototrt {1}` or prototrt verify"\ny = "prototrt reads"'
    assert [line for line, text in messages(ast.parse(source)) if TYPED.search(text)] == [2]


@pytest.mark.parametrize(
    ("command", "typed", "called"),
    [
        (Command("calibrate"), "prototrt calibrate", "prototrt.calibrate(...)"),
        (Command("doctor"), "prototrt doctor", "prototrt.doctor()"),
        (Command("run"), "prototrt run", "prototrt.Session(...)"),
        (
            Command("convert", ["a b.pb", "init.pb"]),
            "prototrt convert 'a b.pb' init.pb",
            'prototrt.convert("a b.pb", "init.pb", ...)',
        ),
    ],
    ids=["alone", "without arguments", "of another name", "with files"],
)
def test_a_command_in_the_words_of_each_surface(command: Command, typed: str, called: str) -> None:
    text = Worded("write it with {}", command)
    assert text == f"write it with {called}"
    assert [worded(text, surface) for surface in (python_words, command_line_words, list_words)] == [
        f"write it with {words}" for words in (called, typed, typed)
    ]


def named_commands() -> set[str]:
    """The commands that messages name."""
    calls = (
        node
        for path in files_with("Command(", MODULES)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Command"
    )
    return {ast.literal_eval(call.args[0]) for call in calls}


def test_the_commands_that_messages_name_exist_and_have_functions() -> None:
    names = named_commands()
    assert "calibrate" in names
    groups = {name: each for name, each in main.commands.items() if isinstance(each, click.Group)}
    inner = {f"{name} {command}" for name, each in groups.items() for command in each.commands}
    assert names | FUNCTIONS.keys() <= main.commands.keys() | inner
    single = main.commands.keys() - groups.keys() | inner & FUNCTIONS.keys()
    assert {FUNCTIONS.get(name, name) for name in single} <= {*prototrt.__all__}

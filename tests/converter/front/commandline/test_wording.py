"""The command line's words for options, and those of a list of models."""

from __future__ import annotations

import click
import pytest
import yaml

from prototrt.caffe_proto.common.wording import Option, OptionValue, Together, Worded, python_words
from prototrt.cli import main
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.front.commandline.commands.calibrating import calibrate
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.converter.front.commandline.commands.forms import upgrade
from prototrt.converter.front.commandline.commands.running import verify
from prototrt.converter.front.commandline.commands.showing import dot
from prototrt.converter.front.commandline.wording import command_line_words, in_command_line_words

SPELLINGS: list[tuple[str, OptionValue | None, str, str]] = [
    ("strict", None, "--strict", "strict"),
    ("strict", True, "--strict", "strict: true"),
    ("random_weights", 0, "--random-weights 0", "random-weights: 0"),
    ("sequence", "loop", "--sequence loop", "sequence: loop"),
    ("outputs", ["a", "b c"], "--output a --output 'b c'", 'outputs: [a, "b c"]'),
    (
        "shapes",
        {"x": (1, 3), "y": ("N",)},
        "--shape x:1x3 --shape y:N",
        "shapes: {x: 1x3, y: N}",
    ),
    ("min_shapes", {"x": (1, 3), "y": (2,)}, "--min-shapes x:1x3,y:2", "min-shapes: {x: 1x3, y: 2}"),
    ("allow_unknown", True, "--allow-unknown", "allow-unknown: true"),
    ("atol", 0.5, "--atol 0.5", "atol: 0.5"),
    ("trust", True, "--trust", "trust: true"),
]


@pytest.mark.parametrize(("name", "value", "on_the_command_line", "in_a_list"), SPELLINGS)
def test_words(name: str, value: OptionValue | None, on_the_command_line: str, in_a_list: str) -> None:
    with click.Context(convert, parent=click.Context(main)):
        assert command_line_words(Option(name, value)) == on_the_command_line
    assert list_words(Option(name, value)) == in_a_list
    if value is not None:
        assert len(yaml.safe_load(in_a_list)) == 1, "it is YAML"


def test_the_command_that_runs_comes_first() -> None:
    with click.Context(main) as above:
        for command in (dot, upgrade, calibrate):
            with click.Context(command, parent=above):
                assert command_line_words(Option("target", "onnx")) == "--target onnx"


def test_options_that_are_given_together() -> None:
    both = Together([Option("outputs", ["auto"]), Option("remainder", "rest.prototxt")])
    typed = "--output auto --remainder rest.prototxt"
    told = {convert: typed, upgrade: f"prototrt convert {typed}", verify: f"prototrt convert {typed}"}
    with click.Context(main) as above:
        for command, words in told.items():
            with click.Context(command, parent=above):
                assert command_line_words(both) == words
    assert list_words(both) == "outputs: [auto], remainder: rest.prototxt"
    assert python_words(both) == 'outputs=["auto"], remainder="rest.prototxt"'


def test_options_that_convert_lacks_too() -> None:
    both = Together([Option("mean", ["1"]), Option("scale", 0.5)])
    with click.Context(convert, parent=click.Context(main)):
        assert command_line_words(both) == "--mean 1 --scale 0.5"


def test_outside_a_command() -> None:
    assert command_line_words(Option("random_weights")) == "--random-weights"


def test_facts_for_programs() -> None:
    facts = {"warnings": (Worded("leave out {}", Option("strict")), "x"), "count": 2}
    assert in_command_line_words(facts) == {"warnings": ["leave out --strict", "x"], "count": 2}

"""Options as trtexec and Polygraphy spell them are not just unknown."""

from __future__ import annotations

import re

import click
import pytest

from prototrt.cli import main
from prototrt.converter.builder_options import BUILDER_OPTIONS, BuilderOption
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.converter.front.commandline.commands.running import bench, run, verify
from prototrt.converter.front.commandline.foreign_options import _MEANINGS, meaning
from prototrt.tests.builder_values import trtexec_words_of
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.command_line import run as prototrt


@pytest.mark.parametrize(
    ("spelling", "meant"),
    [
        ("--fp16", "--precision fp16"),
        ("--int8", "--precision int8"),
        ("--minShapes", "--min-shapes"),
        ("--memPoolSize", "--mem-pool-size"),
        ("--pool-limit", "--mem-pool-size"),
        ("--workspace", "--mem-pool-size workspace:SIZE"),
        ("--saveEngine", "-o FILE.plan"),
        ("--onnx", "the prototxt and the caffemodel as arguments; -o FILE.onnx writes ONNX"),
        ("--timingCacheFile", "--timing-cache-file"),
        ("--load-timing-cache", "--timing-cache-file"),
        ("--trt-min-shapes", "--min-shapes"),
        ("--noTF32", "to leave it out: TF32 is off unless --tf32 is given"),
        ("--loadEngine", "`prototrt run FILE.plan`"),
        ("--mean", "--preprocess, with the training net"),
        ("--tile_", "--tile"),
    ],
)
def test_the_option_that_was_meant(spelling: str, meant: str) -> None:
    result = prototrt("convert", DEPLOY, WEIGHTS, "-o", "/dev/null", f"{spelling}=x")
    assert result.stderr.splitlines()[-1] == f"Error: No such option '{spelling}'. Did you mean {meant}?"
    assert result.exit_code == 2


@pytest.mark.parametrize("option", BUILDER_OPTIONS, ids=lambda option: option.name)
def test_trtexecs_spellings_of_the_builders_options_are_known(option: BuilderOption) -> None:
    for word in trtexec_words_of(option):
        spelling = word.partition("=")[0]
        assert meaning(spelling, convert) is not None, spelling


@pytest.mark.parametrize("meant", _MEANINGS.values())
def test_what_is_proposed_exists(meant: str) -> None:
    """In ``convert``, or in the command that is named."""
    named = re.match(r"`prototrt (\w+)", meant)
    command: click.Command = main.commands[named[1]] if named else convert
    known = {name for parameter in command.params for name in parameter.opts} | {"--json"}
    assert {*re.findall(r"(?<!\S)-{1,2}[a-z][a-z0-9-]*", meant)} <= known


def test_a_command_proposes_only_what_it_has() -> None:
    assert meaning("--workspace", verify) is None
    assert meaning("--fp16", run) == "--precision fp16"
    assert meaning("--nonsense", bench) is None


def test_other_mistakes_are_told_as_before() -> None:
    result = prototrt("convert", DEPLOY, WEIGHTS, "-o", "/dev/null", "--sequense", "loop")
    assert result.stderr.splitlines()[-1].startswith("Error: No such option")
    assert "--sequence" in result.stderr

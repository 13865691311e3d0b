"""The options of the commands are those of the dataclasses that Python and lists of models use."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from pathlib import Path

import click
import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.options import Options, option_fields
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.batch.keys import FIELDS, option_of, option_value
from prototrt.converter.front.batch.tree import Place
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.converter.front.commandline.commands.running import verify
from prototrt.converter.options import BuildOptions, ConvertOptions, ExportOptions, VerifyOptions
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run

NOWHERE = Place("", "models.yaml:1")
COMMANDS = (convert, verify)
GROUPS = (LoadOptions, RewriteOptions, BuildOptions, ExportOptions, ConvertOptions, VerifyOptions)


def declared() -> dict[str, click.Parameter]:
    return {str(parameter.name): parameter for command in COMMANDS for parameter in command.params}


@pytest.mark.parametrize("kind", GROUPS, ids=lambda kind: kind.__name__)
def test_every_option_can_be_given_to_a_command(kind: type[Options]) -> None:
    assert [each.name for each in option_fields(kind) if each.name not in declared()] == []


@pytest.mark.parametrize("kind", GROUPS, ids=lambda kind: kind.__name__)
def test_without_options_a_command_takes_the_defaults(kind: type[Options]) -> None:
    taken = {
        **convert.make_context("convert", ["net.prototxt", "-o", "net.onnx"]).params,
        **verify.make_context("verify", ["net.prototxt"]).params,
        "verify": False,  # of convert
    }
    assert kind(**{each.name: taken[each.name] for each in option_fields(kind)}) == kind()


def test_every_option_is_a_key_of_a_list_as_it_is_spelled() -> None:
    for name, parameter in declared().items():
        if name in FIELDS:
            once = getattr(parameter, "once", None) or parameter.opts[0]
            for spelling in (*parameter.opts, once):
                assert option_of(spelling.lstrip("-"), NOWHERE) == name


@pytest.mark.parametrize("name", FIELDS)
def test_a_list_can_hold_every_option(name: str) -> None:
    texts = (
        *FIELDS[name].metadata.get("choices", ()),
        "true",
        "1",
        "17",
        "x",
        "x:1",
        "A=1",
        "A=1..8",
        "A.b=1",
        "A=b.py:c",
        "zero",
    )
    places = [Place(text, "models.yaml:1") for text in texts]
    for place in [*places, Place([Place("N=1..2..4", "models.yaml:2")], "models.yaml:1")]:
        with contextlib.suppress(ConversionError):
            option_value(name, place)
            return
    pytest.fail(f"none of {texts}, and no list, is read")


def test_an_option_has_one_meaning() -> None:
    names = [each.name for kind in GROUPS for each in option_fields(kind)]
    assert {name for name in names if names.count(name) > 1} == set()
    assert "weights" in {each.name for each in fields(LoadOptions)}


def test_a_fork_that_is_not_known() -> None:
    result = run("inspect", DEPLOY, "--fork", "nowhere")
    assert result.exit_code == 2
    assert "Invalid value for '--fork': 'nowhere' is not one of" in result.stderr


@pytest.mark.parametrize(
    ("word", "meant"), [("jetsn", "jetson"), ("orin-nanno", "orin-nano"), ("opncv", "opencv")]
)
def test_a_misspelt_choice_gets_the_one_that_is_meant(word: str, meant: str) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", "a.onnx", "--target", word)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"'tensorrt-python'. Did you mean {meant}?\n")


def test_a_file_of_rules(tmp_path: Path) -> None:
    rules, net = tmp_path / "rules.py", tmp_path / "net.prototxt"
    rules.write_text(
        "from prototrt.surgery.building.layer_builder import layer_rule\n"
        "@layer_rule('OfTheUser')\n"
        "def rule(build, layer, x):\n"
        "    return [build.scaled(x, 2.0)]\n"
    )
    net.write_text(
        "input: 'x' input_shape { dim: 1 } layer { name: 'y' type: 'OfTheUser' bottom: 'x' top: 'y' }"
    )
    assert "OfTheUser" in done("inspect", str(net), "--rules", str(rules)).stdout
    assert done("convert", DEPLOY, WEIGHTS, "--fork", "pvanet", "-o", str(tmp_path / "a.onnx")).exit_code == 0

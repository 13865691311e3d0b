"""What a new user sees of the commands: help, no wider than the terminal, and what old spellings of options mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from prototrt.cli import main
from prototrt.converter.front.commandline.foreign_options import in_words_of_today
from prototrt.converter.front.commandline.options.groups import FieldOption
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run

NETS = """
input: "x" input_shape { dim: 1 dim: 4 }
layer { name: "all" type: "TanH" bottom: "x" top: "y" }
layer { name: "some" type: "TanH" bottom: "y" top: "z" include { stage: "deep" } }
"""


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


COMMANDS = dict(commands(main))
OLD = {
    (*names, option.once): option.opts[0]
    for names, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, FieldOption) and option.once
}


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_is_no_wider_than_the_terminal(words: tuple[str, ...], width: int) -> None:
    text = CliRunner().invoke(main, [*words, "--help"], terminal_width=width).output
    kept = ("    prototrt convert ", "    4    TensorRT, onnx or")  # lines that are no paragraphs, 79 wide
    assert [line for line in text.splitlines() if len(line) > width and not line.startswith(kept)] == []


def test_long_choices_stand_in_the_text() -> None:
    text = " ".join(done("inspect", "--help").stdout.split())
    assert "--fork NAME" in text
    assert "if its layers do not show it. [bottom-up- attention | bvlc | " in text


def test_the_help_of_convert_begins_with_what_people_use() -> None:
    text = done("convert", "--help").stdout
    usage, example, *_ = (part for part in text.split("\n\n") if not part.startswith(("  B", "  W")))
    assert usage.startswith("Usage: prototrt convert")
    assert [line.split()[:2] for line in example.splitlines()] == [["prototrt", "convert"]] * 2
    first = text.partition("Options:\n")[2].partition("\n\n")[0]
    words = "-o --target --precision --shape --dynamic --output --scales --preprocess --backend --verify"
    assert " ".join(line.split()[0] for line in first.splitlines() if line.startswith("  -")) == words


@pytest.mark.parametrize("group", [(), ("weights",), ("cache",)])
def test_without_arguments_the_help_is_printed(group: tuple[str, ...]) -> None:
    """Standard output has it, but a script whose command is empty does not pass."""
    result = run(*group)
    assert (result.exit_code, result.stdout, result.stderr) == (2, done(*group, "--help").stdout, "")


def test_no_old_spelling_is_in_a_help() -> None:
    assert {old[-1] for old in OLD} == {"--stage", "--outputs", "--profile"}
    for (*names, old), new in OLD.items():
        words = done(*names, "--help").stdout.split()
        assert new in words
        has_another = any(old in option.opts for option in COMMANDS[tuple(names)].params)
        assert (old in words) == has_another, (names, old)


def test_an_old_spelling_means_what_it_did() -> None:
    for old in ("--stage", "--net-stage"):
        Path("net.prototxt").write_text(NETS)
        result = done("inspect", "net.prototxt", old, "deep", "--json")
        assert [layer["name"] for layer in json.loads(result.stdout)["layers"]] == ["x", "all", "some"]
        warning = "warning: --stage is --net-stage now: the next release no longer knows the old spelling\n"
        assert result.stderr == (warning if old == "--stage" else "")


@pytest.mark.parametrize(
    ("name", "words", "meant"),
    [
        ("run", ["--outputs", "a,b", "-o", "c"], ["--output", "a", "--output", "b", "-o", "c"]),
        ("run", ["--outputs=all"], ["--output", "all"]),
        ("bench", ["--profile", "net"], ["--layer-times", "net"]),
        ("convert", ["--profile", "N=1..2"], None),
        ("dot", ["--stage", "lowred"], None),
        ("inspect", ["--stage", "rewritten"], None),
        ("inspect", ["--stage=deep"], ["--net-stage", "deep"]),
        ("verify", ["--", "--stage", "x"], None),
    ],
)
def test_words_of_today(name: str, words: list[str], meant: list[str] | None) -> None:
    today, warnings = in_words_of_today(words, main.commands[name])
    assert (today, bool(warnings)) == (words if meant is None else meant, meant is not None)


def test_a_quiet_command_keeps_quiet() -> None:
    Path("net.prototxt").write_text(NETS)
    assert done("-q", "deploy", "net.prototxt", "--stage", "deep", "-o", "new.prototxt").stderr == ""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_to_write_is_called_as_it_is_typed() -> None:
    """Also where another command calls a machine so."""
    result = run("dot", DEPLOY, "-o", "net.txt")
    assert result.stderr.endswith("fix: write a page for a browser, -o net.html, or an image, -o net.png\n")
    result = run("upgrade", DEPLOY, WEIGHTS, "-o", "net.onnx")
    assert "Invalid value for '-o'" in result.stderr


def test_a_proposal_that_is_typed_as_it_stands_is_not_proposed_again() -> None:
    Path("net.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 4 }\n'
        'layer { name: "a" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: N } }\n'
    )
    first = run("inspect", "net.prototxt")
    assert first.stderr.endswith(
        "fix: write a number; or fill it in, if this is a template: --define N=VALUE\n"
    )
    again = run("inspect", "net.prototxt", "--define", "N=VALUE")
    assert again.stderr.endswith("fix: write such a value, as in num_output: 1\n"), again.stderr

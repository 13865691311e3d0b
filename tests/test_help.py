"""What a new user sees of the commands: help, no wider than the terminal, and what old spellings are now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from prototrt.cli import main
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


COMMANDS = dict(commands(main))


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


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("deploy", "--stage", "--net-stage"),
        ("run", "--outputs", "--output"),
        ("bench", "--profile", "`prototrt bench --layer-times`"),
    ],
)
def test_a_spelling_of_version_0_2_is_explained(name: str, old: str, new: str) -> None:
    result = run(name, DEPLOY, old, "x")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        f"Error: No such option '{old}'. Did you mean {new}?",
    )


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

"""Around the commands: shell completion, man pages, and JSON wherever a table is printed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from prototrt.cli import main
from prototrt.converter.front.commandline.frame import EXIT_CODES
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.fresh_python import ROOT, run_python


def complete(shell: str, words: str, index: int) -> list[str]:
    """What click answers to the question of a shell."""
    variables = {"_PROTOTRT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    if shell == "fish":
        variables["COMP_CWORD"] = words.split()[index] if index < len(words.split()) else ""
    code = "from prototrt.cli import main; main(prog_name='prototrt')"
    return run_python("-c", code, variables=variables).stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_for_shells(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    monkeypatch.setenv("_PROTOTRT_COMPLETE", f"{shell}_source")
    result = CliRunner().invoke(main, [], prog_name="prototrt")
    assert f"_PROTOTRT_COMPLETE={shell}_complete" in result.stdout
    program = shutil.which(shell)
    if program is not None:
        flag = "--no-execute" if shell == "fish" else "-n"
        subprocess.run([program, flag], input=result.stdout, text=True, check=True)


def test_commands_options_choices_and_files_are_completed() -> None:
    assert complete("bash", "prototrt con", 1) == ["plain,convert"]
    assert complete("bash", "prototrt cache ", 2) == ["plain,prune"]
    assert complete("bash", "prototrt convert --min", 2) == ["plain,--min-shapes"]
    assert complete("bash", "prototrt convert --sequence u", 3) == ["plain,unroll"]
    assert complete("bash", "prototrt convert x", 2) == ["file,x"]
    assert complete("bash", "prototrt convert -o y", 3) == ["file,y"]
    kind, name, told = complete("zsh", "prototrt lay", 1)
    assert (kind, name) == ("plain", "layers")
    assert told.startswith("List the supported layer types")
    (line,) = complete("fish", "prototrt lay", 1)
    assert line.startswith("plain,layers\tList the supported layer types")


def names_below(command: click.Command) -> list[list[str]]:
    """The names of a group's commands."""
    return [[name] for name in command.commands] if isinstance(command, click.Group) else []


def test_man_pages(tmp_path: Path) -> None:
    pytest.importorskip("click_man", reason="needs click-man")
    # In a process of its own: click-man changes the commands that it reads.
    run_python(ROOT / "docs" / "make_man.py", tmp_path)
    pages = {path.name: path.read_text() for path in tmp_path.iterdir()}
    names = [
        [name, *below] for name, command in main.commands.items() for below in ([], *names_below(command))
    ]
    assert {"prototrt.1", *(f"prototrt-{'-'.join(words)}.1" for words in names)} == set(pages)
    for page in pages.values():
        for line in EXIT_CODES.splitlines()[2:]:
            assert line.split(maxsplit=1)[1] in page
    assert "--keep-going" in pages["prototrt-batch.1"].replace("\\-", "-")
    if (program := shutil.which("man")) is not None:
        subprocess.run([program, "-l", str(tmp_path / "prototrt.1")], stdout=subprocess.DEVNULL, check=True)


# ---------------------------------------------------------------- --json


def printed(*arguments: str) -> object:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_layers_as_json() -> None:
    facts = printed("layers")
    assert isinstance(facts, dict)
    (row,) = [row for row in facts["layers"] if row["type"] == "Silence"]
    assert row["becomes"] == "nothing"


@pytest.mark.trt
def test_a_conversion_as_json(tmp_path: Path) -> None:
    target = str(tmp_path / "digits.plan")
    facts = printed("convert", DEPLOY, WEIGHTS, "-o", target, "--backend", "rtx")
    assert isinstance(facts, dict)
    assert facts["manifest"] == json.loads(Path(f"{target}.json").read_text())
    assert (facts["file"], facts["caffe_layers"]) == (target, 19)
    assert facts["nodes"] > 19


def test_a_run_as_json(tmp_path: Path) -> None:
    inputs, target = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    np.savez(inputs, data=np.zeros((40, 1, 32, 16), np.float32), cont=np.zeros((40, 1), np.float32))
    assert printed("run", DEPLOY, WEIGHTS, "--inputs", inputs, "-o", target, "--calls", "2") == {
        "format": 1,
        "file": target,
        "calls": 2,
        "on": "onnx",
        "outputs": {"prob": {"shape": [40, 1, 11], "dtype": "float32"}},
    }

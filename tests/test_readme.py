"""The README is true: its commands run and print what it shows, its tables are the real ones."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable
from configparser import ConfigParser
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.cli import main
from prototrt.converter.front.commandline.frame import EXIT_CODES
from prototrt.surgery.views.support import supported_layers
from prototrt.tests.command_line import done, without_measures
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.tools.machines_table import machines_table, systems_table
from prototrt.tests.tools.support_lists import page_list

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Each command of the README with the output that it shows."""
    whole = [block.replace("\\\n", "") for block in blocks("console")]
    parts = [part.partition("\n") for block in whole for part in block.split("$ ")[1:]]
    return [(command, output) for command, _, output in parts]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.trt
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("command", "output"), commands(), ids=lambda part: part[:40])
def test_commands_print_what_is_shown(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "prototrt"
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert without_measures(result.output) == without_measures(output)


def test_what_is_installed_can_run_what_is_shown() -> None:
    """Both ways to install bring the extra for ONNX, since the first command writes an ONNX model."""
    installed = {
        "make": re.findall(r"--editable '\.\[(.*?)\]'", (ROOT / "Makefile").read_text())[-2:],
        "pip": re.findall(r"^    pip install '\.\[(.*?)\]'$", README, re.MULTILINE),
    }
    assert any(".onnx" in command for command, _ in commands())
    assert "onnx" in installed["pip"][0].split(",")
    assert "onnx" in installed["make"][0].split(",")


@pytest.mark.trt
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "(40, 1, 11)\n"
    assert Path("digits.plan").stat().st_size > 0


STAND_INS = {
    "MODEL": "samples/digits/deploy_stream.prototxt",
    "WEIGHTS": "samples/digits/digits.caffemodel",
    "FILE": "samples/digits/digits.caffemodel",
    "FOLDER": "nets",
    "in.npz": "samples/digits/stream_in.npz",
    "out.npz": "samples/digits/stream_out.npz",
    "LAYER": "conv1",
    "TRAIN_VAL": "samples/digits/train_val.prototxt",
}
"""What the words of the table stand for, where it is tried."""
FURTHER = {
    "deploy": ("--shape", "data:40x1x32x16", "--shape", "cont:40x1"),
    "deepstream": ("--state", "zero", "--cont", "drop"),
}
"""What these commands need for the sample, beside what the table says."""


@cache
def missing() -> set[str]:
    """The modules that the README's installation does not bring, of all that an extra brings."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = config["options.extras_require"]
    (chosen,) = re.findall(r"^    pip install '\.\[(.*?)\]'$", README, re.MULTILINE)
    installed = closure(
        [config["options"]["install_requires"], *(extras[name] for name in chosen.split(","))]
    )
    others = closure(extras[name] for name in extras if name not in ("dev", "dask", "fuzz", "triton"))
    return {
        module
        for module, names in packages_distributions().items()
        for name in names
        if canonical(name) in others - installed
    }


def closure(requirements: Iterable[str]) -> set[str]:
    """These packages and all that they need, of those that are installed here."""
    names, waiting = set[str](), [line for lines in requirements for line in lines.split("\n")]
    while waiting:
        line = waiting.pop()
        match = re.match(r"[\w.-]+", line)
        if match is None or "extra ==" in line or canonical(match[0]) in names:
            continue
        names.add(canonical(match[0]))
        with suppress(PackageNotFoundError):
            waiting += requires(match[0]) or []
    return names


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def tasks() -> list[str]:
    """The commands of the table of what readers have and want."""
    table = README.partition("| I have | I want | command |\n")[2].partition("\n\n")[0]
    return re.findall(r"`(prototrt .*?)` \|$", table, re.MULTILINE)


def tried(command: str) -> list[str]:
    """Its arguments, about files that are there. What it writes is none of them."""
    words = shlex.split(command)[1:]
    written = {place + 1 for place, word in enumerate(words) if word == "-o"}
    arguments = [word if at in written else STAND_INS.get(word, word) for at, word in enumerate(words)]
    if "--dynamic" in words:
        arguments = [word.replace("deploy_stream", "deploy") for word in arguments]
    return [*arguments, *FURTHER.get(words[0], ())]


def test_what_is_not_installed_is_missing() -> None:
    assert missing() >= {"h5py", "PIL"}
    assert missing().isdisjoint({"numpy", "click", "onnx", "onnxruntime", "jinja2", "markupsafe", "yaml"})


def test_the_table_of_tasks_is_read() -> None:
    assert {command.split()[1] for command in tasks()} == set(main.commands) - {"layers", "bench", "cache"}


@pytest.mark.trt
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "command",
    [pytest.param(task, marks=pytest.mark.exhaustive if "selftest" in task else ()) for task in tasks()],
)
def test_commands_of_the_table_of_tasks_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the sample, with a cache of scales and lists that other commands would have left, and with what the README
    says to install."""
    pytest.importorskip("onnxruntime", reason="runs models")
    for module in missing():
        monkeypatch.setitem(sys.modules, module, None)
    Path("nets").mkdir()
    Path("nets/deploy.prototxt").write_text(Path(STAND_INS["MODEL"]).read_text())
    Path("MODELS.yaml").write_text(
        f"models: [{{ prototxt: {STAND_INS['MODEL']}, weights: {STAND_INS['WEIGHTS']}, format: onnx }}]"
    )
    if "--calibration-cache" in command:
        done("calibrate", *tried("_ MODEL WEIGHTS --inputs in.npz --export-cache old.cache"))
    done(*tried(command))


@pytest.mark.parametrize(
    ("page", "mark", "text"),
    [
        ("layers.md", "support-table", lambda: page_list(supported_layers())),
        ("deploy.md", "machines", machines_table),
        ("deploy.md", "systems", systems_table),
    ],
)
def test_generated_tables(
    page: str, mark: str, text: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    file = ROOT / "docs" / page
    before, begin, rest = file.read_text().partition(f"<!-- {mark} -->\n")
    table, end, after = rest.partition(f"\n<!-- /{mark} -->")
    assert begin
    assert end
    if request.config.getoption("--update-goldens"):
        file.write_text(before + begin + text() + end + after)
    else:
        assert table == text(), "run `pytest tests/test_readme.py --update-goldens`"


def test_exit_codes_are_those_of_the_help() -> None:
    told = re.findall(r"^ +(\d+) +(.*)$", EXIT_CODES, re.MULTILINE)
    page = (ROOT / "docs" / "commands.md").read_text()
    shown = re.findall(r"^\| (\d+) \| ([^;|]*?)(?:;[^|]*)? \|$", page, re.MULTILINE)
    assert shown == told


def test_make_targets_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    told = re.findall(r"(?:`|^    )make (\w+)", README, re.MULTILINE)
    assert {"convert", "test", "docs"} <= set(told) <= set(targets)


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("samples/*/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To files, and to headings in them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {
            re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
        }, link

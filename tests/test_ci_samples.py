"""The CI samples: they are what their programs read, and their commands run on a machine without a GPU.

Installing is left out: the commands find a ``prototrt`` that runs this tree, and a ``python`` that
refuses all but the installation.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

ROOT = Path(__file__).parents[1]
CI = ROOT / "samples" / "ci"
INSTALL = "-m pip install "


def github() -> list[str]:
    """The commands of the workflow, as its steps stand."""
    workflow = yaml.safe_load((CI / "github-actions.yml").read_text())
    assert set(workflow) == {"name", True, "permissions", "jobs"}  # YAML 1.1 reads `on` as true
    (job,) = workflow["jobs"].values()
    assert job["runs-on"].startswith("ubuntu-")
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step), step
    return [step["run"] for step in job["steps"] if "run" in step]


def gitlab() -> list[str]:
    (job,) = yaml.safe_load((CI / "gitlab-ci.yml").read_text()).values()
    assert set(job) <= {"image", "cache", "script", "artifacts"}
    assert job["artifacts"]["reports"] == {"junit": "report.xml"}
    commands: list[str] = job["script"]
    return commands


def jenkins() -> list[str]:
    """The shell steps; braces balance outside of quotes."""
    text = re.sub(r"//.*", "", (CI / "Jenkinsfile").read_text())
    found = re.findall(r"sh (?:'''(.*?)'''|'([^'\n]*)')", text, re.DOTALL)
    rest = re.sub(r"'''.*?'''|'[^'\n]*'", "", text, flags=re.DOTALL)
    assert rest.count("{") == rest.count("}") > 4
    assert rest.split("{")[0].strip() == "pipeline"
    return [long or short for long, short in found]


def docker() -> list[str]:
    lines = (CI / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {name for name, _ in steps} == {"FROM", "WORKDIR", "COPY", "RUN", "CMD"}
    assert steps[0][0] == "FROM"
    runs = [text for name, text in steps if name == "RUN"]
    return [*runs, shlex.join(json.loads(steps[-1][1]))]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A folder with the samples, and an environment with our commands."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    write_program(programs / "prototrt", f'exec {python} -c "from prototrt.cli import main; main()" "$@"')
    cases = [
        f'"{INSTALL}"*) exit 0',
        '"-m venv .venv") mkdir -p .venv/bin; touch .venv/bin/activate',
        "*) exit 9",
    ]
    fake = f'case "$*" in {";; ".join(cases)};; esac'
    for name in ("python", "python3"):
        write_program(programs / name, fake)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
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


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize("commands", [github, gitlab, jenkins, docker])
def test_the_commands_convert_the_samples(commands: Any, tmp_path: Path, machine: dict[str, str]) -> None:
    pytest.importorskip("onnxruntime", reason="one sample becomes an ONNX model")
    for command in commands():
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=tmp_path,
            env=machine,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert {name for name in os.listdir(tmp_path / "engines") if not name.endswith(".json")} == {
        "digits-loop.plan",
        "digits-unroll.plan",
        "digits-stream.plan",
        "digits.onnx",
    }
    assert 'tests="4" failures="0" errors="0"' in (tmp_path / "report.xml").read_text()


def test_each_installs_what_the_lock_file_names() -> None:
    for commands in (github, gitlab, jenkins, docker):
        installing = [
            line for command in commands() for line in command.splitlines() if INSTALL.strip() in line
        ]
        locked, own = (line.replace("--no-cache-dir ", "").partition(INSTALL)[2] for line in installing)
        assert locked.strip() == "--require-hashes -r locks/run.txt"
        assert own.strip() == "--no-deps --no-build-isolation ."


def test_actions_are_pinned_to_commits() -> None:
    used = re.findall(r"^ *(?:- )?uses: (.*)$", (CI / "github-actions.yml").read_text(), re.MULTILINE)
    assert len(used) == 4
    assert [
        line for line in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
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

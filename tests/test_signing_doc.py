"""The page about signing: its commands run, and its table of attacks names tests that there are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prototrt.tests.fresh_python import ROOT

PAGE = (ROOT / "docs" / "signing.md").read_text()
CONVERT, SIGN, VERIFY, INSTALL, FOLDER = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sample, in which ``prototrt`` is this one."""
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "prototrt"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m prototrt "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / ".dev"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(script: str) -> str:
    """What the script prints, if its last command fails."""
    found = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert found.returncode != 0, found.stdout
    return found.stdout + found.stderr


def works(script: str) -> str:
    found = subprocess.run(["bash", "-e"], input=script, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.slow
def test_the_pages_commands_with_openssh(shell: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen, of the package openssh-client")
    digest = works(CONVERT)
    told = works(SIGN + VERIFY)
    assert 'Good "prototrt" signature for builder@example.org' in told
    assert digest.splitlines()[-1].split()[-1] in told
    assert "all files are as the manifest lists them" in told
    verify = VERIFY.splitlines()[1]
    assert "Could not verify signature" in fails(verify.replace("-n prototrt", "-n mail"))
    manifest = Path("digits.onnx.json")
    manifest.write_text(manifest.read_text().replace('"caffe"', '"other"'))
    assert "Could not verify signature" in fails(verify)
    works(f"rm digits.onnx.json.sig\n{CONVERT}{SIGN.splitlines()[1].replace('-n prototrt', '-n mail')}")
    assert "Could not verify signature" in fails(verify)


@pytest.mark.slow
def test_the_pages_commands_with_model_signing(shell: Path) -> None:
    for program in ("model_signing", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; {INSTALL.strip()}")
    works(CONVERT)
    assert works(FOLDER).splitlines() == ["Signing succeeded", "Verification succeeded"]
    Path("release", "digits.onnx").write_bytes(b"another")
    assert "Hash mismatch for 'digits.onnx'" in fails(FOLDER.splitlines()[-1])


def test_each_attack_has_its_tests_or_is_not_covered() -> None:
    page = PAGE.partition("## What is covered")[2]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    for attack, _, evidence in rows:
        names = re.findall(r"`(test_\w+)`", evidence)
        assert names or evidence == "not covered", attack
        assert tests.issuperset(names), attack

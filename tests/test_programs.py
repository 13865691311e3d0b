"""Programs of users run, and type checkers find nothing in them but mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prototrt.tests.command_line import DIGITS, STREAM, WEIGHTS

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))
CHECKERS = {
    "mypy": ["mypy", "--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}
MISTAKEN = 'import prototrt\n\nprototrt.rewrite(prototrt.load("net.prototxt"), precision="fp17")\n'


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_runs(program: Path, tmp_path: Path) -> None:
    arguments = [STREAM, WEIGHTS]
    if program.stem == "convert_folder":
        arguments = [str(DIGITS), WEIGHTS, str(tmp_path)]
    result = _run([sys.executable, str(program), *arguments])
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", pytest.param("pyright", marks=pytest.mark.exhaustive)])
def test_type_checkers_know_the_package(checker: str, tmp_path: Path) -> None:
    """Without a mistake they find nothing; a word that an option does not have is one."""
    pytest.importorskip(checker)
    if sys.version_info < (3, 11):
        pytest.skip("NumPy's annotations need Python 3.11")
    mistaken = tmp_path / "mistaken.py"
    mistaken.write_text(MISTAKEN)
    command = [sys.executable, "-m", *CHECKERS[checker]]
    report = _run([*command, *map(str, PROGRAMS), str(mistaken)])
    errors = [line for line in report.stdout.splitlines() if "error: " in line]
    assert (report.returncode, len(errors)) == (1, 1), report.stdout
    assert "mistaken.py:3" in errors[0]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT / ".dev"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": path}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)

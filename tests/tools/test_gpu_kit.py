"""The kit for a machine without internet: packed in parts, unpacked by a Python that has nothing, and run there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from prototrt.tests.tools import gpu_kit
from prototrt.tests.tools.gpu_kit import ROOTS, closure, pack, tracked

PART = 4 << 20
TO_LIST = ("click", "numpy", "protobuf", "rich")
"""Packages that telling what would be tried needs."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_kit_runs_where_nothing_is_installed(tmp_path: Path) -> None:
    parts = pack(tmp_path / "kit", TO_LIST, PART, preset=0)
    assert len(parts) > 2
    assert {path.stat().st_size for path in parts[:-1]} == {PART}
    assert parts[-1].stat().st_size <= PART
    command = [sys.executable, "-S", str(tmp_path / "kit" / "run.py"), "--list", "--only", "floors"]
    for _ in range(2):  # what is unpacked is used again
        told = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": ""})
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout.startswith("floors: clocks before\n")
    unpacked = tmp_path / "kit" / "unpacked"
    assert (unpacked / "tree" / "converter" / "runtime" / "runner.py").exists()
    assert not (unpacked / "tree" / ".venv").exists()


def test_no_part_is_no_kit(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    shutil.copy(Path(gpu_kit.__file__).with_name("gpu_kit_run.py"), script)
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert (
        told.stderr
        == f"there is no part of the kit beside {script}: copy kit.tar.xz.00 and all others here\n"
    )


@pytest.mark.trt
def test_the_library_of_tensorrt_is_packed() -> None:
    if importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("needs cuda-python")
    found = closure(ROOTS)
    assert {"cuda-python", "tensorrt-rtx", "numpy"} <= set(found)
    assert [name for name in found if name.startswith("tensorrt-rtx-cu") and name.endswith("-libs")]
    files = [str(file) for name in found for file in metadata.files(name) or ()]
    assert any(file.startswith("cuda/bindings/runtime.") for file in files)  # whichever package brings it
    assert "torch" not in found


def test_the_tree_is_what_git_knows() -> None:
    found = set(tracked())
    assert {"setup.cfg", ".dev/prototrt", "tests/gpu/check.py"} <= found

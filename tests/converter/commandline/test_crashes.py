"""A command that native code ends without a word."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROLOGUE = """
import os, signal, sys, time
from prototrt.converter import black_box
from prototrt.converter.commandline.crashes import survive
"""
FIX = (
    "  fix: write an ONNX model instead (-o FILE.onnx), or try another release of TensorRT;"
    " -v shows TensorRT's log\n"
)


def run(command: str, **options: int) -> subprocess.CompletedProcess[str]:
    code = f"{PROLOGUE}\ndef command():\n" + "".join(f"    {line}\n" for line in command.splitlines())
    return subprocess.run(
        [sys.executable, "-c", f"{code}\nsurvive(command)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


CRASHES = {
    "while something is known to be done": (
        "black_box.note_task('TensorRT built the engine')\nos.kill(os.getpid(), signal.SIGSEGV)",
        "error: the command crashed while TensorRT built the engine (segmentation fault)\n" + FIX,
    ),
    "before anything is known": (
        "os.abort()",
        "error: the command crashed (aborted)\n" + FIX,
    ),
    "killed": (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "error: the command crashed (killed: most likely memory ran out)\n" + FIX,
    ),
}


@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_is_told(case: str) -> None:
    command, message = CRASHES[case]
    done = run(command)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", message)


def test_what_was_half_written_is_removed(tmp_path: Path) -> None:
    done = run(
        "from prototrt.converter.files import atomic_write\n"
        f"with atomic_write({str(tmp_path / 'x.plan')!r}) as stream:\n"
        "    stream.write(b'half')\n    os.kill(os.getpid(), signal.SIGSEGV)"
    )
    assert done.returncode == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [0, 3])
def test_other_ends_are_passed_on(code: int) -> None:
    done = run(f"print('done')\nsys.exit({code})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "done\n", "")


def test_who_ends_the_command_ends_both_processes() -> None:
    done = run("os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(30)")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")

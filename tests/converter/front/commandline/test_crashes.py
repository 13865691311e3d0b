"""A command that native code ends without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prototrt.converter.files.writing.files import atomic_write
from prototrt.tests.cut_weights import SIZE, cut_short
from prototrt.tests.fresh_python import ROOT, run_python

PROLOGUE = """
import os, signal, sys, time
from prototrt.converter.files import black_box
from prototrt.converter.front.commandline.crashes import survive
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
        timeout=300,
    )


CRASHES = {
    "while something is known to be done": (
        "black_box.note(black_box.TASK, 'TensorRT built the engine')\nos.kill(os.getpid(), signal.SIGSEGV)",
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


def test_a_crash_is_told_where_nothing_can_be_tidied_up(tmp_path: Path) -> None:
    """The name of the lock is taken by a file of the user."""
    (tmp_path / ".prototrt-0123456789abcdef.part").mkdir()
    (tmp_path / ".prototrt-lock").write_text("mine")
    done = run(f"black_box.note(black_box.FOLDER, {str(tmp_path)!r})\nos.abort()")
    assert (done.returncode, done.stderr) == (4, CRASHES["before anything is known"][1])
    assert (tmp_path / ".prototrt-lock").read_text() == "mine"


@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_is_told(case: str) -> None:
    command, message = CRASHES[case]
    done = run(command)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", message)


def test_what_was_half_written_is_removed(tmp_path: Path) -> None:
    done = run(
        "from prototrt.converter.files.writing.files import atomic_write\n"
        f"with atomic_write({str(tmp_path / 'x.plan')!r}) as stream:\n"
        "    stream.write(b'half')\n    os.kill(os.getpid(), signal.SIGSEGV)"
    )
    assert done.returncode == 4
    assert list(tmp_path.iterdir()) == []


INSTALLED = (
    "import sys\nfrom prototrt.__main__ import prototrt_main\nsys.argv[0] = 'prototrt'\nprototrt_main()"
)
"""The command as it is installed."""


@pytest.mark.parametrize("command", ["convert", "run", "verify"])
def test_weights_that_are_cut_short_are_no_crash(command: str, tmp_path: Path) -> None:
    cut = cut_short(tmp_path)
    arguments = {"convert": ["-o", "a.onnx"], "run": ["-o", "a.npz", "--inputs", "x.npz"]}.get(command, [])
    np.savez(tmp_path / "x.npz", x=np.ones((1, SIZE), np.float32))
    before = sorted(os.listdir(tmp_path))
    done = run_python(
        "-c",
        INSTALLED,
        command,
        cut.net,
        cut.weights,
        "--rules",
        cut.rules,
        *arguments,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"error: {cut.message}\n")
    assert sorted(os.listdir(tmp_path)) == before


WAITING = """
import signal, sys, threading
from pathlib import Path
from prototrt import cli
from prototrt.converter.front.commandline.crashes import survive
from prototrt.converter.files.writing.files import atomic_write

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a background process inherits that they are ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

def command():
    with atomic_write("net.plan") as stream:
        stream.write(b"half")
        print("begun", flush=True)
        threading.Event().wait(60)

survive(command)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_command_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    process = begun(WAITING, tmp_path)
    process.send_signal(number)
    assert process.wait(300) == 128 + number
    assert os.listdir(tmp_path) == []


EARLY = """
import importlib.abc, os, signal, sys

class Kill(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

signal.signal({number}, signal.SIG_DFL)
sys.meta_path.insert(0, Kill())
sys.argv = ["prototrt", "layers"]
from prototrt.__main__ import prototrt_main
prototrt_main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "module", ["prototrt.converter.front.commandline.stopping", "prototrt.cli", "click", "prototrt.surgery"]
)
def test_a_signal_during_the_imports(module: str, number: signal.Signals) -> None:
    """Of the first process, and of the child in which the command runs."""
    code = EARLY.format(module=module, number=int(number))
    assert run_python("-c", code, check=False).returncode == 128 + number


def test_a_killed_command_ends_with_its_child_and_the_next_one_tidies_up(tmp_path: Path) -> None:
    process = begun(WAITING, tmp_path)
    process.kill()
    process.wait(300)
    assert process.stdout is not None
    assert process.stdout.read() == b""  # the child, which held it, is gone
    (left,) = tmp_path.iterdir()
    with atomic_write(tmp_path / "net.plan") as stream:
        stream.write(b"whole")
    assert not left.exists()
    assert os.listdir(tmp_path) == ["net.plan"]


def begun(code: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process that has begun to write."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


@pytest.mark.parametrize("code", [0, 3])
def test_other_ends_are_passed_on(code: int) -> None:
    done = run(f"print('done')\nsys.exit({code})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "done\n", "")


def test_who_ends_the_command_ends_both_processes() -> None:
    done = run("os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(30)")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")

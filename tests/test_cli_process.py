"""A command as a process: pipes that close, full disks, Ctrl-C at any time."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import prototrt
from prototrt.converter.front.commandline.frame import GuardedCommand
from prototrt.tests.command_line import run
from prototrt.tests.fresh_python import ROOT


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = "import sys; from prototrt.cli import main; sys.stdout.reconfigure(line_buffering=True); main()"
    command = f"{sys.executable} -c '{code}' layers --markdown; echo $? >&2"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    result = subprocess.run(
        ["bash", "-c", f"({command}) | true"], env=environment, capture_output=True, text=True, check=False
    )
    assert result.stderr == "0\n"


SNOWMAN = 'layer { name: "\u2603" type: "Input" top: "x" input_param { shape { dim: 2 } } }' + (
    'layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'
)


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "net.prototxt").write_text(SNOWMAN, encoding="utf-8")
    line = f"{shlex.quote(sys.executable)} -c 'from prototrt.cli import main; main()' {command}"
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=known, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk(tmp_path: Path) -> None:
    result = shell("inspect net.prototxt >/dev/full", tmp_path)
    assert (result.returncode, result.stderr) == (3, "error: the system reports: No space left on device\n")
    assert shell("inspect nowhere 2>/dev/full", tmp_path).returncode == 3
    of_help = shell("inspect --help >/dev/full", tmp_path)
    assert (of_help.returncode, of_help.stderr) == (3, result.stderr)


def test_a_closed_stdout(tmp_path: Path) -> None:
    result = shell("inspect net.prototxt >&-", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("command", ["survey .", "convert net.prototxt -o net.onnx --random-weights 1"])
def test_a_closed_stderr(command: str, tmp_path: Path) -> None:
    """Where there would be a bar on a terminal."""
    result = shell(f"{command} 2>&-", tmp_path)
    assert (result.returncode, result.stdout != "") == (0, True)


@pytest.mark.parametrize("command", ["prototrt", "convert"])
def test_ctrl_c_during_the_imports(command: str) -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'prototrt.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        f"from prototrt.__main__ import {command}_main\n{command}_main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "stopped\n")


def test_it_runs_as_a_module() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    command = [sys.executable, "-m", "prototrt", "--version"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, f"prototrt, version {prototrt.__version__}\n")


def test_a_terminal_that_lacks_a_letter(tmp_path: Path) -> None:
    result = shell("inspect net.prototxt", tmp_path, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    assert r"\u2603" in result.stdout


def test_ctrl_c_before_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GuardedCommand, "parse_args", stopped)
    result = run("layers")
    assert (result.exit_code, result.stderr.strip()) == (130, "stopped")


INTERRUPTED_TWICE = """
import atexit, os, signal
from prototrt import __main__, cli

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def command():
    try:
        interrupt()
    finally:
        interrupt()
        print("tidied up", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(interrupt)
cli.prototrt_main = command
__main__.prototrt_main()
"""


def test_ctrl_c_that_comes_again_disturbs_neither_tidying_up_nor_the_end() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_TWICE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "tidied up\n", "stopped\n")


SWALLOWED = """
import signal, sys
from unittest import mock
from prototrt import __main__

def interrupted():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        {reaction}

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["prototrt", "layers"]
with mock.patch("prototrt.surgery.views.support.supported_layers", interrupted):
    __main__.prototrt_main()
"""


@pytest.mark.parametrize(
    "reaction", ["raise TypeError('expected a message argument') from None", "return []"]
)
def test_ctrl_c_that_a_library_swallows(reaction: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(reaction=reaction)],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (130, "stopped\n")


def test_ctrl_c_within_code_that_is_made_from_a_string() -> None:
    """Python remembers it, and would end the process by the signal although it was caught."""
    code = (
        "import signal; signal.signal(2, signal.default_int_handler)\n"
        "from prototrt import __main__, cli\n"
        "cli.prototrt_main = lambda: exec('signal.raise_signal(2)')\n"
        "__main__.prototrt_main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "stopped\n")


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    code = "import signal; from prototrt import __main__, cli; cli.prototrt_main = lambda: signal.raise_signal(2)\n"
    result = subprocess.run(
        ["bash", "-c", f"trap '' INT; {sys.executable} -c '{code}__main__.prototrt_main(); print(1)'"],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


SETTINGS = """
import os
from prototrt import __main__, cli
cli.prototrt_main = lambda: print(os.environ.get("GLIBC_TUNABLES"), os.getpid())
__main__.prototrt_main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are Linux's")
@pytest.mark.parametrize(
    ("size", "own", "expected"),
    [
        (1 << 26, {}, "glibc.malloc.hugetlb=1"),
        (1 << 20, {}, "None"),
        (1 << 26, {"GLIBC_TUNABLES": "glibc.malloc.perturb=0"}, "glibc.malloc.perturb=0"),
    ],
    ids=["large", "small", "the user's"],
)
def test_large_files_get_huge_pages(tmp_path: Path, size: int, own: dict[str, str], expected: str) -> None:
    weights = tmp_path / "net.caffemodel"
    with weights.open("wb") as stream:
        stream.truncate(size)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev"), **own}
    process = subprocess.Popen(
        [sys.executable, "-c", SETTINGS, "convert", "no file\n", weights],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    found, _ = process.communicate()
    assert (process.returncode, found) == (0, f"{expected} {process.pid}\n")

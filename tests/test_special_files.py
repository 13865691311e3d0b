"""A pipe, a device or a socket as an input is refused at once: reading one may never end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click
import pytest

from prototrt.cli import main
from prototrt.converter.front.commandline.options.parameter_types import InputFile
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, run

NPZ = str(Path(WEIGHTS).with_name("strips_in.npz"))
NETS = {"triton": STREAM}
"""Of commands that cannot take the other one."""
OUTPUT = {
    "convert": ["-o", "out.plan"],
    "dot": ["-o", "out.html"],
    "calibrate": ["-o", "out.json"],
    "run": ["-o", "out.npz"],
    "batch": ["-o", "out"],
    "triton": ["-o", "out"],
    "deepstream": ["-o", "out"],
    "new-rule": ["-o", "out.py"],
    "upgrade": ["-o", "new.prototxt"],
}
EXPECTED = {
    "model": "a prototxt",
    "weights": "a weights file",
    "settings": "a JSON file",
    "rules": "a Python file with rules",
    "replace": "a Python file with rules",
    "state": "an npz file",
    "verification": "the output of verify as JSON",
    "inputs": "an npz file",
    "expect": "an npz file",
    "scales": "a file of scales",
    "calibration_cache": "a calibration cache, or a table",
    "models": "a list of models",
    "nets": "a prototxt",
    "labels": "a file of labels",
    "old_config": "a config of Gst-nvinfer",
    "data_loader": "a Python file",
    "shown": "the results of a self-test",
}


QUANTIZED = ("scales", "calibration_cache")
SHOWN = ("nets", "settings", "rules", "state", *QUANTIZED)
"""What a survey or a page shows to be wrong, rather than to fail."""


def inputs() -> list[tuple[str, str]]:
    """Each command with each of the files that it reads."""
    assert isinstance(main, click.Group)
    return [
        (name, parameter.name or "")
        for name, command in main.commands.items()
        for parameter in command.params
        if isinstance(parameter.type, InputFile)
    ]


def arguments(command: str, parameter: str, file: str) -> list[str]:
    """The command with that file in the place of the parameter."""
    if command in ("batch", "survey"):
        return [command, file, *OUTPUT.get(command, [])]
    if command == "selftest":
        return [command, "--show", file]
    given = [file if parameter == "model" else NETS.get(command, DEPLOY)]
    if command != "deploy":
        given.append(file if parameter == "weights" else WEIGHTS)
    if command == "inspect" and parameter in ("state", *QUANTIZED):
        given += ["--stage", "rewritten"]
    if parameter in QUANTIZED and command != "calibrate":
        given += ["--precision", "int8"]
    if command == "new-rule":
        given.insert(1, "prob")
    if parameter == "state":
        given += ["--state", "const", file]
    elif parameter == "replace":
        given += ["--replace", f"prob={file}:rule"]
    elif parameter not in ("model", "weights"):
        given += [f"--{parameter.replace('_', '-')}", file]
    if command == "calibrate" and parameter in QUANTIZED:
        return [command, *given, *OUTPUT[command]]
    if parameter not in ("inputs", "data_loader") and (
        command in ("run", "calibrate") or parameter == "expect"
    ):
        given += ["--inputs", NPZ]
    return [command, *given, *OUTPUT.get(command, [])]


@pytest.fixture(autouse=True)
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def too_late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the command waits for the file")

    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(file: str, found: str, parameter: str) -> str:
    return f"{file}: this is {found}, expected {EXPECTED[parameter]}\n  fix: save it as a regular file\n"


@pytest.mark.parametrize(("command", "parameter"), inputs())
def test_a_pipe_is_not_waited_for(command: str, parameter: str) -> None:
    pipe = "pipe.py" if parameter == "data_loader" else "pipe.npz"
    os.mkfifo(pipe)
    result = run(*arguments(command, parameter, pipe))
    assert "this is a device or a pipe, expected" in result.output
    if command in ("survey", "dot"):  # they show what is wrong
        assert result.exit_code == 0 if parameter in SHOWN else 3
    else:
        assert (result.exit_code, result.output) == (
            3,
            f"error: {refusal(pipe, 'a device or a pipe', parameter)}",
        )
        assert os.listdir() == [pipe]


@pytest.mark.parametrize("file", ["/dev/zero", "socket"])
def test_a_device_and_a_socket_are_refused(file: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        found = "a socket" if file == "socket" else "a device or a pipe"
        for model, weights, parameter in ((file, WEIGHTS, "model"), (DEPLOY, file, "weights")):
            result = run("convert", model, weights, "-o", "out.plan")
            assert (result.exit_code, result.output) == (3, f"error: {refusal(file, found, parameter)}")

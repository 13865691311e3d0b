"""Ctrl-C at many moments of every command: whenever it comes, the exit code is 130, and nothing half is left.

    python -m prototrt.tests.tools.interrupt_commands [MOMENTS [COMMAND...]]

Each command runs once to the end, to know how long it takes, and then once for each moment. A moment at which the
command has already done its work does not count. Neither does one while Python itself starts: no program can catch a
signal then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "samples" / "digits"
NET, WEIGHTS = str(DIGITS / "deploy.prototxt"), str(DIGITS / "digits.caffemodel")
INPUTS = str(DIGITS / "strips_in.npz")
MODELS = f"""
models:
  - {{name: one, prototxt: {NET}, weights: {WEIGHTS}, backend: rtx}}
"""
IMAGE = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 4 } }
layer { name: "y" type: "Softmax" bottom: "fc" top: "y" }
"""
SHAPES = ("--shape", "data:40x1x1x28x28", "--shape", "cont:40x1")
COMMANDS: Mapping[str, Sequence[str]] = {
    "batch": ["batch", "models.yaml", "-o", "engines"],
    "bench": ["bench", NET, WEIGHTS, "--calls", "2"],
    "calibrate": ["calibrate", NET, WEIGHTS, "--inputs", INPUTS, "-o", "scales.json"],
    "convert": ["convert", NET, WEIGHTS, "--backend", "rtx", "-o", "net.plan"],
    "convert to ONNX": ["convert", NET, WEIGHTS, "-o", "net.onnx"],
    "convert to PyTorch": ["convert", NET, WEIGHTS, "-o", "net.py"],
    "deepstream": ["deepstream", "image.prototxt", "--random-weights", "1", "-o", "deepstream"],
    "deploy": ["deploy", str(DIGITS / "train_val.prototxt"), *SHAPES, "-o", "deploy.prototxt"],
    "doctor": ["doctor"],
    "dot": ["dot", NET, "-o", "net.html"],
    "inspect": ["inspect", NET],
    "layers": ["layers"],
    "run": ["run", NET, WEIGHTS, "--inputs", INPUTS, "-o", "out.npz"],
    "survey": ["survey", str(ROOT / "samples")],
    "triton": ["triton", "image.prototxt", "--random-weights", "1", "-o", "repository"],
    "upgrade": ["upgrade", NET, WEIGHTS, "-o", "net.prototxt", "-o", "net.caffemodel"],
    "verify": ["verify", NET, WEIGHTS],
    "weights set": ["weights", "set", NET, WEIGHTS, "biases.npz", "-o", "net.caffemodel"],
}
STARTING = ("init_import_site", '/prototrt/__init__.py"', "in _get_module_details")
"""What Python prints if the signal comes while it reads its own modules, or finds this package."""
ENDED, BEFORE_PYTHON = "had ended", "while Python started"


@dataclass
class Interrupted:
    """What a command did at all moments: exit codes, and what went wrong."""

    seconds: float
    codes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def fill(folder: str) -> None:
    """The files that the commands read."""
    Path(folder, "models.yaml").write_text(MODELS)
    Path(folder, "image.prototxt").write_text(IMAGE)
    np.savez(Path(folder, "biases.npz"), **{"conv1/0": np.zeros((12, 1, 3, 3), np.float32)})  # type: ignore[arg-type]


def files(folder: str) -> dict[str, bytes]:
    """What a user sees, but for plans: two builds of one may differ."""
    found = (path for path in Path(folder).rglob("*") if path.is_file() and ".plan" not in path.name)
    return {
        name: path.read_bytes()
        for path in found
        if not (name := str(path.relative_to(folder))).startswith(".")
    }


def start(arguments: Sequence[str], folder: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "prototrt", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def interrupted(arguments: Sequence[str], moments: int) -> Interrupted:
    """Run the command, and end it at each moment of its run, as a terminal does it: all of its processes at once."""
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        began = time.monotonic()
        process = start(arguments, folder)
        _, told = process.communicate()
        assert process.returncode == 0, told
        found, whole = Interrupted(time.monotonic() - began), files(folder)
    for moment in range(moments):
        with tempfile.TemporaryDirectory() as folder:
            fill(folder)
            seconds = found.seconds * (moment + 0.5) / moments
            process = start(arguments, folder)
            time.sleep(seconds)
            had_ended = process.poll() is not None
            if not had_ended:
                os.killpg(process.pid, signal.SIGINT)
            _, told = process.communicate()
            code = str(process.returncode)
            if had_ended or code == "0":
                code = ENDED
            elif code != "130" and (not told or any(place in told for place in STARTING)):
                code = BEFORE_PYTHON
            elif code != "130" or told.strip() not in ("stopped", ""):
                found.faults.append(f"after {seconds:.2f} s: exit code {code}\n{told}")
            found.codes[code] += 1
            left = [name for name in os.listdir(folder) if name.startswith(".")]
            left += [name for name, content in files(folder).items() if content != whole.get(name)]
            if left:
                found.faults.append(f"after {seconds:.2f} s: {', '.join(left)} left behind")
    return found


def main() -> None:
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    faults = 0
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a background process inherits that it is ignored
    for name in sys.argv[2:] or COMMANDS:
        found = interrupted(COMMANDS[name], moments)
        faults += len(found.faults)
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(found.codes.items()))
        print(f"{name} ({found.seconds:.1f} s): {codes}", flush=True)
        for fault in found.faults:
            print(f"  {fault}", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

"""Real Caffe, in a separate process: it reads nets, and returns their results."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.surgery.ir import Array

COMMAND = os.environ.get("CAFFE_PYTHON", "")
"""The command of a Python 3 that can ``import caffe``; it may run in a container."""


@dataclass(frozen=True)
class Answer:
    """What Caffe computed: the outputs of each call, and the caffemodel that it saved."""

    calls: list[dict[str, Array]]
    weights: bytes


class RefusedError(Exception):
    """Caffe ended the process; the text is what it logged."""


class Caffe:
    """The process. Each net has one of its own in there."""

    def __init__(self) -> None:
        server = Path(__file__).with_name("caffe_server.py").read_text()
        command = [*shlex.split(COMMAND), "-c", server]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(
        self, net: str, calls: Sequence[Mapping[str, Array]], seed: int = 0, weights: bytes | None = None
    ) -> Answer:
        """The net with a caffemodel, or with random weights. Raises ``RefusedError``."""
        request = {
            "net": net,
            "seed": seed,
            "weights": None if weights is None else base64.b64encode(weights).decode(),
            "calls": [{name: _sent(array) for name, array in call.items()} for call in calls],
        }
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "Caffe's Python ended"
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        outputs = [{name: _received(sent) for name, sent in call.items()} for call in answer["calls"]]
        return Answer(outputs, base64.b64decode(answer["weights"]))

    def close(self) -> None:
        self.process.communicate()


def _sent(array: Array) -> dict[str, Any]:
    return {"shape": list(array.shape), "data": base64.b64encode(np.float32(array).tobytes()).decode()}


def _received(sent: Mapping[str, Any]) -> Array:
    return np.frombuffer(base64.b64decode(sent["data"]), np.float32).reshape(sent["shape"])

"""What to type after ``convert``, on the machine that will run the result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.converter.companions.script import script_of
from prototrt.converter.machines.targets import Target


def next_steps(path: str, manifest: Mapping[str, Any], target: Target | None) -> list[str]:
    """The lines about the next command; none if nobody said what the machine is."""
    if target is None:
        return []
    if "trtexec" in manifest:
        return [*_repository(target), *_with_trtexec(path, manifest["trtexec"], target)]
    name = Path(path).name
    if target.backend is not None:
        command = shlex.join(["prototrt", "run", name, "--inputs", "in.npz", "-o", "out.npz"])
        return [f"next     on {target.machine} with such a GPU: {command}"]
    code = f"import onnxruntime; print(onnxruntime.InferenceSession({json.dumps(name)}).get_inputs())"
    return [f"next     {shlex.join(['python', '-c', code])}"]


def _repository(target: Target) -> list[str]:
    """One line about the command that does all of it for a server."""
    if not target.batches:
        return []
    return ["next     prototrt triton MODEL WEIGHTS -o REPOSITORY writes all that Triton needs"]


def _with_trtexec(path: str, command: list[str], target: Target) -> list[str]:
    written = [file for file in (path, f"{path}.data", script_of(path)) if Path(file).is_file()]
    *files, script = [shlex.quote(Path(file).name) for file in written]
    begin = "or" if target.batches else "next"
    return [
        f"{begin:8} copy {', '.join(files)} and {script} to {target.machine}, and type there: sh {script}",
        f"         it runs {shlex.join(command)}",
    ]

"""The clocks of the GPU, and PyTorch where it sees the GPU."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from typing import Any

from prototrt.converter.checking.selftest.privacy import anonymous

_CLOCKS_WITHIN = 20
"""Seconds. Where a GPU hangs, nvidia-smi does, too."""


def torch_with_gpu() -> Any:
    """PyTorch, where it is installed and sees the GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def clocks() -> str:
    """The current clocks of the GPU, from nvidia-smi: speeds mean little without them."""
    if (command := shutil.which("nvidia-smi")) is None:
        return "nvidia-smi is not here"
    query = "clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw"
    options = [f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            [command, *options], capture_output=True, text=True, check=False, timeout=_CLOCKS_WITHIN
        )
    except subprocess.TimeoutExpired:
        return f"nvidia-smi did not answer within {_CLOCKS_WITHIN} s"
    if answer.returncode:
        return anonymous(answer.stderr.strip())
    return f"{query}: {'; '.join(answer.stdout.splitlines())}"

"""A PyTorch module that was written for a graph, run with its state as a session is."""

from __future__ import annotations

import importlib.util
import itertools
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import prototrt
from prototrt.surgery.ir import Graph

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch safetensors")
pytest.importorskip("safetensors", reason="needs safetensors: pip install safetensors")
_NUMBERS = itertools.count()


def imported(file: Path) -> ModuleType:
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"written_net_{next(_NUMBERS)}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def module_of(graph: Graph, folder: Path | None = None) -> Any:
    """The module that the file of the graph loads."""
    with tempfile.TemporaryDirectory() as name:
        file = (folder or Path(name)) / "net.py"
        prototrt.export_torch(graph, file)
        return imported(file).load()


class TorchSession(prototrt.Session):
    """Runs the module of a graph, and leaves out rows that do not count."""

    def __init__(self, graph: Graph, device: str | None = None) -> None:
        super().__init__(graph, on="torch", cut=True, device=device)

"""A graph evaluated by the program that is written for it: its network is made, read back and computed in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prototrt.converter.backends.python_source import SourceText
from prototrt.converter.backends.readback import NetworkInterpreter
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.converter.backends.tensorrt_python.export import program_of
from prototrt.surgery.ir import Graph

_FILE = Path("build.py")


def program_evaluator(graph: Graph) -> NetworkInterpreter:
    """Runs the network that the program of a graph makes. Raises as ``export_tensorrt_python`` does."""
    program, _ = program_of(graph, _FILE)
    made = ProgramNetwork(program, find_backend())
    return NetworkInterpreter(made.trt, made.definition, owner=made)


class ProgramNetwork:
    """The network that a program makes, with what must live as long as it."""

    def __init__(self, program: SourceText, backend: Backend) -> None:
        self.trt = backend.trt
        self._builder = backend.builder(self.trt.Logger(self.trt.Logger.ERROR))
        self.definition = self._builder.create_network(backend.network_flags())
        # As a file would hold them: TensorRT takes no array of equal numbers that are stored once.
        self._arrays = {name: np.asarray(array, order="C") for name, array in program.arrays.items()}
        names: dict[str, Any] = {"__name__": "program", "__file__": str(_FILE)}
        exec(compile(program.text, str(_FILE), "exec", dont_inherit=True), names)
        # The program takes tensorrt where that is installed, also where it cannot build.
        names["trt"] = self.trt
        names["fill"](self.definition, self._arrays)

"""A graph evaluated by the PyTorch module that is written for it."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.installing import optional_module, refuse_without
from prototrt.converter.backends.torch.export import export_torch
from prototrt.surgery.ir import Array, Graph


def refuse_without_torch() -> None:
    """Raise ``BuildError`` where PyTorch or safetensors is not installed."""
    for name in ("torch", "safetensors"):
        refuse_without(name, f"a PyTorch module needs the package {name}", error=BuildError)


class TorchEvaluator:
    """Runs the module of a graph on a device of PyTorch, such as ``"cuda"``, there in float32 without TF32.

    Raises ``BuildError`` if PyTorch or safetensors cannot be imported, or PyTorch has no such device here.
    """

    def __init__(self, graph: Graph, device: str = "cpu") -> None:
        self._torch, _ = (
            optional_module(name, "a PyTorch module", "torch") for name in ("torch", "safetensors")
        )
        self._device = device
        states = [pair.input for pair in graph.recurrences if not pair.exposed]
        self._arguments = [value for value in graph.inputs if value not in states] + states
        self._outputs = graph.outputs
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.py"
            export_torch(graph, path)
            net = _execute(path).load()
        try:
            self._net = net.to(device)
        except (RuntimeError, AssertionError) as error:  # PyTorch asserts where it was built without CUDA
            raise BuildError(
                f"PyTorch cannot compute on the device {device!r}: {error}",
                fix="leave device out to compute on the CPU, or install a PyTorch for this machine's GPU",
            ) from error

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        arrays = [np.array(feeds[value.name]) for value in self._arguments]
        tensors = [self._torch.from_numpy(array).to(self._device) for array in arrays]
        # Convolutions and recurrent layers of cuDNN use TF32 unless this is said; products of PyTorch do not.
        with self._torch.no_grad(), self._torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            results = self._net(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        return {
            value.name: result.detach().cpu().numpy()
            for value, result in zip(self._outputs, results, strict=True)
        }


def _execute(path: Path) -> Any:
    """The file as a module, which no ``import`` finds."""
    spec = importlib.util.spec_from_file_location("prototrt_written_net", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

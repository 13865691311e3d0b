"""The third opinion: a Graph written as ONNX and run by onnxruntime, on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.errors import BuildError, ConversionError
from prototrt.converter.onnx.api import imported
from prototrt.converter.onnx.export import onnx_from_graph
from prototrt.converter.onnx.file import write_model
from prototrt.converter.publication import publication
from prototrt.surgery.ir import Array, Graph

_ERRORS_ONLY = 3


class OnnxEvaluator:
    """Runs the very file that is exported, written to a temporary folder."""

    def __init__(self, graph: Graph, onnx_lstm: bool = False) -> None:
        self._runtime = imported("onnxruntime")
        self._outputs = [value.name for value in graph.outputs]
        model, lowered = onnx_from_graph(graph, onnx_lstm)
        with tempfile.TemporaryDirectory(prefix="prototrt-") as folder:
            path = Path(folder) / "model.onnx"
            with publication(path, durable=False) as files:
                write_model(files, path, model, lowered.weights)
            self._session = self._opened(path)
        self._inputs = {item.name for item in self._session.get_inputs()}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, states included, for these inputs, states included."""
        given = {name: array for name, array in feeds.items() if name in self._inputs}
        try:
            results = self._session.run(self._outputs, given)
        except Exception as error:  # onnxruntime's errors share no base class
            raise ConversionError("onnxruntime stops", because=str(error)) from error
        return dict(zip(self._outputs, results, strict=True))

    def _opened(self, path: Path) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        # Products of 8 bits are computed exactly as the model states. onnxruntime's own kernels overflow 16
        # bits on some CPUs.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        try:
            return self._runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base class
            raise BuildError("onnxruntime refuses the model", because=str(error)) from error

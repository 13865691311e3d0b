"""The model that Triton's Python backend runs: `prototrt triton` copies it into a repository as ``model.py``.

It needs prototrt in the Python that Triton uses.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.serving.triton.serving import Arrays, Request, Serving
from prototrt.surgery.ir import Array

_TAKEN = ctypes.c_char_p(b"used_dltensor")


class TritonPythonModel:
    """One instance of the model. Triton creates it, and calls its methods."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model in the folder of this version: the plan for an instance on a GPU, else the ONNX model."""
        folder = Path(args["model_repository"], args["model_version"])
        config = json.loads(args["model_config"])
        self._inputs = [*config["input"], *config.get("sequence_batching", {}).get("control_input", [])]
        self._serving = Serving.of_version(folder, config, args["model_instance_kind"] == "GPU")

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response for each request, of as many sequences."""
        answers = self._serving.answer([self._request(request) for request in requests])
        return [_response(*each) for each in zip(requests, answers, strict=True)]

    def finalize(self) -> None:
        """Free the model before it is unloaded."""
        self._serving.close()

    def _request(self, request: Any) -> Request:
        names = [tensor["name"] for tensor in self._inputs]
        tensors = {name: triton.get_input_tensor_by_name(request, name) for name in names}
        return Request(
            # DLPack: a server that was built for NumPy 1 cannot read and make arrays of NumPy 2.
            {name: np.from_dlpack(tensor) for name, tensor in tensors.items() if tensor is not None},
            request.correlation_id(),
            bool(request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START),
            bool(request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END),
        )


def _response(request: Any, answer: Arrays | ConversionError) -> Any:
    if isinstance(answer, ConversionError):
        return triton.InferenceResponse(error=triton.TritonError(str(answer)))
    names = request.requested_output_names()
    return triton.InferenceResponse([_tensor(name, answer[name]) for name in names])


def _tensor(name: str, array: Array) -> Any:
    capsule = array.copy(order="C").__dlpack__()
    tensor = triton.Tensor.from_dlpack(name, capsule)
    # Triton calls a capsule that it took over "used_dlpack". NumPy expects DLPack's name, and would complain on stderr.
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), _TAKEN)
    return tensor

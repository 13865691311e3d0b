"""What a session does on this GPU with an engine of PyTorch: where TensorRT does not run, all else is still tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import prototrt
from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.surgery.ir import Graph
from prototrt.tests.gpu import engines, libraries, sessions
from prototrt.tests.gpu.rows import Check, NotHereError
from prototrt.tests.gpu.sessions import SessionOf
from prototrt.tests.gpu.timing import torch_with_gpu


def torch_session(graph: Graph, **options: Any) -> prototrt.Session:
    if torch_with_gpu() is None:
        raise NotHereError("there is no PyTorch that sees the GPU")
    from prototrt.tests.gpu.torch_engine import torch_engine

    return prototrt.Session(torch_engine(graph, options.pop("device", None) or CudaPythonDevice()), **options)


def stand_in(session_of: SessionOf = torch_session) -> Iterator[Check]:
    """The adapter for cuda-python, CUDA graphs, DLPack, streams, freeing, threads."""
    for section in (sessions.sessions, libraries.libraries, engines.replays, engines.profiles):
        for check in section(session_of):
            yield replace(check, what=f"{check.what}, PyTorch's engine")

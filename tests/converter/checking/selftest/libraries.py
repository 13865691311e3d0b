"""Arrays, streams and contexts of PyTorch, CuPy and PyCUDA, beside the primitives in NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import prototrt
from prototrt.converter.checking.selftest.gpu import torch_with_gpu
from prototrt.converter.checking.selftest.nets import SessionOf
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.checking.selftest.sessions import SIZE, Feeds, followed, largest_of, small_lstm

Way = Callable[[SessionOf, Graph], str]
_RESULT = (SIZE.steps, SIZE.streams, SIZE.hidden)


def libraries(session_of: SessionOf) -> Iterator[Check]:
    graph = small_lstm()
    ways: dict[str, Way] = {
        "arrays of PyTorch": torch_arrays,
        "a stream of PyTorch, never waited for": torch_stream,
        "arrays of CuPy": cupy_arrays,
    }
    for what, way in ways.items():
        yield Check(f"session, {what}", lambda way=way: way(session_of, graph))  # type: ignore[misc]  # mypy does not infer it


def pycuda(session_of: SessionOf) -> Iterator[Check]:
    """By itself: PyCUDA has a context of its own."""
    graph = small_lstm()
    yield Check("session, the adapter for PyCUDA", lambda: pycuda_device(session_of, graph))
    yield Check("session, arrays of PyCUDA", lambda: pycuda_arrays(session_of, graph))


def torch_arrays(session_of: SessionOf, graph: Graph) -> str:
    torch, session = _torch(), session_of(graph)

    def run(feeds: Feeds) -> Array:
        there = {name: torch.from_numpy(array).cuda() for name, array in feeds.items()}
        target = torch.empty(*_RESULT, device="cuda")
        torch.cuda.synchronize()
        session.run(there, outputs={"h": target})
        return np.asarray(target.cpu().numpy())

    return largest_of(followed(run, prototrt.Session(graph), 3))


def torch_stream(session_of: SessionOf, graph: Graph) -> str:
    """What is queued before the call is seen by it, and what is queued after it sees its results."""
    torch = _torch()
    stream = torch.cuda.Stream()
    session = session_of(graph, stream=stream)

    def run(feeds: Feeds) -> Array:
        with torch.cuda.stream(stream):
            there = {name: torch.from_numpy(array).cuda() for name, array in feeds.items()}
            doubled = {name: array + array for name, array in there.items()}
            halved = {name: array * 0.5 for name, array in doubled.items()}
            target = torch.full(_RESULT, float("nan"), device="cuda")
            session.run(halved, outputs={"h": target})
            copy = target * 1
        stream.synchronize()
        return np.asarray(copy.cpu().numpy())

    return largest_of(followed(run, prototrt.Session(graph), 4))


def cupy_arrays(session_of: SessionOf, graph: Graph) -> str:
    cupy = _imported("cupy")
    if not cupy.cuda.is_available():
        raise NotHereError("CuPy sees no GPU")
    session = session_of(graph)

    def run(feeds: Feeds) -> Array:
        there = {name: cupy.asarray(array) for name, array in feeds.items()}
        target = cupy.empty(_RESULT, np.float32)
        cupy.cuda.get_current_stream().synchronize()
        session.run(there, outputs={"h": target})
        return np.asarray(cupy.asnumpy(target))

    return largest_of(followed(run, prototrt.Session(graph), 5))


def pycuda_device(session_of: SessionOf, graph: Graph) -> str:
    _imported("pycuda.autoinit")
    session = session_of(graph, device="pycuda")
    return largest_of(followed(lambda feeds: session.run(feeds)["h"], prototrt.Session(graph), 6))


def pycuda_arrays(session_of: SessionOf, graph: Graph) -> str:
    _imported("pycuda.autoinit")
    gpuarray, session = _imported("pycuda.gpuarray"), session_of(graph, device="pycuda")

    def run(feeds: Feeds) -> Array:
        there = {name: gpuarray.to_gpu(array) for name, array in feeds.items()}
        target = gpuarray.empty(_RESULT, np.float32)
        session.run(there, outputs={"h": target})
        return np.asarray(target.get())

    return largest_of(followed(run, prototrt.Session(graph), 7))


def _torch() -> Any:
    torch = torch_with_gpu()
    if torch is None:
        raise NotHereError("there is no PyTorch that sees the GPU")
    return torch


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # each library has its own way of missing a GPU
        raise NotHereError(f"{name} cannot be imported: {error}") from error

"""Sessions on the stand-in that computes with PyTorch, over the fake GPU; and real tensors as inputs and outputs."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.checking.selftest.rows import row_of
from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.running.runtime.dlpack import tensor_in
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.checking.selftest import engine_checks, libraries, sessions
from prototrt.tests.converter.checking.selftest.sessions import (
    CALLS,
    followed,
    going_on_from,
    plain,
    small_lstm,
)
from prototrt.tests.converter.checking.selftest.torch_engine import KNOWN, ops_of, torch_engine
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import gpu_of
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.golden_cases import Case, check, recurrent_runs

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
STREAM = 77


def session_of(graph: Graph, **options: Any) -> prototrt.Session:
    return prototrt.Session(torch_engine(graph, FakeDevice()), **options)


class OnGpu:
    """A tensor of PyTorch that says it is on the fake GPU; what fills it waits in a stream."""

    def __init__(self, device: FakeDevice, tensor: Any) -> None:
        self.device, self.tensor = device, tensor
        device.memory[tensor.data_ptr()] = tensor.detach().numpy().reshape(-1).view(np.uint8)

    @property
    def requires_grad(self) -> bool:
        return bool(self.tensor.requires_grad)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """As PyTorch has it: without a stream."""
        shape, address = tuple(self.tensor.shape), self.tensor.data_ptr()
        return {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 2}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int) -> Any:
        self.device.wait(stream, STREAM)
        capsule = self.tensor.__dlpack__()
        tensor_in(capsule).device.kind = 2
        return capsule


def on_gpu(device: FakeDevice, shape: tuple[int, ...]) -> OnGpu:
    return OnGpu(device, torch.full(shape, float("nan"))[...])


@pytest.mark.parametrize(("case", "sequence"), recurrent_runs(), ids=str)
def test_goldens(case: Case, sequence: Form) -> None:
    unknown = ops_of(prototrt.rewrite(case.load(), sequence=sequence)) - set(KNOWN)
    if unknown:
        pytest.skip(f"the stand-in has no {', '.join(sorted(op.__name__ for op in unknown))}")
    check(case, session_of, sequence)


def test_tensors_are_read_after_they_are_written() -> None:
    """Queued on a stream of PyTorch, never waited for by anybody but the session."""
    session = session_of(dynamic_graph())
    device, reference = gpu_of(session.engine), prototrt.Session(dynamic_graph())
    device.adopt_stream(STREAM)
    for call in range(4):
        feeds = continuing(2, 3, call)
        mine = {name: on_gpu(device, array.shape) for name, array in feeds.items()}
        for name, array in feeds.items():
            device.queue(STREAM, partial(mine[name].tensor.copy_, torch.tensor(array)))
        target = on_gpu(device, (2, 3, 8))
        session.run(mine, outputs={"h": target})
        np.testing.assert_allclose(target.tensor.numpy(), reference.run(feeds)["h"], rtol=1e-5, atol=1e-6)


def test_tensors_on_the_host() -> None:
    session, reference = session_of(dynamic_graph()), prototrt.Session(dynamic_graph())
    feeds = continuing(2, 3, 0)
    found = session.run({name: torch.tensor(array) for name, array in feeds.items()})["h"]
    np.testing.assert_allclose(found, reference.run(feeds)["h"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["host", "gpu"])
def test_tensors_that_require_a_gradient(place: str) -> None:
    session = session_of(dynamic_graph())
    tensor = torch.zeros(2, 3, 6, requires_grad=True)
    mine = OnGpu(gpu_of(session.engine), tensor) if place == "gpu" else tensor
    for one in (session, prototrt.Session(dynamic_graph())):
        with pytest.raises(ShapeError) as caught:
            one.run({**continuing(2, 3, 0), "x": mine})
        assert str(caught.value) == 'the tensor for "x" requires a gradient\n  fix: give tensor.detach()'


def test_a_tensor_lives_as_long_as_a_call_needs_it() -> None:
    session = session_of(dynamic_graph())
    device = gpu_of(session.engine)
    device.adopt_stream(STREAM)
    feeds: dict[str, Any] = continuing(2, 3, 0)
    mine = on_gpu(device, (2, 3, 6))
    mine.tensor.copy_(torch.tensor(feeds["x"]))
    gone = weakref.ref(mine)
    call = session.prepare({**feeds, "x": mine})
    del mine
    gc.collect()
    assert gone() is not None
    call.run()
    del call
    gc.collect()
    assert gone() is None


def test_graphs_replay_what_pytorch_computes() -> None:
    graph = small_lstm()
    session = session_of(graph)
    for seed in (1, 2):
        followed(plain(session), going_on_from(session, graph), seed)
    device = gpu_of(session.engine)
    assert [made.launches for made in device.graphs] == [CALLS - 1] * 2
    session.close()
    assert device.memory == {}


def test_steps_and_prepared_calls() -> None:
    graph = lstm_graph(Size(hidden=8, steps=1, streams=2), "step")
    session, reference = session_of(graph), prototrt.Session(graph)
    random = np.random.default_rng(1)
    x, cont = random.standard_normal((5, 1, 2, 8), np.float32), np.ones((5, 1, 2), np.float32)
    for _ in range(4):
        found = session.run_steps({"x": x, "cont": cont}, 5)["h"]
        wanted = reference.run_steps({"x": x, "cont": cont}, 5)["h"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    call, same = (
        session.prepare({"x": x[0], "cont": cont[0]}),
        reference.prepare({"x": x[0], "cont": cont[0]}),
    )
    for _ in range(4):
        np.testing.assert_allclose(call.run()["h"], same.run()["h"], rtol=1e-5, atol=1e-6)


def test_threads() -> None:
    graph = small_lstm()
    engine, worst = torch_engine(graph, FakeDevice()), dict[int, float]()
    both_are_done = threading.Barrier(2)

    def work(seed: int) -> None:
        with prototrt.Session(engine) as session:
            worst[seed] = followed(plain(session), prototrt.Session(graph), seed)
            both_are_done.wait(timeout=60)  # the fake GPU frees nothing while anybody's work is queued

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst.keys() == {1, 2}


@pytest.mark.gpu
def test_on_a_gpu_without_tensorrt() -> None:
    """The adapter for cuda-python, CUDA graphs, DLPack, streams, freeing and threads, with an engine of PyTorch."""
    if not torch.cuda.is_available():
        pytest.skip("there is no PyTorch that sees a GPU")

    def on_gpu(graph: Graph, **options: Any) -> prototrt.Session:
        return prototrt.Session(torch_engine(graph, CudaPythonDevice()), **options)

    sections = (sessions.sessions, libraries.libraries, engine_checks.replays, engine_checks.profiles)
    rows = [row_of(check) for section in sections for check in section(on_gpu)]
    assert {row.verdict for row in rows} <= {"ok", "not tried"}, rows

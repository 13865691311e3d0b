"""Calls that fail do not count, and whatever is given up is freed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.state import States
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_same, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.fresh_python import run_python


@pytest.mark.parametrize("method", ["upload", "download", "synchronize", "zero"])
def test_a_call_that_fails_does_not_count(method: str) -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = [continuing(2, 3, call) for call in range(4)]
    for call, feed in enumerate(feeds):
        if call == 2 or method == "zero":
            before = session.get_state()
            if method == "zero":
                session.reset()
                reference.reset()
                before = {}
            with device.failing(method), pytest.raises(EngineError):
                session.run(continuing(5, 3, 99))
            assert method == "synchronize" or not any(device.streams.values())  # arrays may go now
            device.synchronize(next(stream for stream in device.streams if stream))
            assert_same(session.get_state(), before)
        np.testing.assert_array_equal(session.run(feed)["h"], reference.run(feed)["h"])


def test_a_run_that_tensorrt_refuses_does_not_count() -> None:
    session, reference = beside(dynamic_graph())
    first, second = continuing(2, 3, 0), continuing(2, 3, 1)
    session.run(first)
    reference.run(first)
    fake: Any = session.engine._engine
    fake.refuses_to_run = True
    with pytest.raises(EngineError, match=r"^TensorRT did not run the engine\n  because it gave no reason$"):
        session.run({**second, "lstm_h_0": np.ones((1, 3, 8), np.float32)})
    fake.refuses_to_run = False
    np.testing.assert_array_equal(session.run(second)["h"], reference.run(second)["h"])


def test_a_shape_that_tensorrt_refuses_is_not_remembered() -> None:
    """Neither as set, nor the one before it as still there."""
    session, reference = beside(dynamic_graph())
    good, bad = continuing(2, 3, 0), continuing(5, 3, 1)
    session.run(good)
    reference.run(good)
    fake: Any = session.engine._engine
    fake.refused_shapes = {bad["x"].shape}
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            session.run(bad)
        assert str(caught.value) == (
            'TensorRT refuses the shape (5, 3, 6) of "x"\n  because it gave no reason'
        )
    np.testing.assert_array_equal(session.run(good)["h"], reference.run(good)["h"])
    fake.refused_shapes.clear()
    np.testing.assert_array_equal(session.run(bad)["h"], reference.run(bad)["h"])


@pytest.mark.parametrize("method", ["upload", "synchronize"])
@pytest.mark.parametrize("streams", [3, 5])
def test_a_failed_set_state_leaves_the_state(method: str, streams: int) -> None:
    session, reference = beside(dynamic_graph())
    for one in (session, reference):
        one.run(continuing(2, 3, 0))
    other = {name: np.ones((1, streams, 8), np.float32) for name in session.get_state()}
    device = gpu_of(session.engine)
    with device.failing(method), pytest.raises(EngineError):
        session.set_state(other)
    assert method == "synchronize" or not any(device.streams.values())  # arrays may go now
    device.synchronize(next(stream for stream in device.streams if stream))
    assert_same(session.get_state(), reference.get_state())
    feeds = continuing(2, 3, 1)
    np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])


def test_a_set_state_that_fails_halfway_leaves_no_work_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first array goes while a copy of it is queued."""
    session = session_of(dynamic_graph())
    device, upload = gpu_of(session.engine), FakeDevice.upload

    def second_fails(address: int, array: Array, stream: int) -> None:
        upload(device, address, array, stream)
        if device.calls["upload"] == 2:
            raise EngineError("upload failed")

    monkeypatch.setattr(device, "upload", second_fails)
    with pytest.raises(EngineError, match=r"^upload failed$"):
        session.set_state({name: np.ones((1, 3, 8), np.float32) for name in session.signature.states})
    assert not any(device.streams.values())
    assert session.get_state() == {}


def test_everything_is_freed(stream_graph: Graph) -> None:
    engine = fake_engine(stream_graph)
    with prototrt.Session(engine) as session:
        for feed in steps(4):
            session.run(feed)
        assert gpu_of(engine).memory
    device = gpu_of(engine)
    assert device.memory == {}
    assert list(device.streams) == [0]
    assert all(graph.is_closed for graph in device.graphs)
    session.close()
    with pytest.raises(ValueError, match="the session is closed"):
        session.run(steps(1)[0])


@pytest.mark.parametrize("method", ["synchronize", "free", "free_pinned", "destroy_stream"])
def test_what_cannot_be_freed_does_not_keep_the_rest(method: str, stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    for feed in steps(4):
        session.run(feed)
    engine = session.engine
    device, context = gpu_of(engine), weakref.ref(contexts_of(engine).pop())
    with device.failing(method), pytest.raises(EngineError, match=rf"^{method} failed"):
        session.close()
    assert [graph.is_closed for graph in device.graphs] == [True, True]
    device.graphs.clear()  # which hold what they recorded
    assert (device.memory == {}) == (method != "free")
    assert (device.pinned == []) == (method != "free_pinned")
    assert (list(device.streams) == [0]) == (method != "destroy_stream")
    gc.collect()  # the error holds frames
    assert context() is None
    session.close()


def test_a_state_that_cannot_be_restored_does_not_keep_work_queued(
    stream_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise arrays go while copies of them are queued."""
    session = session_of(stream_graph)
    session.run(steps(1)[0])
    device = gpu_of(session.engine)

    def restore(states: States) -> None:
        raise EngineError("restore failed")

    monkeypatch.setattr(States, "restore", restore)
    feeds = {name: np.stack([array, array]) for name, array in steps(1)[0].items()}
    with device.failing("download"), pytest.raises(EngineError, match=r"^download failed"):
        session.run_steps(feeds, 2)
    assert not any(device.streams.values())


def test_the_engine_goes_with_its_last_session(stream_graph: Graph) -> None:
    """Its weights are on the GPU; that a closed session is still at hand must not keep them there."""
    with session_of(stream_graph) as first:
        engine = weakref.ref(first.engine)
        second = prototrt.Session(first.engine)
        context = weakref.ref(contexts_of(first.engine).pop(0))
    assert context() is None
    assert engine() is not None
    second.run(steps(1)[0])
    second.close()
    assert engine() is None


def test_nothing_is_freed_when_python_ends() -> None:
    """CUDA has gone by then, and a call of it may crash."""
    script = (
        "from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice\n"
        "from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine\n"
        "from prototrt.tests.small_nets import op, rewritten\n"
        "import prototrt\n"
        "FakeDevice.free = lambda *_: print('freed')\n"
        "def session():\n"
        "    made = prototrt.Session(fake_engine(rewritten(op('TanH'), {'x': (2,)})))\n"
        "    made.run({'x': [1, 2]})\n"
        "    return made\n"
        "session().close()\n"
        "print('closed')\n"
        "kept = session()\n"
    )
    result = run_python("-c", script, check=False)
    *freed, last = result.stdout.splitlines()
    assert (set(freed), last, result.stderr) == ({"freed"}, "closed", "")


def test_a_session_that_is_forgotten_is_freed(stream_graph: Graph) -> None:
    engine = fake_engine(stream_graph)
    session = prototrt.Session(engine)
    session.run(steps(1)[0])
    del session
    assert gpu_of(engine).memory == {}

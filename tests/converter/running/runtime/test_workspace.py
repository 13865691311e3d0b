"""Sessions whose runs take turns on one stream share the memory in which TensorRT computes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import prototrt
from prototrt import BackendName
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe
from prototrt.tests.digit_strips import steps

STREAM = 5
RESERVED = 8_190_000
"""What TensorRT for RTX reserves for an LSTM."""


def lstm(hidden: int) -> Graph:
    return lstm_graph(Size(hidden, steps=1, streams=1), "step")


@pytest.mark.parametrize("flavour", ["rtx", "enterprise"])
def test_a_thousand_sessions_on_one_stream(flavour: BackendName) -> None:
    """8.19 MB for all of them, and two buffers for each h and c, one for x, cont and y."""
    hidden = 64
    engine = fake_engine(lstm(hidden), flavour=flavour)
    device, fake = gpu_of(engine), engine._engine
    fake.device_memory_size_v2 = RESERVED
    sessions = [prototrt.Session(engine, stream=STREAM) for _ in range(1000)]
    assert (len(contexts_of(engine)), fake.reserved) == (1000, 0)
    assert sum(block.nbytes for block in device.memory.values()) == RESERVED + 1000 * 4 * (6 * hidden + 1)
    for session in sessions[1:]:
        session.close()
    assert sum(block.nbytes for block in device.memory.values()) == RESERVED + 4 * (6 * hidden + 1)
    sessions[0].close()
    assert device.memory == {}


def test_sessions_with_streams_of_their_own_share_nothing(stream_graph: Graph) -> None:
    """Their runs overlap."""
    engine = fake_engine(stream_graph)
    sessions = [prototrt.Session(engine), prototrt.Session(engine), prototrt.Session(engine, stream=STREAM)]
    assert len({context.workspace for context in contexts_of(engine)}) == 3
    for strip, session in enumerate(sessions):
        assert_as_caffe([session.run(feed)["prob"] for feed in steps(6, strip % 2)], strip % 2)


def test_sessions_that_take_turns(stream_graph: Graph) -> None:
    """Each run leaves poison in the shared memory."""
    engine = fake_engine(stream_graph)
    sessions = [prototrt.Session(engine, stream=STREAM) for _ in range(3)]
    found: list[list[Array]] = [[], [], []]
    for feeds in zip(*(steps(8, strip % 2) for strip in range(3)), strict=True):
        for results, session, feed in zip(found, sessions, feeds, strict=True):
            results.append(session.run(feed)["prob"])
    for strip, results in enumerate(found):
        assert_as_caffe(results, strip % 2)
    assert sum(graph.launches for graph in gpu_of(engine).graphs) == 3 * 6
    assert len({context.workspace for context in contexts_of(engine)}) == 1


def test_runs_of_two_threads_follow_each_other() -> None:
    """Kernels of one run must not come between those of another: both use the memory."""
    engine = fake_engine(lstm(4))
    feeds = {"x": np.ones((1, 1, 4), np.float32), "cont": np.ones((1, 1), np.float32)}
    with prototrt.Session(engine, stream=STREAM) as session:
        thread = threading.Thread(target=session.run, args=(feeds,))
        with engine.workspace(STREAM).turn:
            thread.start()
            thread.join(timeout=0.1)
            assert contexts_of(engine)[0].runs == []
        thread.join()
        assert len(contexts_of(engine)[0].runs) == 1


def test_an_old_tensorrt_has_memory_of_its_own(stream_graph: Graph) -> None:
    engine = fake_engine(stream_graph, flavour="enterprise", manages_memory=False)
    session = prototrt.Session(engine, stream=STREAM)
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(6)])
    fake = engine._engine
    assert fake.reserved == fake.device_memory_size_v2


def test_memory_that_is_full_is_asked_for_again() -> None:
    engine = fake_engine(lstm(4))
    with gpu_of(engine).failing("allocate"), pytest.raises(EngineError):
        prototrt.Session(engine, stream=STREAM)
    with prototrt.Session(engine, stream=STREAM):
        assert contexts_of(engine)[-1].workspace[0] in gpu_of(engine).memory
    assert gpu_of(engine).memory == {}

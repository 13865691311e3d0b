"""CUDA graphs: captured once for each set of buffers, replayed, and off where that cannot be."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.running.runtime.launcher import CONTEXTS_AT_MOST
from prototrt.converter.running.runtime.memory import Memory
from prototrt.surgery.ir import Array, Graph, fixed
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph, feeds_of
from prototrt.tests.golden_cases import case_called


def test_graphs_of_changing_buffers_replay_their_own(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    feeds = steps(40)
    rings = [{name: DeviceResident(device, array) for name, array in feeds[0].items()} for _ in range(3)]
    found = []
    for call, feed in enumerate(feeds):
        ring = rings[call % 3]
        for name, array in feed.items():
            device.write(ring[name].address, array)
        found.append(session.run(ring)["prob"])
    assert_as_caffe(found)
    assert len(device.graphs) == 6  # three sets of inputs, even and odd
    assert sum(graph.launches for graph in device.graphs) == 34  # each set is queued when it is first used


def test_buffers_that_never_come_back_are_not_captured(stream_graph: Graph) -> None:
    """And leave room for those that do."""
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    feeds = steps(40)
    found = [session.run(resident(device, feed))["prob"] for feed in feeds[:30]]
    assert device.graphs == []
    mine = resident(device, feeds[0])
    for feed in feeds[30:]:
        for name, array in feed.items():
            device.write(mine[name].address, array)
        found.append(session.run(mine)["prob"])
    assert_as_caffe(found)
    assert [graph.launches for graph in device.graphs] == [4, 4]


def test_the_graph_that_was_not_used_for_longest_goes(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    feeds = steps(40) * 2
    found = []
    sets = [resident(device, feeds[0]) for _ in range(9)]
    for call, feed in enumerate(feeds):
        mine = sets[min(call // 4, 8)]
        for name, array in feed.items():
            device.write(mine[name].address, array)
        found.append(session.run(mine)["prob"])
    assert_as_caffe(found[:40])
    assert_as_caffe(found[40:])
    # Two calls are queued for each of eight sets of buffers, then the even and the odd graph of it are captured.
    # The ninth set of the last 48 calls displaces the first one after seven calls of each.
    assert [graph.is_closed for graph in device.graphs] == [True] * 2 + [False] * 16
    assert [graph.launches for graph in device.graphs] == [1] * 16 + [17] * 2


@pytest.mark.parametrize(("sets", "rounds", "kept"), [(5, 1, 10), (7, 1, 14), (21, 1, 16), (10, 3, 16)])
def test_sets_of_buffers_in_turn_are_captured_once(sets: int, rounds: int, kept: int) -> None:
    """Two graphs for each. More sets than there is room for do not displace each other in each turn."""
    session = session_of(lstm_graph(Size(hidden=4, steps=1, streams=1), "step"))
    device = gpu_of(session.engine)
    feeds = {"x": np.ones((1, 1, 4), np.float32), "cont": np.ones((1, 1), np.float32)}
    buffers = [resident(device, feeds) for _ in range(sets)]
    for _ in range(8):
        for mine in buffers * rounds:
            session.run(mine)
        if not sets % 2:
            session.run(buffers[0])  # from now on each set is used with the other half of the state
    assert len(device.graphs) == kept
    assert not any(graph.is_closed for graph in device.graphs)


def resident(device: FakeDevice, feed: dict[str, Array]) -> dict[str, DeviceResident]:
    return {name: DeviceResident(device, array) for name, array in feed.items()}


def test_graphs_are_off_where_capture_fails(stream_graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    device.fails.add("capture")
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(8)])
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: capture failed, as it was told to"
    ]
    assert device.graphs == []


def test_a_capture_that_fails_by_chance_is_tried_again(
    stream_graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    feeds = steps(24)
    found = [session.run(feed)["prob"] for feed in feeds[:2]]
    with device.failing("capture"):
        found += [session.run(feed)["prob"] for feed in feeds[2:4]]
    found += [session.run(feed)["prob"] for feed in feeds[4:]]
    assert_as_caffe(found)
    assert caplog.records == []
    assert [graph.launches for graph in device.graphs] == [9, 9]


def test_graphs_are_off_where_tensorrt_says_so(stream_graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(stream_graph)
    contexts_of(session.engine)[0].is_capturable = False
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(8)])
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: TensorRT says that this engine cannot be captured"
    ]


def test_loops_are_captured_where_tensorrt_says_so() -> None:
    """TensorRT for RTX does for a fixed number of steps."""
    session, reference = beside(dynamic_graph())
    for call in range(6):
        feeds = continuing(2, 3, call)
        np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])
    assert [graph.launches for graph in gpu_of(session.engine).graphs] == [2, 2]


def test_graphs_are_off_for_loops_of_a_tensorrt_that_does_not_say(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prototrt")
    session = prototrt.Session(fake_engine(dynamic_graph(), flavour="enterprise"))
    for call in range(4):
        session.run(continuing(2, 3, call))
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: the engine has loops; built with sequence step or unroll, it has none"
    ]
    assert gpu_of(session.engine).graphs == []


@pytest.mark.parametrize("stream", [0, 1])
def test_graphs_are_off_on_the_default_stream(
    stream: int, stream_graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(stream_graph, stream=stream)
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(8)])
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: the session has CUDA's default stream, which cannot be captured;"
        " give it another stream, such as torch.cuda.Stream()"
    ]
    assert gpu_of(session.engine).graphs == []


def any_streams() -> tuple[Graph, int]:
    """A step of an LSTM for up to 9 streams, and the size of its input."""
    shapes = {name: array.shape for name, array in case_called("lstm_t1").arrays("inputs")[0].items()}
    graph = prototrt.rewrite(
        case_called("lstm_t1").load(),
        min_shapes=shapes,
        max_shapes={name: (1, 9, *shape[2:]) for name, shape in shapes.items()},
    )
    return graph, shapes["x"][2]


def test_graphs_that_run_are_not_dropped_before_they_are_done() -> None:
    """Nobody waits for calls on a caller's stream, whose arrays are all on the GPU."""
    graph, size = any_streams()
    hidden = fixed(graph.outputs[0].shape[2], "the size of h")
    engine = fake_engine(graph)
    device = gpu_of(engine)
    session = prototrt.Session(engine, stream=7)
    for streams in (4, 7):
        feeds = resident(device, continuing_step(streams, size))
        outputs = resident(device, {"h": np.zeros((1, streams, hidden), np.float32)})
        session.reset()
        for _ in range(5):
            session.run(feeds, outputs)
    assert [made.is_closed for made in device.graphs] == [True, True, False, False]


def continuing_step(streams: int, size: int) -> dict[str, Array]:
    return {"x": np.ones((1, streams, size), np.float32), "cont": np.ones((1, streams), np.float32)}


@pytest.mark.parametrize("failing", [(), ("free",)])
def test_nothing_is_freed_while_a_graph_is_captured(
    failing: tuple[str, ...], stream_graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    """CUDA breaks off a capture in which the thread frees memory, as a session that is collected does."""
    forgotten = session_of(stream_graph)
    device = gpu_of(forgotten.engine)
    context = weakref.ref(contexts_of(forgotten.engine).pop())
    sessions, held = [forgotten], []

    def enqueue() -> None:
        sessions.clear()
        gc.collect()
        held.append((len(device.memory), context() is not None, gc.isenabled()))

    del forgotten
    buffers = len(device.memory)
    with device.failing(*failing):
        Memory(FakeDevice()).capture(0, enqueue)
    assert held == [(buffers, True, True)]
    assert (context(), bool(device.memory)) == (None, bool(failing))
    assert [record.message for record in caplog.records] == [
        "a session that was forgotten is not freed: free failed, as it was told to" for _ in failing
    ]


def test_a_capture_does_not_touch_what_other_threads_free(stream_graph: Graph) -> None:
    """It would switch their garbage collection on or off, too."""
    session = session_of(stream_graph)
    device = gpu_of(session.engine)

    def enqueue() -> None:
        other = threading.Thread(target=session.close)
        other.start()
        other.join()
        assert device.memory == {}

    Memory(FakeDevice()).capture(0, enqueue)


def test_a_capture_that_fails_frees_what_waited(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    device, memory = gpu_of(session.engine), Memory(FakeDevice())

    def enqueue() -> None:
        session.close()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.capture(0, enqueue)
    assert device.memory == {}


def test_graphs_of_other_shapes_are_dropped() -> None:
    graph, size = any_streams()
    session, reference = beside(graph)
    random = np.random.default_rng(3)
    for streams in (4, 7, 4):
        session.reset()
        reference.reset()
        for _ in range(5):
            feeds = {
                "x": random.standard_normal((1, streams, size), np.float32),
                "cont": np.ones((1, streams), np.float32),
            }
            np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])
    device = gpu_of(session.engine)
    assert [made.is_closed for made in device.graphs] == [True] * 2 + [False] * 4
    # For each size the even and the odd run are queued, and then captured. The size that came back has its own context.
    assert [len(context.runs) for context in contexts_of(session.engine)] == [2 * 4, 4]


def alternating(session: prototrt.Session, size: int, turns: int) -> None:
    """Two prepared calls of different shapes, in turn."""
    calls = [session.prepare(continuing_step(streams, size)) for streams in (4, 7)]
    for _ in range(turns):
        for call in calls:
            session.reset()
            call.run()


def test_shapes_in_turn_are_replayed() -> None:
    """Each has a context of its own, and all contexts work in the same memory."""
    graph, size = any_streams()
    session = session_of(graph)
    device = gpu_of(session.engine)
    blocks = len(device.memory)
    alternating(session, size, 8)
    assert len(contexts_of(session.engine)) == 2
    assert {context.workspace for context in contexts_of(session.engine)} == {
        contexts_of(session.engine)[0].workspace
    }
    assert len(device.memory) == blocks
    assert not any(made.is_closed for made in device.graphs)
    assert sum(made.launches for made in device.graphs) == 2 * 8 - 2  # each is queued once


def test_shapes_in_turn_without_memory_of_the_caller() -> None:
    """A context of an old TensorRT has its own memory: there is one."""
    graph, size = any_streams()
    engine = fake_engine(graph, manages_memory=False)
    alternating(prototrt.Session(engine), size, 4)
    assert len(contexts_of(engine)) == 1
    assert gpu_of(engine).graphs == []


def test_shapes_that_keep_changing_share_a_few_contexts() -> None:
    """Twice as many as there are contexts for, in turn; then two of them stay."""
    session, reference = beside(dynamic_graph())
    shapes = [(length, streams) for length in range(1, 5) for streams in range(3, 7)]
    for turn in range(6):
        for length, streams in shapes if turn < 4 else shapes[-2:] * 8:
            feeds = feeds_of(length, streams, turn)
            for one in (session, reference):
                one.reset()
            np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])
    device = gpu_of(session.engine)
    assert len(contexts_of(session.engine)) == 2 + CONTEXTS_AT_MOST  # the first, and one that had to go
    assert any(made.launches > 2 for made in device.graphs)


def test_a_shape_that_is_refused_makes_one_context() -> None:
    session = session_of(dynamic_graph())
    fake: Any = session.engine._engine
    session.run(continuing(2, 3, 0))
    fake.refused_shapes = {(5, 3, 6)}
    for _ in range(20):
        with pytest.raises(EngineError, match=r"^TensorRT refuses the shape"):
            session.run(continuing(5, 3, 1))
    assert len(contexts_of(session.engine)) <= 2

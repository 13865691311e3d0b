"""State of several streams: reset in part, saved, replaced, of calls of other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.converter.running.runtime.memory import Buffer, Memory
from prototrt.converter.running.runtime.state import States
from prototrt.surgery.ir import Array, DType, Recurrence, Value
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import gpu_of
from prototrt.tests.converter.running.runtime.support import assert_same, beside, session_of
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph, feeds_of


def test_calls_of_different_length() -> None:
    session, reference = beside(dynamic_graph())
    for call, length in enumerate((3, 1, 8, 2, 2, 5)):
        feeds = feeds_of(length, 3, call)
        np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])


def test_another_number_of_streams_after_reset() -> None:
    session, reference = beside(dynamic_graph())
    for call, streams in enumerate((3, 7, 1, 7)):
        session.reset()
        reference.reset()
        for part in range(2):
            feeds = feeds_of(2, streams, 10 * call + part)
            np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_another_number_of_streams_without_reset(on: Way) -> None:
    graph = dynamic_graph()
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    session.run(feeds_of(2, 3, 0))
    saved = session.get_state()
    with pytest.raises(ShapeError) as caught:
        session.run(feeds_of(2, 4, 1))
    assert str(caught.value) == (
        'the state "lstm_h_0" of the last call has the shape (1, 3, 8), expected (1, 4, 8)\n'
        "  because the inputs of this call have another number of streams\n"
        "  fix: call reset() first, or give the state with the inputs"
    )
    assert_same(session.get_state(), saved)


def test_some_streams_are_reset() -> None:
    graph = dynamic_graph()
    session, reference = beside(graph)
    for one in (session, reference):
        one.run(continuing(3, 4, 0))
        one.reset(streams=[0, 2])
    state = session.get_state()
    assert_same(state, reference.get_state())
    assert not state["lstm_h_0"][0, [0, 2]].any()
    assert state["lstm_c_0"][0, [1, 3]].all()
    feeds = continuing(2, 4, 1)
    results = session.run(feeds)["h"]
    np.testing.assert_array_equal(results, reference.run(feeds)["h"])
    fresh = prototrt.Session(graph).run(feeds)["h"]
    np.testing.assert_array_equal(results[:, [0, 2]], fresh[:, [0, 2]])
    assert not np.array_equal(results[:, 1], fresh[:, 1])


@pytest.mark.parametrize(
    ("streams", "calls"), [(range(6), 1), ([6, 2, 0, 2, 1], 2), ([0, 2, 4, 6], 4), ([], 0)]
)
def test_neighbours_are_reset_together(streams: Sequence[int], calls: int) -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    for one in (session, reference):
        one.run(continuing(3, 7, 0))
    before = device.calls["zero"]
    for one in (session, reference):
        one.reset(streams=streams)
    assert device.calls["zero"] - before == 2 * calls  # h and c
    assert_same(session.get_state(), reference.get_state())


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_some_streams_of_a_batch_are_reset(on: Way) -> None:
    """With the batch in front, states are (N, H)."""
    graph, caffe = dynamic_graph(layout="batch-first"), prototrt.Session(dynamic_graph())
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    for call in range(2):
        feeds = continuing(3, 4, call)
        found, expected = session.run(graph.layout.from_caffe(feeds))["h"], caffe.run(feeds)["h"]
        np.testing.assert_array_equal(found, np.swapaxes(expected, 0, 1))
        session.reset(streams=[0, 2])
        caffe.reset(streams=[0, 2])
        for name, state in caffe.get_state().items():
            np.testing.assert_array_equal(session.get_state()[name], state[0])


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_a_stream_that_is_not_there(on: Way) -> None:
    graph = dynamic_graph()
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    session.reset(streams=[6])  # everything is zero already
    for stream in (7, 999, -1):
        with pytest.raises(ShapeError, match=rf"^there is no stream {stream}: the streams are 0 to 6$"):
            session.reset(streams=[stream])
    session.run(feeds_of(2, 3, 0))
    saved = session.get_state()
    with pytest.raises(ShapeError, match=r"^there is no stream 3: the streams are 0 to 2$"):
        session.reset(streams=[1, 3])
    assert_same(session.get_state(), saved)


def test_state_given_with_the_inputs_replaces_what_was_carried() -> None:
    session, reference = beside(dynamic_graph())
    state = {"lstm_h_0": np.full((1, 3, 8), 0.5, np.float32)}
    for call in range(4):
        feeds = {**continuing(2, 3, call), **(state if call == 2 else {})}
        np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])


@pytest.mark.parametrize("on", ["engine", "reference"])
@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"h": np.zeros((1, 3, 8))},
            'there is no state "h"\n  fix: the states are lstm_h_0, lstm_c_0',
        ),
        (
            {"lstm_h_0": np.zeros((1, 3, 8))},
            "states are missing: lstm_c_0\n  fix: give all states; or none, to start at zero",
        ),
        (
            {"lstm_h_0": np.zeros((1, 3, 8)), "lstm_c_0": np.zeros((1, 3, 5))},
            'input "lstm_c_0" has the shape (1, 3, 5), expected (1, N, 8)\n  because N is 1 to 7, usually 3',
        ),
        (
            {"lstm_h_0": np.zeros((1, 3, 8)), "lstm_c_0": np.full((1, 3, 8), 1e300)},
            'input "lstm_c_0" holds 1e+300, which float32 cannot hold\n  fix: clamp or rescale the input',
        ),
    ],
)
def test_state_that_does_not_fit(state: dict[str, Array], message: str, on: Way) -> None:
    graph = dynamic_graph()
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    session.run(feeds_of(2, 3, 0))
    saved = session.get_state()
    with pytest.raises(ConversionError) as caught:
        session.set_state(state)
    assert str(caught.value) == message
    assert_same(session.get_state(), saved)


# ---------------------------------------------------------------- the state by itself


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_streams_of_stacked_states(axis: int) -> None:
    """States of several passes, (passes, N, H), as other dialects have them; or (N, passes, H)."""
    before, after = (Value(name, DType.FLOAT32, (2, 3, 4)) for name in ("before", "after"))
    device = FakeDevice()
    states = States(Memory(device), [(Recurrence(before, after), 96, axis)], 0)
    array = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    states.set({"before": array})
    states.reset([0, 1])
    array[(slice(None),) * axis + ([0, 1],)] = 0
    np.testing.assert_array_equal(states.get()["before"], array)


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_state_that_the_net_exposes(on: Way) -> None:
    graph = dynamic_graph()
    pairs = tuple(replace(pair, exposed=True) for pair in graph.recurrences)
    exposing = replace(graph, recurrences=pairs)
    session = session_of(exposing) if on == "engine" else prototrt.Session(exposing)
    reference = prototrt.Session(graph)
    for call in range(3):
        feeds = continuing(2, 3, call)
        results = session.run(feeds)
        np.testing.assert_array_equal(results.pop("h"), reference.run(feeds)["h"])
        state = reference.get_state()
        assert_same({name.replace("_T", "_0"): array for name, array in results.items()}, state)
        for array in results.values():
            array.fill(9)  # it is the caller's
        assert_same(session.get_state(), state)
        kept = session.get_state()
        session.reset([])
        session.get_state()["lstm_h_0"].fill(9)
        assert_same(session.get_state(), kept)


def test_a_reset_leaves_saved_arrays_alone() -> None:
    session = prototrt.Session(dynamic_graph())
    session.run(continuing(2, 3, 0))
    saved = session.get_state()
    session.set_state(saved)
    session.reset([1])
    assert saved["lstm_h_0"].all()


def test_buffers_grow_only_when_nothing_uses_them() -> None:
    device = FakeDevice()
    stream = device.create_stream()
    memory = Memory(device)
    buffer = Buffer(memory)
    first = buffer.reserve(8, stream)
    assert buffer.reserve(4, stream) == first
    device.zero(first, 8, stream)
    second = buffer.reserve(16, stream)
    assert second != first
    assert list(device.memory) == [second]
    memory.close(stream)

"""Several steps at once give the results of single calls, with the state of each fed into the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError, EngineError
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.running.runtime.launcher import STEPS_AT_MOST
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe, assert_same, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.golden_cases import case_called


def stacked(feeds: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}


@pytest.mark.parametrize("on", ["engine", "reference"])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_steps_as_caffe(on: Way, count: int, stream_graph: Graph) -> None:
    session = session_of(stream_graph) if on == "engine" else prototrt.Session(stream_graph)
    feeds = steps(24)
    found: list[Array] = []
    for first in range(0, 24, count):
        found += list(session.run_steps(stacked(feeds[first : first + count]), count)["prob"])
    assert_as_caffe(found)


@pytest.mark.parametrize("size", [64, 6])
def test_steps_of_arrays_on_the_gpu(size: int) -> None:
    """An array whose steps begin at multiples of 256 bytes is used in place. Others are copied at once."""
    graph = lstm(size)
    device = FakeDevice()
    session = prototrt.Session(fake_engine(graph, device), stream=5)
    reference = prototrt.Session(graph)
    random = np.random.default_rng(1)
    for _ in range(6):
        feeds = {
            "x": random.standard_normal((4, 1, 1, size), np.float32),
            "cont": np.ones((4, 1, 1), np.float32),
        }
        mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
        target = DeviceResident(device, np.zeros((4, 1, 1, size), np.float32))
        session.run_steps(mine, 4, outputs={"h": target})
        device.synchronize(5)
        np.testing.assert_array_equal(target.value(), reference.run_steps(feeds, 4)["h"])
    in_place = {64: 1, 6: 3}  # of the three, only cont has steps of 4 bytes
    assert device.calls["copy_rows"] == 6 * in_place[size]
    assert "upload" not in device.calls


def lstm(size: int) -> Graph:
    return lstm_graph(Size(hidden=size, steps=1, streams=1), "step")


def test_steps_become_one_graph(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    feeds = steps(40)
    found: list[Array] = []
    for first in range(0, 40, 4):
        found += list(session.run_steps(stacked(feeds[first : first + 4]), 4)["prob"])
    assert_as_caffe(found)
    # After an even number of steps the state is where it was: one graph does.
    assert [graph.launches for graph in device.graphs] == [9]
    assert device.calls["upload"] == 20


def test_long_calls_are_not_captured() -> None:
    """A graph holds each kernel of each step."""
    session = session_of(lstm(6))
    random = np.random.default_rng(1)
    for count, graphs in ((STEPS_AT_MOST + 1, 0), (STEPS_AT_MOST, 1)):
        feeds = {"x": random.random((count, 1, 1, 6), np.float32), "cont": np.ones((count, 1, 1))}
        for _ in range(5):
            session.run_steps(feeds, count)
        assert len(gpu_of(session.engine).graphs) == graphs


def test_exposed_state_is_given_for_each_step() -> None:
    graph = prototrt.rewrite(case_called("lstm_expose").load())
    assert any(pair.exposed for pair in graph.recurrences)
    session, reference = beside(graph)
    random = np.random.default_rng(2)
    fed = [value for value in graph.inputs if value.name not in session.signature.states]
    for count in (3, 1, 2, 2, 2):
        feeds = {
            value.name: random.random((count, *(int(dim) for dim in value.shape)), np.float32)
            for value in fed
        }
        assert_same(session.run_steps(feeds, count), reference.run_steps(feeds, count))
    single = {name: array[0] for name, array in feeds.items()}
    assert_same(session.run(single), reference.run(single))


@pytest.mark.parametrize("method", ["download", "synchronize"])
def test_steps_that_fail_do_not_count(method: str) -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    good = continuing(2, 3, 0)
    session.run(good)
    reference.run(good)
    bad = stacked([continuing(2, 3, call) for call in (1, 2, 3)])
    with device.failing(method), pytest.raises(EngineError):
        session.run_steps(bad, 3)
    device.synchronize(next(stream for stream in device.streams if stream))
    assert_same(session.get_state(), reference.get_state())
    np.testing.assert_array_equal(session.run(good)["h"], reference.run(good)["h"])


@pytest.mark.parametrize("on", ["engine", "reference"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x": np.zeros((2, 2, 3, 6), np.float32)},
            'the array for "x" has the shape (2, 2, 3, 6), expected 3 as its first size\n'
            "  because run_steps() runs 3 steps and needs one row for each",
        ),
        (
            {"x": np.zeros((3, 2, 3, 5), np.float32)},
            'input "x" has the shape (2, 3, 5), expected (T, N, 6)\n'
            "  because T is 1 to 8, usually 5; N is 1 to 7, usually 3\n"
            "  fix: give an array of this shape, or change the input of the net with shapes",
        ),
        (
            {"lstm_h_0": np.zeros((3, 1, 3, 8), np.float32)},
            'the state "lstm_h_0" is given to run_steps(), which feeds it back itself\n'
            "  fix: give it to set_state() before",
        ),
    ],
)
def test_steps_that_cannot_be(on: Way, change: dict[str, Any], message: str) -> None:
    session = session_of(dynamic_graph()) if on == "engine" else prototrt.Session(dynamic_graph())
    feeds = stacked([continuing(2, 3, call) for call in range(3)])
    with pytest.raises(ConversionError) as caught:
        session.run_steps({**feeds, **change}, 3)
    assert str(caught.value) == message
    assert session.get_state() == {}
    with pytest.raises(ValueError, match="steps is 0, expected 1 or more"):
        session.run_steps(feeds, 0)

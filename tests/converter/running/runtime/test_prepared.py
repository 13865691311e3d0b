"""Calls that are checked once, and run as often as one likes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_arrays_of_the_host_are_read_anew(on: Way, stream_graph: Graph) -> None:
    session = session_of(stream_graph) if on == "engine" else prototrt.Session(stream_graph)
    feeds = steps(12)
    mine = {name: array.copy() for name, array in feeds[0].items()}
    prob = np.zeros((1, 1, 11), np.float32)
    call = session.prepare(mine, {"prob": prob})
    assert not prob.any()  # nothing has run so far
    found = []
    for feed in feeds:
        for name, array in feed.items():
            mine[name][...] = array
        assert call.run()["prob"] is prob
        found.append(prob.copy())
    assert_as_caffe(found)


def test_arrays_of_another_type_or_order_are_read_anew() -> None:
    session, reference = beside(dynamic_graph())
    mine = {"x": np.zeros((6, 3, 2)).T, "cont": np.ones((2, 3), bool)}
    call = session.prepare(mine)
    for seed in range(4):
        mine["x"][...] = continuing(2, 3, seed)["x"].transpose(0, 1, 2)
        np.testing.assert_allclose(call.run()["h"], reference.run(mine)["h"], atol=1e-6)


def test_arrays_on_the_gpu_are_read_where_they_are(stream_graph: Graph) -> None:
    device = FakeDevice()
    session = prototrt.Session(fake_engine(stream_graph, device), stream=5)
    feeds = steps(12)
    mine = {name: DeviceResident(device, array) for name, array in feeds[0].items()}
    target = DeviceResident(device, np.zeros((1, 1, 11), np.float32))
    call = session.prepare(mine, {"prob": target})
    found = []
    for feed in feeds:
        for name, array in feed.items():
            device.write(mine[name].address, array)
        assert call.run() == {"prob": target}
        device.synchronize(5)
        found.append(target.value())
    assert_as_caffe(found)
    assert not {"upload", "download", "copy"} & device.calls.keys()
    assert [graph.launches for graph in device.graphs] == [5, 5]


def test_what_fills_an_array_again_is_waited_for() -> None:
    """On the default stream, which PyTorch uses by default."""
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = [continuing(2, 3, call) for call in range(4)]
    mine = DeviceResident(device, np.full_like(feeds[0]["x"], np.nan))
    call = session.prepare({**feeds[0], "x": mine})
    for feed in feeds:
        device.queue(0, lambda feed=feed: device.write(mine.address, feed["x"]))  # type: ignore[misc]  # mypy does not infer it
        np.testing.assert_array_equal(call.run()["h"], reference.run({**feeds[0], "x": feed["x"]})["h"])


def test_other_calls_come_between() -> None:
    """Of other sizes, with more memory; and the state is one."""
    session, reference = beside(dynamic_graph())
    feeds = continuing(2, 3, 0)
    call = session.prepare(feeds)
    for length in (3, 8, 1):
        np.testing.assert_array_equal(call.run()["h"], reference.run(feeds)["h"])
        other = continuing(length, 3, length)
        np.testing.assert_array_equal(session.run(other)["h"], reference.run(other)["h"])
    state = session.get_state()
    wanted = call.run()["h"].copy()
    session.set_state(state)
    np.testing.assert_array_equal(call.run()["h"], wanted)
    session.reset()
    reference.reset()
    np.testing.assert_array_equal(call.run()["h"], reference.run(feeds)["h"])


def test_the_number_of_streams_changes_between() -> None:
    session = session_of(dynamic_graph())
    call = session.prepare(continuing(2, 3, 0))
    session.run(continuing(2, 4, 0))
    with pytest.raises(ShapeError) as caught:
        call.run()
    assert str(caught.value) == (
        'the state "lstm_h_0" of the last call has the shape (1, 4, 8), expected (1, 3, 8)\n'
        "  because the inputs of this call have another number of streams\n"
        "  fix: call reset() first, or give the state with the inputs"
    )
    session.reset()
    call.run()


def test_state_that_does_not_fit_is_told_at_once() -> None:
    """Also where the inputs have the shapes of the call before: the state alone has others."""
    session = session_of(dynamic_graph())
    session.run(continuing(2, 4, 0))
    wider = session.get_state()
    session.reset()
    session.run(continuing(2, 3, 0))
    session.set_state(wider)
    with pytest.raises(ShapeError, match=r"of the last call has the shape \(1, 4, 8\), expected \(1, 3, 8\)"):
        session.prepare(continuing(2, 3, 1))


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_what_is_wrong_is_told_at_once(on: Way) -> None:
    session = session_of(dynamic_graph()) if on == "engine" else prototrt.Session(dynamic_graph())
    with pytest.raises(NetError, match=r"^inputs are missing: cont "):
        session.prepare({"x": np.zeros((2, 3, 6), np.float32)})


def test_a_call_keeps_its_engine() -> None:
    session = session_of(dynamic_graph())
    engine = weakref.ref(session.engine)
    feeds = continuing(2, 3, 0)
    call = session.prepare(feeds)
    del session
    gc.collect()
    assert engine() is not None
    np.testing.assert_array_equal(call.run()["h"], prototrt.Session(dynamic_graph()).run(feeds)["h"])
    del call
    gc.collect()
    assert engine() is None


def test_a_closed_session_runs_nothing() -> None:
    session = session_of(dynamic_graph())
    call = session.prepare(continuing(2, 3, 0))
    session.close()
    with pytest.raises(ValueError, match="the session is closed"):
        call.run()

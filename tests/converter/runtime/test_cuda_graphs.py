"""CUDA graphs: captured once for each set of buffers, replayed, and off where that cannot be."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import prototrt
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.runtime.fake_gpu import DeviceResident, contexts_of, gpu_of
from prototrt.tests.converter.runtime.support import assert_as_caffe, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
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
    assert sum(graph.launches for graph in device.graphs) == 39


def test_there_is_an_end_to_graphs(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    found = []
    for feed in steps(40):
        found.append(
            session.run({name: DeviceResident(device, array) for name, array in feed.items()})["prob"]
        )
    assert_as_caffe(found)
    assert len(device.graphs) == 8


def test_graphs_are_off_where_capture_fails(stream_graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(stream_graph)
    device = gpu_of(session.engine)
    device.fails.add("capture")
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(8)])
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: capture failed, as it was told to"
    ]
    assert device.graphs == []


def test_graphs_are_off_where_tensorrt_says_so(stream_graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(stream_graph)
    contexts_of(session.engine)[0].is_capturable = False
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(8)])
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: TensorRT says that this engine cannot be captured"
    ]


def test_graphs_are_off_for_loops(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prototrt")
    session = session_of(dynamic_graph())
    for call in range(4):
        session.run(continuing(2, 3, call))
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off: the engine has loops; built with sequence step or unroll it has none"
    ]
    assert gpu_of(session.engine).graphs == []


def test_graphs_of_other_shapes_are_dropped() -> None:
    graph = prototrt.rewrite(
        case_called("lstm_t1").load(),
        min_shapes={name: array.shape for name, array in case_called("lstm_t1").arrays("inputs")[0].items()},
        max_shapes={
            name: (1, 9, *array.shape[2:])
            for name, array in case_called("lstm_t1").arrays("inputs")[0].items()
        },
    )
    session, reference = beside(graph)
    size = graph.inputs[0].shape[2]
    assert isinstance(size, int)
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
    assert [made.is_closed for made in device.graphs] == [True] * 4 + [False] * 2
    queued = contexts_of(session.engine)[0].runs
    assert (
        len(queued) == 3 * 3
    )  # for each size an ordinary run, and the capture of the even and of the odd one

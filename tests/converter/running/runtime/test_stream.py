"""A session on the fake GPU gives what Caffe gave, its state fed back on the GPU."""

from __future__ import annotations

import threading

import pytest

import prototrt
from prototrt import Form
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.golden_cases import Case, check, recurrent_runs


@pytest.mark.parametrize(("case", "sequence"), recurrent_runs(), ids=str)
def test_goldens(case: Case, sequence: Form) -> None:
    check(case, session_of, sequence)


@pytest.mark.parametrize("graphs", [True, False])
def test_forty_windows_as_caffe(stream_graph: Graph, graphs: bool) -> None:
    session = session_of(stream_graph, graphs=graphs)
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(40)])
    device = gpu_of(session.engine)
    assert len(device.graphs) == (2 if graphs else 0)
    # The first even and odd calls are queued, the second ones capture, and every one from then on is replayed.
    assert sum(graph.launches for graph in device.graphs) == (38 if graphs else 0)


def test_no_address_is_read_and_written(stream_graph: Graph) -> None:
    session = session_of(stream_graph, graphs=False)
    for feed in steps(4):
        session.run(feed)
    (context,) = contexts_of(session.engine)
    assert len(context.runs) == 4
    for addresses in context.runs:
        assert len(set(addresses.values())) == len(addresses)
    for before, after in zip(context.runs, context.runs[1:], strict=False):
        assert after["lstm1_h_0"] == before["lstm1_h_T"]
        assert after["lstm2_c_0"] == before["lstm2_c_T"]
    assert context.runs[0] == context.runs[2]


def test_state_stays_on_the_gpu(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    for feed in steps(10):
        session.run(feed)
    device = gpu_of(session.engine)
    assert device.calls["upload"] == 20  # data and cont
    assert device.calls["download"] == 10  # prob
    assert device.calls["zero"] == 4  # the four states, before the first call
    assert "copy" not in device.calls
    first = len(device.memory)
    session.run(steps(1)[0])
    assert len(device.memory) == first


def test_two_sessions_over_one_engine(stream_graph: Graph) -> None:
    first = session_of(stream_graph)
    second = prototrt.Session(first.engine)
    found: list[list[Array]] = [[], []]
    for one, other in zip(steps(12, 0), steps(12, 1), strict=True):
        found[0].append(first.run(one)["prob"])
        found[1].append(second.run(other)["prob"])
    assert_as_caffe(found[0], 0)
    assert_as_caffe(found[1], 1)


def test_two_sessions_in_two_threads(stream_graph: Graph) -> None:
    engine = fake_engine(stream_graph)
    found: dict[int, list[Array]] = {}
    # The fake GPU cannot tell whose memory queued work uses: nothing may be freed while there is any.
    both_are_done = threading.Barrier(2)

    def work(strip: int) -> None:
        with prototrt.Session(engine) as session:
            found[strip] = [session.run(feed)["prob"] for feed in steps(12, strip)]
            both_are_done.wait(timeout=60)

    threads = [threading.Thread(target=work, args=(strip,)) for strip in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for strip in (0, 1):
        assert_as_caffe(found[strip], strip)


def test_a_conversation_is_saved_and_resumed(stream_graph: Graph) -> None:
    session = session_of(stream_graph)
    assert session.get_state() == {}
    feeds = steps(12)
    found = [session.run(feed)["prob"] for feed in feeds[:6]]
    saved = session.get_state()
    assert {name: array.shape for name, array in saved.items()} == {
        "lstm1_h_0": (1, 1, 64),
        "lstm1_c_0": (1, 1, 64),
        "lstm2_h_0": (1, 1, 48),
        "lstm2_c_0": (1, 1, 48),
    }
    other = session_of(stream_graph)
    other.run(steps(1, 1)[0])
    other.set_state(saved)
    found += [other.run(feed)["prob"] for feed in feeds[6:]]
    assert_as_caffe(found)
    other.set_state({})
    assert other.get_state() == {}

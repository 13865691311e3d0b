"""State, buffers, streams and graphs of a session, on an engine that computes with the reference evaluator."""

from __future__ import annotations

import logging
import threading
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.errors import ConversionError, EngineError, ShapeError
from prototrt.converter.runtime.memory import Buffer, Memory
from prototrt.converter.runtime.state import States
from prototrt.surgery.ir import Array, DType, Graph, Recurrence, Value
from prototrt.tests.converter.runtime.fake_gpu import (
    DeviceResident,
    FakeDevice,
    contexts_of,
    fake_engine,
    gpu_of,
)
from prototrt.tests.golden_cases import SEQUENCES, Case, caffe_cases, rewritten
from prototrt.tests.test_samples import DIGITS

CASES = {str(case): case for case in caffe_cases()}
RECURRENT = [case for case in CASES.values() if case.is_recurrent]


def session_of(graph: Graph, **options: Any) -> prototrt.Session:
    return prototrt.Session(fake_engine(graph), **options)


def can_run(case: Case, sequence: str) -> bool:
    cont = case.arrays("inputs")[0].get("cont")
    return sequence != "step" or (cont is not None and len(cont) == 1)


@pytest.mark.parametrize(
    ("case", "sequence"),
    [(case, sequence) for case in RECURRENT for sequence in SEQUENCES if can_run(case, sequence)],
    ids=str,
)
def test_goldens(case: Case, sequence: str) -> None:
    session, shapes = None, None
    for inputs, expected in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
        new = {name: array.shape for name, array in inputs.items()}
        if session is None or new != shapes:
            session, shapes = session_of(rewritten(case, inputs, sequence)), new
        results = session.run(inputs)
        for name, wanted in expected.items():
            np.testing.assert_allclose(results[name], wanted, *case.tolerance(name), err_msg=name)


# ---------------------------------------------------------------- a stream, step by step


@pytest.fixture(scope="module")
def stream_graph() -> Graph:
    return prototrt.rewrite(prototrt.load(DIGITS / "deploy_stream.prototxt", DIGITS / "digits.caffemodel"))


def steps(count: int, strip: int = 0) -> list[dict[str, Array]]:
    known = np.load(DIGITS / "expected.npz")
    data = known["data"][known["stream_index"][strip]]
    return [{"data": data[t][None], "cont": np.full((1, 1), float(t > 0), np.float32)} for t in range(count)]


def probabilities(count: int, strip: int = 0) -> list[Array]:
    return [np.asarray(prob) for prob in np.load(DIGITS / "expected.npz")["stream_prob"][strip][:count]]


def assert_as_caffe(found: list[Array], strip: int = 0) -> None:
    for array, wanted in zip(found, probabilities(len(found), strip), strict=True):
        np.testing.assert_allclose(array.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("graphs", [True, False])
def test_forty_windows_as_caffe(stream_graph: Graph, graphs: bool) -> None:
    session = session_of(stream_graph, graphs=graphs)
    assert_as_caffe([session.run(feed)["prob"] for feed in steps(40)])
    device = gpu_of(session.engine)
    assert len(device.graphs) == (2 if graphs else 0)
    # The first call is queued, the second and the third capture, and every one from then on is replayed.
    assert sum(graph.launches for graph in device.graphs) == (39 if graphs else 0)


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


# ---------------------------------------------------------------- several streams


def dynamic_graph() -> Graph:
    """One LSTM (D 6, H 8) with T from 1 to 8 and N from 1 to 7."""
    return prototrt.rewrite(
        CASES["lstm_t5_n3"].load(),
        min_shapes={"x": (1, 1, 6), "cont": (1, 1)},
        max_shapes={"x": (8, 7, 6), "cont": (8, 7)},
    )


def feeds_of(steps: int, streams: int, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        "x": random.standard_normal((steps, streams, 6), np.float32),
        "cont": random.integers(0, 2, (steps, streams)).astype(np.float32),
    }


def beside(graph: Graph) -> tuple[prototrt.Session, prototrt.Session]:
    return session_of(graph), prototrt.Session(graph, on="reference")


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
def test_another_number_of_streams_without_reset(on: str) -> None:
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


def assert_same(found: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def continuing(steps: int, streams: int, seed: int) -> dict[str, Array]:
    """Inputs that reset nothing by themselves."""
    feeds = feeds_of(steps, streams, seed)
    return {**feeds, "cont": np.ones_like(feeds["cont"])}


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


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_a_stream_that_is_not_there(on: str) -> None:
    graph = dynamic_graph()
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    session.reset(streams=[9])  # everything is zero already
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
            "states are missing: lstm_c_0\n  fix: give all of them; none at all is zero",
        ),
        (
            {"lstm_h_0": np.zeros((1, 3, 8)), "lstm_c_0": np.zeros((1, 3, 5))},
            'input "lstm_c_0" has the shape (1, 3, 5), expected (1, 3, 8)\n'
            "  because the input is lstm_c_0: float32[1, x.1, 8] and other inputs fix its sizes",
        ),
    ],
)
def test_state_that_does_not_fit(state: dict[str, Array], message: str, on: str) -> None:
    graph = dynamic_graph()
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    session.run(feeds_of(2, 3, 0))
    saved = session.get_state()
    with pytest.raises(ConversionError) as caught:
        session.set_state(state)
    assert str(caught.value) == message
    assert_same(session.get_state(), saved)


# ---------------------------------------------------------------- failures


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


def test_a_failed_set_state_leaves_zeros() -> None:
    session = session_of(dynamic_graph())
    session.run(continuing(2, 3, 0))
    saved = session.get_state()
    with gpu_of(session.engine).failing("synchronize"), pytest.raises(EngineError):
        session.set_state(saved)
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


def test_a_session_that_is_forgotten_is_freed(stream_graph: Graph) -> None:
    engine = fake_engine(stream_graph)
    session = prototrt.Session(engine)
    session.run(steps(1)[0])
    del session
    assert gpu_of(engine).memory == {}


# ---------------------------------------------------------------- arrays of the caller


def test_inputs_and_outputs_where_they_are() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    for call in range(3):
        feeds = continuing(2, 3, call)
        mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
        target = DeviceResident(device, np.zeros((2, 3, 8), np.float32))
        results = session.run(mine, outputs={"h": target})
        assert results == {"h": target}
        np.testing.assert_array_equal(target.value(), reference.run(feeds)["h"])
    assert not {"upload", "download", "copy"} & device.calls.keys()


def test_what_is_not_aligned_is_copied_on_the_gpu() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    mine = {name: DeviceResident(device, array, offset=4) for name, array in feeds.items()}
    target = DeviceResident(device, np.zeros((2, 3, 8), np.float32), offset=8)
    session.run(mine, outputs={"h": target})
    np.testing.assert_array_equal(target.value(), reference.run(feeds)["h"])
    assert device.calls["copy"] == 3
    assert not {"upload", "download"} & device.calls.keys()


def test_the_stream_of_a_producer_is_waited_for() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    late = DeviceResident(device, np.zeros_like(feeds["x"]), stream=device.adopt_stream(77))
    device.queue(77, lambda: device.write(late.address, feeds["x"]))
    np.testing.assert_array_equal(session.run({**feeds, "x": late})["h"], reference.run(feeds)["h"])


def test_arrays_to_write_to(stream_graph: Graph) -> None:
    for session in (session_of(stream_graph), prototrt.Session(stream_graph)):
        target = np.zeros((1, 1, 11), np.float32)
        results = session.run(steps(1)[0], outputs={"prob": target})
        assert results["prob"] is target
        assert_as_caffe([target])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"array": np.zeros((2, 3, 6))},
            'input "x" is float64 on the GPU, expected float32\n  fix: convert it there first',
        ),
        (
            {"array": np.zeros((2, 3, 6), np.float32), "strides": (72, 4, 12)},
            'the array for "x" has gaps, or another order of its axes\n'
            "  because its shape is (2, 3, 6) and its strides are (72, 4, 12)\n"
            "  fix: give a contiguous copy of it",
        ),
    ],
)
def test_inputs_on_the_gpu_that_cannot_be_read(options: dict[str, Any], message: str) -> None:
    session = session_of(dynamic_graph())
    mine = DeviceResident(gpu_of(session.engine), **options)
    with pytest.raises(ShapeError) as caught:
        session.run({**continuing(2, 3, 0), "x": mine})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("y", np.zeros(1), 'there is no output "y"\n  fix: the outputs are h'),
        (
            "h",
            np.zeros((2, 3, 5), np.float32),
            'output "h" is to be written to float32 (2, 3, 5), expected float32 (2, 3, 8)',
        ),
        (
            "h",
            np.zeros((2, 3, 8)),
            'output "h" is to be written to float64 (2, 3, 8), expected float32 (2, 3, 8)',
        ),
        (
            "h",
            np.zeros((2, 8, 3), np.float32).transpose(0, 2, 1),
            'output "h" is to be written to an array that has gaps or is read-only\n'
            "  fix: give a contiguous, writeable one",
        ),
    ],
)
def test_outputs_that_cannot_be_written(name: str, target: Array, message: str) -> None:
    session = session_of(dynamic_graph())
    with pytest.raises(ConversionError) as caught:
        session.run(continuing(2, 3, 0), outputs={name: target})
    assert str(caught.value) == message
    assert session.get_state() == {}


def test_an_output_over_an_input() -> None:
    session = session_of(dynamic_graph())
    device = gpu_of(session.engine)
    mine = DeviceResident(device, continuing(2, 3, 0)["x"])
    target = DeviceResident(device, np.zeros((2, 3, 8), np.float32))
    target.address = mine.address
    with pytest.raises(
        ShapeError, match=r'^"x" and "h" are given the same memory\n  fix: give each its own$'
    ):
        session.run({**continuing(2, 3, 0), "x": mine}, outputs={"h": target})


# ---------------------------------------------------------------- a stream of the caller


def test_a_callers_stream_is_not_waited_for() -> None:
    device = FakeDevice()
    graph = dynamic_graph()
    session = prototrt.Session(fake_engine(graph, device), stream=SimpleNamespace(cuda_stream=5))
    reference = prototrt.Session(graph)
    wanted, targets = [], []
    for call in range(3):
        feeds = continuing(2, 3, call)
        mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
        targets.append(DeviceResident(device, np.zeros((2, 3, 8), np.float32)))
        session.run(mine, outputs={"h": targets[-1]})
        wanted.append(reference.run(feeds)["h"])
    assert "synchronize" not in device.calls
    assert not targets[0].value().any()  # nothing has run so far
    device.synchronize(5)
    for target, array in zip(targets, wanted, strict=True):
        np.testing.assert_array_equal(target.value(), array)
    feeds = continuing(2, 3, 3)
    np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])
    mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
    session.run(mine, outputs={"h": targets[0]})
    session.close()  # waits for the call
    np.testing.assert_array_equal(targets[0].value(), reference.run(feeds)["h"])
    assert 5 in device.streams  # it is the caller's


# ---------------------------------------------------------------- CUDA graphs


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
        "CUDA graphs are off: the engine has loops; --sequence step and unroll make none"
    ]
    assert gpu_of(session.engine).graphs == []


def test_graphs_of_other_shapes_are_dropped() -> None:
    graph = prototrt.rewrite(
        CASES["lstm_t1"].load(),
        min_shapes={name: array.shape for name, array in CASES["lstm_t1"].arrays("inputs")[0].items()},
        max_shapes={
            name: (1, 9, *array.shape[2:]) for name, array in CASES["lstm_t1"].arrays("inputs")[0].items()
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


# ---------------------------------------------------------------- the state by itself


def test_streams_of_stacked_states() -> None:
    """States of several passes, (passes, N, H), as other dialects have them."""
    before, after = (Value(name, DType.FLOAT32, (2, 3, 4)) for name in ("before", "after"))
    device = FakeDevice()
    states = States(Memory(device), [(Recurrence(before, after), 96)], 0)
    array = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    states.set({"before": array})
    states.reset([0, 2])
    array[:, [0, 2]] = 0
    np.testing.assert_array_equal(states.get()["before"], array)


@pytest.mark.parametrize("on", ["engine", "reference"])
def test_state_that_the_net_exposes(on: str) -> None:
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

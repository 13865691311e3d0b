"""A pool of streams gives each of them what a session of its own would give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import LayoutName, Way
from prototrt.caffe_proto.common.errors import ConversionError, NetError, ShapeError
from prototrt.converter.running.runtime.engine import Engine
from prototrt.surgery.ir import Array
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe
from prototrt.tests.digit_strips import DIGITS, steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.golden_cases import case_called

GRAPH = dynamic_graph()
WAYS: tuple[Way, ...] = ("engine", "reference", "onnx")


def pool_of(on: Way, streams: int = 9, **options: Any) -> prototrt.Sessions:
    return prototrt.Sessions(
        fake_engine(GRAPH) if on == "engine" else prototrt.Session(GRAPH, on), streams, **options
    )


def inputs(seed: int, length: int = 2) -> dict[str, Array]:
    return continuing(length, 1, seed)


def assert_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------ as separate sessions

STREAMS = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("submit"), STREAMS, st.integers(1, 2), st.booleans()),
    st.tuples(st.just("submit"), STREAMS, st.just(1), st.just(True)),
    st.tuples(st.just("step"), st.sets(STREAMS, min_size=1), st.integers(1, 2)),
    st.tuples(st.sampled_from(["reset", "reopen", "cancel", "move"]), STREAMS),
    st.tuples(st.sampled_from(["flush", "refuse"])),
)


@cache
def reference(stream: int) -> prototrt.Session:
    return prototrt.Session(GRAPH)


class Pair:
    """A pool, and a session for each of its streams. What the streams did is repeated by the sessions."""

    def __init__(self, on: Way) -> None:
        self.pool = pool_of(on, streams=5, batch=4)
        self.alone = {self.pool.open(): reference(stream) for stream in range(5)}
        for session in self.alone.values():
            session.reset()
        self.log: list[Callable[[], object]] = []
        self.seed = 0

    def inputs(self, length: int) -> dict[str, Array]:
        self.seed += 1
        return inputs(self.seed, length)

    def submit(self, stream: int, length: int, gives_cont: bool) -> None:
        feeds = self.inputs(length)
        mine = {name: array.copy() for name, array in feeds.items() if gives_cont or name != "cont"}
        ticket = self.pool.submit(stream, mine)
        for array in mine.values():
            array.fill(np.nan)  # it was copied
        self.log.append(lambda: assert_close(ticket.result(), self.alone[stream].run(feeds)))

    def flush(self) -> None:
        self.pool.flush()
        for each in self.log:
            each()
        self.log.clear()

    def step(self, streams: set[int], length: int) -> None:
        feeds = {stream: self.inputs(length) for stream in streams}
        results = self.pool.step(feeds)
        self.flush()
        assert results.keys() == feeds.keys()
        for stream, each in feeds.items():
            assert_close(results[stream], self.alone[stream].run(each))

    def reset(self, stream: int) -> None:
        """What waits is computed with the old state."""
        self.pool.reset(stream)
        self.log.append(self.alone[stream].reset)

    def reopen(self, stream: int) -> None:
        self.flush()
        self.pool.close(stream)
        self.pool.open(stream)
        self.alone[stream].reset()

    def cancel(self, stream: int) -> None:
        assert self.pool.submit(stream, self.inputs(1)).cancel()

    def move(self, stream: int) -> None:
        """The state of a stream goes to another one."""
        other = (stream + 1) % 5
        state = self.pool.get_state(stream)
        self.flush()
        assert_close(state, self.alone[stream].get_state())
        self.pool.set_state(other, state)
        self.alone[other].set_state(state)

    def refuse(self) -> None:
        with pytest.raises(ConversionError):
            self.pool.step({0: self.inputs(1), 1: {"x": np.zeros((1, 1, 5), np.float32)}})


@pytest.mark.parametrize("on", WAYS)
@given(orders=st.lists(STEPS, max_size=25))
def test_streams_in_any_order(on: Way, orders: list[tuple[Any, ...]]) -> None:
    both = Pair(on)
    with both.pool:
        for name, *arguments in orders:
            getattr(both, name)(*arguments)
        both.flush()


@pytest.mark.parametrize("on", WAYS)
def test_the_digits_sample(on: Way) -> None:
    """Two strips, of which one begins later; states of two sizes."""
    model = prototrt.load(DIGITS / "deploy_stream.prototxt", DIGITS / "digits.caffemodel")
    graph = prototrt.rewrite(model, max_shapes={"data": (8, 1, 32, 16), "cont": (1, 8)})
    source = fake_engine(graph) if on == "engine" else prototrt.Session(graph, on)
    found: list[list[Array]] = [[], []]
    with prototrt.Sessions(source, 3) as pool:
        first, second = pool.open("first"), pool.open("second")
        frames = [[{"data": feed["data"]} for feed in steps(40, strip)] for strip in (0, 1)]
        for t in range(45):
            ready = {first: frames[0][t]} if t < 40 else {}
            ready |= {second: frames[1][t - 5]} if t >= 5 else {}
            for name, result in pool.step(ready).items():
                found[name == second].append(result["prob"])
    for strip in (0, 1):
        assert_as_caffe(found[strip], strip)


@pytest.mark.parametrize("on", WAYS)
def test_the_batch_in_front(on: Way) -> None:
    graph = dynamic_graph(layout="batch-first")
    source = fake_engine(graph) if on == "engine" else prototrt.Session(graph, on)
    with prototrt.Sessions(source, 4) as pool:
        for stream in range(4):
            pool.open(stream)
        alone = {stream: prototrt.Session(graph) for stream in range(4)}
        for call in range(3):
            feeds = {stream: graph.layout.from_caffe(inputs(10 * call + stream)) for stream in (3, 1, 2)}
            for stream, found in pool.step(feeds).items():
                assert_close(found, alone[int(str(stream))].run(feeds[stream]))


@pytest.mark.parametrize("on", WAYS)
def test_a_net_with_a_fixed_batch(on: Way) -> None:
    """Calls are filled up."""
    graph = prototrt.rewrite(case_called("lstm_t5_n3").load())
    source = fake_engine(graph) if on == "engine" else prototrt.Session(graph, on)
    with prototrt.Sessions(source, 5) as pool:
        alone = {pool.open(): prototrt.Session(GRAPH) for _ in range(5)}
        for call in range(3):
            feeds = {stream: inputs(10 * call + number, 5) for number, stream in enumerate(alone)}
            for stream, found in pool.step(feeds).items():
                assert_close(found, alone[stream].run(feeds[stream]))


SEES_CONT = """
layer { name: "in" type: "Input" top: "x" top: "clip"
  input_param { shape { dim: 2 dim: 1 dim: 4 } shape { dim: 2 dim: 1 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "clip" top: "h" recurrent_param { num_output: 4 } }
layer { name: "seen" type: "Power" bottom: "clip" top: "seen" power_param { scale: 3 } }
"""


@pytest.mark.parametrize("layout", ["caffe", "batch-first"])
def test_cont_is_given_to_streams_that_give_none(layout: LayoutName, tmp_path: Path) -> None:
    """0 at the first step after ``open()`` and ``reset()``, else 1."""
    (tmp_path / "net.prototxt").write_text(SEES_CONT)
    model = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    graph = prototrt.rewrite(model, max_shapes={"x": (2, 3, 4), "clip": (2, 3)}, layout=layout)
    x = np.ones((1, 2, 4) if layout == "batch-first" else (2, 1, 4), np.float32)
    with prototrt.Sessions(graph, 2, cont="clip") as pool:
        pool.open("a")
        seen = [pool.run("a", {"x": x})["seen"].ravel().tolist() for _ in range(2)]
        pool.reset("a")
        pool.open("b")
        for results in (pool.step({"b": {"x": x}, "a": {"x": x}}), pool.step({"a": {"x": x}, "b": {"x": x}})):
            seen += [result["seen"].ravel().tolist() for result in results.values()]
        given = np.zeros(x.shape[:2])
        seen.append(pool.run("a", {"x": x, "clip": given})["seen"].ravel().tolist())
    assert seen == [[0, 3], [3, 3], [0, 3], [0, 3], [3, 3], [3, 3], [0, 0]]


# ------------------------------------------------------------ on the GPU


def engine_pool(streams: int = 9, **options: Any) -> tuple[prototrt.Sessions, Engine]:
    engine = fake_engine(GRAPH)
    pool = prototrt.Sessions(engine, streams, **options)
    for stream in range(streams):
        pool.open(stream)
    return pool, engine


@pytest.mark.parametrize(
    ("ready", "copies"),
    [([4], 1), ([0, 2, 4, 6], 4), ([3, 4, 5, 6], 2), ([8, 0, 1, 2, 3, 5], 4), (list(range(7)), 2)],
)
def test_states_are_copied_in_runs_of_neighbours(ready: list[int], copies: int) -> None:
    """h and c of a stream together, or those of neighbours; once to the call and once from it."""
    pool, engine = engine_pool()
    with pool:
        pool.step({stream: inputs(stream) for stream in ready})
        assert gpu_of(engine).calls["copy_rows"] == 2 * copies
        assert "copy" not in gpu_of(engine).calls


def test_few_sizes_of_calls_each_with_one_graph() -> None:
    """1, 2, 4 and all 7 streams. A call of the same size reads and writes state at the same addresses."""
    pool, engine = engine_pool()
    with pool:
        for call in range(10):
            for size in range(1, 8):
                pool.step({stream: inputs(call) for stream in range(size)})
        contexts = contexts_of(engine)
        assert sorted(context.shapes["x"] for context in contexts) == [(2, size, 6) for size in (1, 2, 4, 7)]
        graphs = gpu_of(engine).graphs
        assert len([graph for graph in graphs if not graph.is_closed]) == 4
        assert sum(graph.launches for graph in graphs) > 50


def test_a_thousand_streams_need_their_states() -> None:
    engine = fake_engine(GRAPH)
    engine._engine.device_memory_size_v2 = 8_190_000
    with prototrt.Sessions(engine, 1000):
        held = sum(block.nbytes for block in gpu_of(engine).memory.values())
        assert 1000 * 4 * 2 * 8 < held - 8_190_000 < 1000 * 4 * 2 * 8 + 10_000
    assert gpu_of(engine).memory == {}


@pytest.mark.parametrize(
    ("batch", "order"), [(4, [2, 3, 4, 0, 5, 1]), (1, [0, 2, 3, 4, 5, 1]), (None, [2, 3, 4, 5, 0, 1])]
)
def test_more_inputs_wait_than_fit_into_a_call(batch: int | None, order: list[int]) -> None:
    """Streams take turns, in the order in which they became ready."""
    pool, _ = engine_pool(batch=batch)
    with pool:
        waiting = [pool.submit(stream, inputs(stream)) for stream in (5, 5, 0, 1, 2, 3)]
        computed: list[int] = []
        for number, ticket in enumerate(waiting):
            ticket.add_done_callback(lambda _, number=number: computed.append(number))  # type: ignore[misc]  # mypy does not infer it
        pool.flush()
        assert computed == order


def test_inputs_of_other_lengths_have_calls_of_their_own() -> None:
    pool, engine = engine_pool()
    with pool:
        pool.step({stream: inputs(stream, 1 + stream % 2) for stream in range(6)})
        assert sum(len(context.runs) for context in contexts_of(engine)) == 2


# ------------------------------------------------------------ what fails


class PoisonedError(Exception):
    pass


def refuse_poison(
    pool: prototrt.Sessions, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """Calls fail if one of their streams has the number 13."""
    run = pool._session.run

    def poisoned(feeds: dict[str, Array]) -> dict[str, Array]:
        if 13 in feeds["x"]:
            raise kind("poisoned")
        return run(feeds)

    monkeypatch.setattr(pool._session, "run", poisoned)


@pytest.mark.parametrize("on", WAYS)
def test_a_stream_that_fails_does_not_harm_others(on: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    with pool_of(on) as pool:
        alone = {pool.open(): prototrt.Session(GRAPH) for _ in range(4)}
        before = {stream: inputs(number) for number, stream in enumerate(alone)}
        pool.step(before)
        refuse_poison(pool, monkeypatch, PoisonedError)
        feeds = {stream: inputs(9 + number) for number, stream in enumerate(alone)}
        feeds[2]["x"][0, 0, 0] = 13
        tickets = {stream: pool.submit(stream, each) for stream, each in feeds.items()}
        behind = pool.submit(2, inputs(50))
        pool.flush()
        for stream, session in alone.items():
            session.run(before[stream])
            if stream == 2:
                assert isinstance(tickets[2].exception(), PoisonedError)
                assert isinstance(behind.exception(), PoisonedError)  # it would follow another state
            else:
                assert_close(tickets[stream].result(), session.run(feeds[stream]))
        assert_close(pool.get_state(2), alone[2].get_state())
        with pytest.raises(PoisonedError):
            pool.step({1: before[1], 2: feeds[2], 3: before[3]})
        assert_close(pool.run(2, inputs(51)), alone[2].run(inputs(51)))


def test_an_interrupt_leaves_nothing_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = engine_pool()
    with pool:
        ticket, other = pool.submit(0, inputs(0)), pool.submit(1, {"x": np.full((2, 1, 6), 13, np.float32)})
        refuse_poison(pool, monkeypatch, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.flush()
        assert ticket.done()
        assert other.done()
        assert isinstance(ticket.exception(), KeyboardInterrupt)
        assert_close(pool.run(0, inputs(0)), prototrt.Session(GRAPH).run(inputs(0)))


def test_what_waits_when_a_stream_is_closed_is_cancelled() -> None:
    pool, engine = engine_pool()
    with pool:
        one, other, last = (pool.submit(stream, inputs(stream)) for stream in (0, 1, 2))
        pool.close(0)
        assert one.cancelled()
        assert (0 in pool, 1 in pool, len(pool)) == (False, True, 8)
        assert other.result().keys() == {"h"}
        assert last.done()
        last = pool.submit(2, inputs(2))
    with pytest.raises(CancelledError):
        last.result()
    assert (gpu_of(engine).memory, list(gpu_of(engine).streams)) == ({}, [0])
    pool.close()


def test_a_cancelled_start_still_starts() -> None:
    """The input after it begins with zeros."""
    pool, _ = engine_pool()
    with pool:
        pool.run(0, inputs(0))
        pool.reset(0)
        assert pool.submit(0, inputs(1)).cancel()
        later = pool.submit(0, inputs(2))
        assert_close(later.result(), prototrt.Session(GRAPH).run(inputs(2)))
        state = pool.get_state(0)
        pool.reset(0)
        assert pool.submit(0, inputs(1)).cancel()
        assert pool.get_state(0) == {}
        pool.reset(0)
        assert pool.submit(0, inputs(1)).cancel()
        pool.set_state(0, state)
        assert_close(pool.get_state(0), state)


NO_AXIS = """
layer { name: "in" type: "Input" top: "x" top: "cont" top: "z"
  input_param { shape { dim: 2 dim: 3 dim: 4 } shape { dim: 2 dim: 3 } shape { dim: 5 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 4 } }
layer { name: "y" type: "TanH" bottom: "z" top: "y" }
"""
NO_STATE = """
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "y" type: "TanH" bottom: "x" top: "y" }
"""


@pytest.mark.parametrize(
    ("net", "options", "error", "message"),
    [
        (
            NO_STATE,
            {},
            NetError,
            "the net has no state\n  because each stream needs a state of its own\n"
            "  fix: call it with a Session; a plan without a manifest has no state, either",
        ),
        (
            NO_AXIS,
            {},
            NetError,
            '"z" (5,) has no axis of streams\n'
            "  because each stream needs its own part of all inputs and outputs\n"
            "  fix: call the net with a Session",
        ),
        (
            None,
            {"cont": "clip"},
            NetError,
            'there is no input "clip"\n  fix: the inputs are x, cont, lstm_h_0, lstm_c_0',
        ),
        (None, {"streams": 0}, ValueError, "streams is 0, expected 1 or more"),
        (None, {"batch": 8}, ValueError, "batch is 8, expected 1 to 7, the largest N of the net"),
        (None, {"batch": 0}, ValueError, "batch is 0, expected 1 to 7, the largest N of the net"),
    ],
)
def test_pools_that_cannot_be(
    net: str | None, options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    graph = GRAPH
    if net is not None:
        (tmp_path / "net.prototxt").write_text(net)
        graph = prototrt.rewrite(prototrt.load(tmp_path / "net.prototxt", random_weights=1))
    engine = fake_engine(graph)
    with pytest.raises(error) as caught:
        prototrt.Sessions(engine, **{"streams": 2, **options})
    assert str(caught.value) == message
    assert gpu_of(engine).memory == {}


def test_states_of_more_streams_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 10**6)
    with pytest.raises(NetError) as caught:
        prototrt.Sessions(GRAPH, 10**9)
    assert str(caught.value) == (
        'the state "lstm_h_0" takes 32.0 GB, expected at most 1.0 MB\n'
        "  because that is 80 % of the memory of this machine\n"
        "  fix: use smaller sizes, or a machine with more memory"
    )


@pytest.mark.parametrize("on", WAYS)
def test_mistakes_of_callers(on: Way) -> None:
    with pool_of(on, streams=2) as pool:
        pool.open("a")
        mistakes: list[tuple[Callable[[], object], type[Exception], str]] = [
            (lambda: pool.open("a"), ValueError, "the stream 'a' is open already"),
            (lambda: pool.run("b", inputs(0)), NetError, "there is no stream 'b'\n  fix: open() it first"),
            (lambda: pool.reset("b"), NetError, "there is no stream 'b'\n  fix: open() it first"),
            (lambda: pool.close("b"), NetError, "there is no stream 'b'\n  fix: open() it first"),
            (
                lambda: pool.submit("a", {"cont": np.ones((2, 1))}),
                NetError,
                "inputs are missing: x (T, 1, 6)\n  fix: give an array for each of them, under its name",
            ),
            (
                lambda: pool.submit("a", continuing(2, 3, 0)),
                ShapeError,
                'input "x" has the shape (2, 3, 6), expected (T, 1, 6)\n  because T is 1 to 8, usually 5\n'
                "  fix: give an array of this shape, or change the input of the net with shapes",
            ),
            (
                lambda: pool.submit("a", {**inputs(0), "lstm_h_0": np.ones((1, 1, 8))}),
                NetError,
                'the state "lstm_h_0" is given to a stream, which feeds it back itself\n'
                "  fix: give it to set_state() before",
            ),
            (
                lambda: pool.set_state("a", {"lstm_h_0": np.ones((1, 1, 8))}),
                NetError,
                "states are missing: lstm_c_0\n  fix: give all states; or none, to start at zero",
            ),
        ]
        for mistake, error, message in mistakes:
            with pytest.raises(error) as caught:
                mistake()
            assert str(caught.value) == message
        with pytest.raises(TypeError, match="expected a dictionary"):
            pool.submit("a", [1])  # type: ignore[arg-type]  # the mistake
        pool.open()
        with pytest.raises(NetError) as full:
            pool.open()
        assert str(full.value) == (
            "all 2 streams are open\n  fix: close one, or make the pool with more streams"
        )
        assert pool.run("a", inputs(0)).keys() == {"h"}
    with pytest.raises(ValueError, match="the pool is closed"):
        pool.submit("a", inputs(0))


# ------------------------------------------------------------ threads


def test_threads_share_a_call() -> None:
    """While one call is computed, the inputs of other threads gather for the next."""
    pool, engine = engine_pool()
    results: dict[int, list[dict[str, Array]]] = {}

    def caller(stream: int) -> None:
        results[stream] = [pool.run(stream, inputs(100 * stream + call)) for call in range(3)]

    threads = [threading.Thread(target=caller, args=(stream,)) for stream in range(7)]
    with pool:
        with pool._turn:
            for thread in threads:
                thread.start()
            while len(pool._ready) < 7:
                pass
            with pytest.raises(TimeoutError, match=r"^not computed within 0.01 s$"):
                in_another_thread(lambda: pool.submit(8, inputs(8)).result(timeout=0.01))
        for thread in threads:
            thread.join()
    assert contexts_of(engine)[0].runs  # 8 streams, the largest call takes 7
    for stream, found in results.items():
        alone = prototrt.Session(GRAPH)
        for call, result in enumerate(found):
            assert_close(result, alone.run(inputs(100 * stream + call)))


def in_another_thread(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as executor:
        executor.submit(call).result()


def test_a_callback_may_submit() -> None:
    """As a server does that feeds outputs back."""
    pool, _ = engine_pool()
    found: list[dict[str, Array]] = []
    with pool:
        pool.submit(0, inputs(0)).add_done_callback(lambda _: found.append(pool.run(0, inputs(1))))
        pool.flush()
    alone = prototrt.Session(GRAPH)
    alone.run(inputs(0))
    assert_close(found[0], alone.run(inputs(1)))

"""Ways to run a recurrent layer: state that is bound, zero or constant; a sequence in several calls."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import StateSource, Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.surgery.ir import Array
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.small_nets import WAYS, numbers

CASES = recurrent_cases()
ONE_WAY = [case for case in CASES if not case.meta.get("bidirectional") and not case.meta.get("seq_lengths")]


def model(case: RecurrentCase, folder: Path, *, exposed: bool = False) -> prototrt.Model:
    return case.net().load(folder, exposed=exposed)


def sequences_of(case: RecurrentCase) -> dict[str, Array]:
    return {name: array for name, array in case.net().feeds.items() if not name.endswith("_0")}


@functools.cache
def streaming(name: str, steps: int) -> prototrt.Session:
    """The case's net for so many steps a call."""
    case = next(case for case in CASES if str(case) == name)
    shapes = {key: (steps, *array.shape[1:]) for key, array in sequences_of(case).items()}
    with tempfile.TemporaryDirectory() as folder:
        graph = prototrt.rewrite(model(case, Path(folder)), shapes=shapes)
    return prototrt.Session(graph)


@given(data=st.data())
def test_a_sequence_in_several_calls(data: st.DataObject) -> None:
    """Cut anywhere, the calls give what one call gives, and leave the same state behind."""
    case = data.draw(st.sampled_from(ONE_WAY))
    feeds = sequences_of(case)
    ends = sorted(data.draw(st.sets(st.integers(1, case.steps - 1)) if case.steps > 1 else st.just(set())))
    whole = streaming(str(case), case.steps)
    whole.reset()
    expected = whole.run(feeds)
    state: dict[str, Array] = {}
    parts = []
    for start, end in zip([0, *ends], [*ends, case.steps], strict=True):
        session = streaming(str(case), end - start)
        session.reset()
        parts.append(session.run({name: array[start:end] for name, array in feeds.items()} | state))
        state = session.state
    for name, array in expected.items():
        joined = np.concatenate([part[name] for part in parts])
        np.testing.assert_allclose(joined, array, 1e-5, 1e-6, err_msg=name)
    for name, array in whole.state.items():
        np.testing.assert_allclose(state[name], array, 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_step_loop_and_unroll_agree(case: RecurrentCase, tmp_path: Path) -> None:
    """Written out or not, the same numbers to the last bits; as single steps, where one runs forwards."""
    feeds = case.net().feeds
    loop, unroll = (
        prototrt.Session(prototrt.rewrite(model(case, tmp_path, exposed=True), sequence=sequence)).run(feeds)
        for sequence in ("loop", "unroll")
    )
    for name, array in loop.items():
        np.testing.assert_array_equal(unroll[name], array, err_msg=name)


@pytest.mark.parametrize("case", ONE_WAY, ids=str)
def test_steps_give_what_a_loop_gives(case: RecurrentCase, tmp_path: Path) -> None:
    feeds = sequences_of(case)
    whole = prototrt.Session(prototrt.rewrite(model(case, tmp_path), sequence="loop")).run(feeds)
    shapes = {name: (1, *array.shape[1:]) for name, array in feeds.items()}
    graph = prototrt.rewrite(model(case, tmp_path), shapes=shapes, sequence="step")
    step = prototrt.Session(graph)
    parts = [step.run({name: array[t : t + 1] for name, array in feeds.items()}) for t in range(case.steps)]
    for name, array in whole.items():
        np.testing.assert_allclose(np.concatenate([part[name] for part in parts]), array, 1e-5, 1e-6)


LSTM = next(case for case in CASES if str(case) == "cudnn-lstm_bi_1l")


def test_zero_state(tmp_path: Path) -> None:
    graph = prototrt.rewrite(model(LSTM, tmp_path), state="zero")
    assert graph.recurrences == ()
    assert {value.name for value in graph.inputs} == {"x", "cont"}
    session = prototrt.Session(graph)
    first, second = session.run(sequences_of(LSTM)), session.run(sequences_of(LSTM))
    bound = prototrt.Session(prototrt.rewrite(model(LSTM, tmp_path))).run(sequences_of(LSTM))
    np.testing.assert_array_equal(first["rnn"], second["rnn"])
    np.testing.assert_array_equal(first["rnn"], bound["rnn"])


@pytest.mark.parametrize("on", WAYS)
def test_constant_state(on: Way, tmp_path: Path) -> None:
    given = {f"rnn_{name}": array for name, array in LSTM.net().feeds.items() if name.endswith("_0")}
    graph = prototrt.rewrite(model(LSTM, tmp_path), state=given)
    assert graph.recurrences == ()
    results = prototrt.Session(graph, on=on).run(sequences_of(LSTM))
    np.testing.assert_allclose(results["rnn"], LSTM.net().expected["rnn"], *LSTM.tolerance)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("options", ["", "bidirectional: CONCAT"])
@pytest.mark.parametrize("streams", [(2, 2, 2), (1, 2, 5)], ids=["two streams", "any number"])
def test_constant_state_of_all_streams(
    streams: tuple[int, int, int], options: str, on: Way, tmp_path: Path
) -> None:
    (tmp_path / "net.prototxt").write_text(VARYING.replace("OPTIONS", options))
    net = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    passes = 2 if options else 1
    states = {name: numbers(passes, 1, 5) for name in ("y_h_0", "y_c_0")}
    least, usual, most = ({"x": (4, n, 3), "cont": (4, n)} for n in streams)
    feeds = {"x": numbers(4, 2, 3), "cont": np.ones((4, 2), np.float32)}
    graph = prototrt.rewrite(net, state=states, min_shapes=least, opt_shapes=usual, max_shapes=most)
    result = prototrt.Session(graph, on=on).run(feeds)["z"]
    every = {name: np.repeat(array, 2, axis=1) for name, array in states.items()}
    expected = prototrt.Session(prototrt.rewrite(net, state=every)).run(feeds)["z"]
    np.testing.assert_allclose(result, expected, 1e-5, 1e-6)


def test_constant_state_of_some_streams_where_their_number_varies(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(VARYING.replace("OPTIONS", ""))
    net = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    states = {name: numbers(1, 2, 5) for name in ("y_h_0", "y_c_0")}
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(net, state=states, min_shapes=ONES, max_shapes=MANY)
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:4: layer "y" (LSTM): the initial state "y_h_0" has the shape (1, 2, 5),'
        " expected (1, N, 5)\n  because N may vary\n  fix: give it the shape (1, 1, 5), for all streams"
    )


def test_constant_states_that_do_not_fit(tmp_path: Path) -> None:
    h, c = np.zeros((2, 2, 5), np.float32), np.zeros((2, 2, 5), np.float32)
    file = tmp_path / "net.prototxt"
    place = f'{file}:3: layer "rnn" (LSTM)'
    for arrays, expected in (
        (
            {"rnn_h_0": h},
            f'{place}: no initial state "rnn_c_0" is given\n'
            "  because state with arrays takes every state from them\n"
            "  fix: add an array of shape (2, 2, 5) under this name",
        ),
        (
            {"rnn_h_0": h[0], "rnn_c_0": c},
            f'{place}: the initial state "rnn_h_0" has the shape (2, 5), expected (2, 2, 5)\n'
            "  fix: give it the shape (2, 1, 5), for all streams",
        ),
        (
            {"rnn_h_0": h, "rnn_c_0": c, "rnn_d_0": c},
            f'{file}: an initial state is given for "rnn_d_0", which is not a state\n'
            "  fix: name one of the states: rnn_c_0, rnn_h_0",
        ),
    ):
        with pytest.raises(ConversionError) as caught:
            prototrt.rewrite(model(LSTM, tmp_path), state=arrays)
        assert str(caught.value) == expected


def test_constant_states_in_a_file_that_do_not_fit_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "state.npz", rnn_h_0=np.zeros((2, 5)), rnn_c_0=np.zeros((2, 5)))
    monkeypatch.setattr(ArraysOfFile, "load", None)
    told = r"has the shape \(2, 5\), expected \(2, 2, 5\)"
    with pytest.raises(ConversionError, match=told):
        prototrt.rewrite(model(LSTM, tmp_path), state=ArraysOfFile(str(tmp_path / "state.npz")))


def test_exposed_state_is_an_ordinary_blob_and_a_pair(tmp_path: Path) -> None:
    graph = prototrt.rewrite(model(LSTM, tmp_path, exposed=True))
    pairs = [(pair.input.name, pair.output.name, pair.exposed) for pair in graph.recurrences]
    assert pairs == [("h_0", "h_T", True), ("c_0", "c_T", True)]
    assert [value.name for value in graph.outputs] == ["c_T", "h_T", "rnn"]
    session, feeds = prototrt.Session(graph), LSTM.net().feeds
    first = session.run(feeds)
    np.testing.assert_array_equal(session.state["h_0"], first["h_T"])
    fed_back = session.run(sequences_of(LSTM))
    by_hand = session.run({**feeds, "h_0": first["h_T"], "c_0": first["c_T"]})
    np.testing.assert_array_equal(fed_back["rnn"], by_hand["rnn"])


def test_an_exposed_state_that_the_net_computes_is_no_pair(tmp_path: Path) -> None:
    graph = prototrt.rewrite(model(LSTM, tmp_path, exposed=True), outputs=["rnn", "h_T"])
    assert [pair.input.name for pair in graph.recurrences] == ["h_0"]


VARYING = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 dim: 3 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 4 dim: 2 } } }
layer { name: "y" type: "LSTM" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 5 OPTIONS } }
layer { name: "z" type: "Lstm" bottom: "y" top: "z" lstm_param { num_output: 2 } }
"""
ONES = {"x": (1, 1, 3), "cont": (1, 1)}
MANY = {"x": (9, 6, 3), "cont": (9, 6)}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("state", ["bind", "zero"])
@pytest.mark.parametrize("options", ["", "bidirectional: CONCAT num_layers: 2", "num_proj: 3 peephole: true"])
def test_numbers_of_steps_and_streams_that_vary(
    options: str, state: StateSource, on: Way, tmp_path: Path
) -> None:
    """One graph for any T and N gives what a graph of these sizes gives; what x holds says nothing of zeros."""
    (tmp_path / "net.prototxt").write_text(VARYING.replace("OPTIONS", options))
    net = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    varying = prototrt.rewrite(net, min_shapes=ONES, max_shapes=MANY, state=state, sequence="loop")
    assert all(isinstance(dim, str) for dim in varying.inputs[1].shape)
    random = np.random.default_rng(2)
    for steps, streams in ((1, 1), (5, 3)):
        shapes = {"x": (steps, streams, 3), "cont": (steps, streams)}
        feeds = {
            "x": random.standard_normal(shapes["x"]).astype(np.float32),
            "cont": random.integers(0, 2, shapes["cont"]).astype(np.float32),
        }
        fixed = prototrt.rewrite(net, shapes=shapes, state=state, sequence="loop")
        states = {
            value.name: np.zeros([int(dim) for dim in value.shape], np.float32)
            for value in fixed.state_inputs
        }
        expected = prototrt.Session(fixed).run(feeds)["z"]
        result = prototrt.Session(varying, on=on).run(feeds | states)["z"]
        np.testing.assert_allclose(result, expected, 1e-5, 1e-6)

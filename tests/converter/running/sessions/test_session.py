"""A session is called again and again: its state, and its messages about wrong inputs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.converter.files.signatures.arrays import cast
from prototrt.surgery.ir import Array, DType, Graph, Value
from prototrt.tests.small_nets import WAYS, numbers

NET = """
name: "net"
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: {steps} dim: 2 dim: 3 }} }} }}
layer {{ name: "cont" type: "Input" top: "cont" input_param {{ shape {{ dim: {steps} dim: 2 }} }} }}
layer {{ name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y" recurrent_param {{ num_output: 4 }} }}
"""
X = numbers(6, 2, 3)
GOES_ON = np.ones((6, 2), np.float32)

GraphMaker = Callable[[int], Graph]


@pytest.fixture
def graph_of(tmp_path: Path) -> GraphMaker:
    def make(steps: int) -> Graph:
        path = tmp_path / "net.prototxt"
        path.write_text(NET.format(steps=steps))
        return prototrt.rewrite(prototrt.load(path, random_weights=1))

    return make


def run(session: prototrt.Session, first: int, after: int, **more: Array) -> Array:
    result: Array = session.run({"x": X[first:after], "cont": GOES_ON[first:after], **more})["y"]
    return result


@pytest.mark.parametrize("on", WAYS)
def test_state_is_carried_from_call_to_call(graph_of: GraphMaker, on: Way) -> None:
    whole = run(prototrt.Session(graph_of(6), on=on), 0, 6)
    session = prototrt.Session(graph_of(2), on=on)
    parts = [run(session, first, first + 2) for first in (0, 2, 4)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("on", WAYS)
def test_a_closed_session_says_so(graph_of: GraphMaker, on: Way) -> None:
    session = prototrt.Session(graph_of(2), on=on)
    feeds = {"x": X[:2], "cont": GOES_ON[:2]}
    prepared, state = session.prepare(feeds), session.get_state()
    session.close()
    session.close()
    uses: list[Callable[[], object]] = [
        lambda: session.run(feeds),
        lambda: session.run_steps({name: array[None] for name, array in feeds.items()}, 1),
        lambda: session.prepare(feeds),
        prepared.run,
        session.reset,
        session.get_state,
        lambda: session.set_state(state),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="the session is closed"):
            use()
    assert "inputs x 2x2x3" in repr(session)


@pytest.mark.parametrize("on", WAYS)
def test_reset_forgets_it(graph_of: GraphMaker, on: Way) -> None:
    session = prototrt.Session(graph_of(2), on=on)
    first = run(session, 0, 2)
    assert not np.allclose(run(session, 0, 2), first)
    session.reset()
    assert session.state == {}
    np.testing.assert_array_equal(run(session, 0, 2), first)


@pytest.mark.parametrize("on", WAYS)
def test_state_that_is_given_replaces_what_was_carried(graph_of: GraphMaker, on: Way) -> None:
    session = prototrt.Session(graph_of(2), on=on)
    run(session, 0, 2)
    kept = session.state
    assert {name: array.shape for name, array in kept.items()} == {
        "lstm_h_0": (1, 2, 4),
        "lstm_c_0": (1, 2, 4),
    }
    expected = run(session, 2, 4)
    other = prototrt.Session(graph_of(2), on=on)
    run(other, 4, 6)
    np.testing.assert_array_equal(run(other, 2, 4, **kept), expected)


def test_state_is_no_result(graph_of: GraphMaker) -> None:
    session = prototrt.Session(graph_of(2))
    assert list(session.run({"x": X[:2], "cont": GOES_ON[:2]})) == ["y"]


@pytest.mark.parametrize(("name", "fix"), [("lstm_h_O", "did you mean lstm_h_0?"), ("label", "leave it out")])
def test_an_unknown_input_is_refused(graph_of: GraphMaker, name: str, fix: str) -> None:
    """A mistyped state would give other numbers without a word."""
    calls: list[Callable[[prototrt.Session, dict[str, Array]], object]] = [
        lambda session, feeds: session.run(feeds),
        lambda session, feeds: session.prepare(feeds),
        lambda session, feeds: session.run_steps(feeds, 1),
    ]
    for call in calls:
        with pytest.raises(NetError) as refusal:
            call(prototrt.Session(graph_of(2)), {"x": X[:2], "cont": GOES_ON[:2], name: np.zeros((1, 2, 4))})
        assert str(refusal.value) == (
            f'there is no input "{name}"\n  because the inputs are x, cont, lstm_h_0, lstm_c_0\n  fix: {fix}'
        )


def test_an_input_that_no_output_needs_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET.format(steps=2))
    graph = prototrt.rewrite(prototrt.load(path, random_weights=1), cont="drop")
    assert [value.name for value in graph.inputs if value not in graph.state_inputs] == ["x"]
    session = prototrt.Session(graph)
    expected = session.run({"x": X[:2]})["y"]
    session.reset()
    np.testing.assert_array_equal(run(session, 0, 2), expected)


def test_numbers_of_other_types_are_converted(graph_of: GraphMaker) -> None:
    session = prototrt.Session(graph_of(2))
    result = session.run({"x": X[:2].astype(np.float64), "cont": np.ones((2, 2), np.int64)})
    assert result["y"].dtype == np.float32


def test_missing_inputs_are_listed(graph_of: GraphMaker) -> None:
    with pytest.raises(NetError) as refusal:
        prototrt.Session(graph_of(2)).run({})
    assert str(refusal.value) == (
        "inputs are missing: x (2, 2, 3), cont (2, 2)\n  fix: give an array for each of them, under its name"
    )


def test_inputs_without_names(graph_of: GraphMaker) -> None:
    with pytest.raises(TypeError) as refusal:
        prototrt.Session(graph_of(2)).run(X)  # type: ignore[call-overload]
    assert str(refusal.value) == ('the inputs are of the type ndarray, expected a dictionary: {"x": array}')


def test_other_shape_is_refused(graph_of: GraphMaker) -> None:
    with pytest.raises(ShapeError) as refusal:
        prototrt.Session(graph_of(2)).run({"x": X, "cont": GOES_ON[:2]})
    assert str(refusal.value) == (
        'input "x" has the shape (6, 2, 3), expected (2, 2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes"
    )


@pytest.mark.parametrize(
    ("shape", "fix"),
    [
        ((4, 5, 3), "put the channels first, and add the axis of images: array.transpose(2, 0, 1)[None]"),
        ((1, 4, 5, 3), "put the channels before height and width: array.transpose(0, 3, 1, 2)"),
        ((3, 4, 5), "add the first axis, which has size 1: array[None]"),
        ((4, 5), "give an array of this shape, or change the input of the net with shapes"),
    ],
)
def test_images_of_another_layout(shape: tuple[int, ...], fix: str, tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }\n'
        'layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'
    )
    session = prototrt.Session(prototrt.rewrite(prototrt.load(net)))
    with pytest.raises(ShapeError) as refusal:
        session.run({"x": np.zeros(shape, np.float32)})
    assert str(refusal.value) == f'input "x" has the shape {shape}, expected (1, 3, 4, 5)\n  fix: {fix}'


def test_words_are_no_numbers(graph_of: GraphMaker) -> None:
    with pytest.raises(ShapeError) as refusal:
        prototrt.Session(graph_of(2)).run({"x": np.full((2, 2, 3), "one"), "cont": GOES_ON[:2]})
    assert str(refusal.value) == (
        'input "x" holds <U3, expected float32\n  fix: convert it: array.astype("float32")'
    )


def test_truth_values_are_taken_as_numbers(graph_of: GraphMaker) -> None:
    session = prototrt.Session(graph_of(2))
    expected = session.run({"x": X[:2], "cont": GOES_ON[:2]})["y"]
    session.reset()
    np.testing.assert_array_equal(session.run({"x": X[:2], "cont": GOES_ON[:2] > 0})["y"], expected)


def test_numbers_that_the_type_cannot_hold_are_refused(graph_of: GraphMaker) -> None:
    x = X[:2].astype(np.float64)
    x[1, 0, 2] = -1e300
    with pytest.raises(ShapeError) as refusal:
        prototrt.Session(graph_of(2)).run({"x": x, "cont": GOES_ON[:2]})
    assert str(refusal.value) == (
        'input "x" holds -1e+300, which float32 cannot hold\n  fix: clamp or rescale the input'
    )


@pytest.mark.parametrize("number", [2**40, -(2**63), np.nan, np.inf, -1e10])
def test_whole_numbers_that_the_type_cannot_hold_are_refused(number: float) -> None:
    value = Value("ids", DType.INT32, (1,))
    with pytest.raises(ShapeError, match=r"^input \"ids\" holds .*, which int32 cannot hold\n"):
        cast(value, np.array([number]))


def test_infinity_stays_infinity() -> None:
    value = Value("x", DType.FLOAT32, (2,))
    np.testing.assert_array_equal(cast(value, np.array([-np.inf, np.nan])), [-np.inf, np.nan])


def test_refused_call_leaves_the_state_as_it_was(graph_of: GraphMaker) -> None:
    session = prototrt.Session(graph_of(2))
    run(session, 0, 2)
    kept = session.state
    with pytest.raises(ShapeError):
        run(session, 0, 6)
    assert kept
    assert all(np.array_equal(array, session.state[name]) for name, array in kept.items())


def test_unknown_way_is_a_mistake_of_the_caller(graph_of: GraphMaker) -> None:
    with pytest.raises(ValueError, match=r"^on is 'gpu', expected one of reference, network"):
        prototrt.Session(graph_of(2), on="gpu")  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("is_file", [False, True])
def test_sessions_of_one_net_share_its_model_and_no_state(
    graph_of: GraphMaker, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    opened: list[str] = []
    own = runtime.InferenceSession

    def counted(path: str, *arguments: object, **options: object) -> object:
        opened.append(path)
        return own(path, *arguments, **options)

    monkeypatch.setattr(runtime, "InferenceSession", counted)
    graph, file = graph_of(2), tmp_path / "net.onnx"
    prototrt.export_onnx(graph, file)
    source = file if is_file else graph
    first, second = (prototrt.Session(source, "onnx") for _ in range(2))
    expected = [run(first, place, place + 2) for place in (0, 2, 4)]
    first.reset()
    with ThreadPoolExecutor(2) as threads:
        both = threads.map(lambda each: [run(each, place, place + 2) for place in (0, 2, 4)], (first, second))
        for results in both:
            np.testing.assert_array_equal(results, expected)
    assert len(opened) == 1
    first.close()
    run(second, 0, 2)
    if is_file:
        prototrt.export_onnx(graph, file)  # a new file
        prototrt.Session(source, "onnx")
        assert len(opened) == 2
    second.close()
    prototrt.Session(source, "onnx")
    assert len(opened) == 2 + is_file

"""One sequence, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, numbers

NET = """
name: "net"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 5 } }
"""
STEPS, T, N = 4, 2, 3
X = numbers(STEPS * T, N, 4).reshape(STEPS, T, N, 4)
CONT = np.ones((STEPS, T, N), np.float32)
CONT[0, 0] = 0

SessionMaker = Callable[..., prototrt.Session]


@pytest.fixture
def session_on(tmp_path: Path) -> SessionMaker:
    def make(on: Way = "reference", **options: Any) -> prototrt.Session:
        path = tmp_path / "net.prototxt"
        path.write_text(NET)
        return prototrt.Session(
            prototrt.rewrite(
                prototrt.load(path, random_weights=1), options=prototrt.RewriteOptions(**options)
            ),
            on=on,
        )

    return make


def expected(session: prototrt.Session) -> Array:
    session.reset()
    outputs = session.run_steps({"x": X, "cont": CONT}, STEPS)["y"]
    session.reset()
    return np.asarray(outputs)


@pytest.mark.parametrize("on", WAYS)
def test_steps_one_after_another(session_on: SessionMaker, on: Way) -> None:
    session = session_on(on)
    whole = expected(session)
    with session.stream({"x": x} for x in X) as outputs:
        for step, output in enumerate(outputs):
            np.testing.assert_array_equal(output["y"], whole[step])


def test_arrays_of_steps_and_given_cont(session_on: SessionMaker) -> None:
    session = session_on()
    whole = expected(session)
    with session.stream({"x": X}) as outputs:
        np.testing.assert_array_equal([output["y"] for output in outputs], whole)
    with session.stream({"x": X, "cont": CONT}) as outputs:
        np.testing.assert_array_equal([output["y"] for output in outputs], whole)
    with session.stream([{"x": x, "cont": np.zeros((T, N))} for x in X]) as outputs:
        assert not np.allclose([output["y"] for output in outputs], whole)


def test_cont_of_a_net_whose_batch_comes_first(session_on: SessionMaker) -> None:
    whole = expected(session_on())
    session = session_on(layout="batch-first")
    with session.stream({"x": x.swapaxes(0, 1)} for x in X) as outputs:
        for step, output in enumerate(outputs):
            np.testing.assert_allclose(output["y"].swapaxes(0, 1), whole[step], rtol=1e-6, atol=1e-7)


def test_a_step_is_computed_when_it_is_asked_for(session_on: SessionMaker) -> None:
    taken: list[int] = []

    def feeds() -> Iterator[dict[str, Array]]:
        for step, x in enumerate(X):
            taken.append(step)
            yield {"x": x}

    with session_on().stream(feeds()) as outputs:
        assert taken == []
        next(outputs)
        assert taken == [0]


def test_the_state_around_a_stream_stays(session_on: SessionMaker) -> None:
    session = session_on()
    session.run({"x": X[2], "cont": CONT[0]})
    before = session.get_state()
    with session.stream({"x": X[:1]}) as outputs:
        inner = next(outputs)["y"]
        with session.stream({"x": X[:1]}) as others:
            np.testing.assert_array_equal(next(others)["y"], inner)
    with pytest.raises(ShapeError), session.stream([{"x": X[0]}, {"x": X}]) as outputs:
        assert len([*outputs]) == 2
    after = session.get_state()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_arrays_with_other_numbers_of_steps(session_on: SessionMaker) -> None:
    with pytest.raises(ShapeError) as caught, session_on().stream({"x": X, "cont": CONT[:2]}):
        pass
    assert str(caught.value) == (
        'the array for "cont" has the shape (2, 2, 3), expected 4 as its first size\n'
        "  because stream() runs 4 steps and needs one row for each"
    )
    with pytest.raises(ShapeError) as caught, session_on().stream({"x": 1.0}):
        pass
    assert str(caught.value) == (
        'the array for "x" is a single number, expected one row for each step\n'
        "  fix: give arrays (steps, ...), or the inputs of each step one after another"
    )


def test_inputs_that_do_not_fit(session_on: SessionMaker) -> None:
    with session_on().stream([{"x": X[0]}, {"x": X[0, 0]}]) as outputs:
        next(outputs)
        with pytest.raises(ShapeError, match=r'^input "x" has the shape'):
            next(outputs)
    with session_on().stream({}) as outputs, pytest.raises(NetError, match=r"^inputs are missing: x"):
        next(outputs)
    with session_on().stream([{}]) as outputs, pytest.raises(NetError, match=r"^inputs are missing: x"):
        next(outputs)
    wrong: Any = [X[0]]
    with session_on().stream(wrong) as outputs, pytest.raises(TypeError, match="expected a dictionary"):
        next(outputs)

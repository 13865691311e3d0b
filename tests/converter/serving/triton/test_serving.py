"""One session for many sequences: each goes on where it was, whatever is computed between its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import Platform, TritonOptions
from prototrt.converter.running.sessions.session import Session
from prototrt.converter.serving.triton.served import ServedGraph
from prototrt.converter.serving.triton.serving import Arrays, Request, Serving
from prototrt.surgery.ir import Array, Dim, DType, OpenSize, Range, Recurrence, Value
from prototrt.tests.converter.serving.triton.nets import (
    POOLING,
    ROWS,
    frames,
    lstm,
    lstm_of_one_stream,
    served,
)
from prototrt.tests.small_nets import inputs_of, loaded, numbers

FRAMES = numbers(4, 6, 1, 3)
"""Four sequences of six frames."""
START, GO_ON = (np.full((1, 1), value, np.float32) for value in (0, 1))

STREAMS = {"together": served(lstm()), "one by one": served(lstm_of_one_stream())}
INPUTS = {"together": "x", "one by one": "frame"}


def serving(net: ServedGraph, **more: object) -> Serving:
    control = net.controls[0].name if net.controls else None
    return Serving(Session(net.graph), control, net.initial, **more)  # type: ignore[arg-type]


def frame(name: str, sequence: int, step: int, last: int = 5) -> Request:
    """A request as Triton makes it of the frame that a client sends."""
    feeds = {name: FRAMES[sequence, step], "cont": START if step == 0 else GO_ON}
    return Request(feeds, sequence + 1, step == 0, step == last)


def outputs(answers: Sequence[Arrays | ConversionError], name: str = "y") -> list[Array]:
    return [answer[name] for answer in answers if not isinstance(answer, ConversionError)]


def refusal(answer: Arrays | ConversionError) -> str:
    assert isinstance(answer, ConversionError)
    return str(answer)


def alone(kind: str, sequence: int) -> list[Array]:
    """What a session gives that has only this sequence."""
    own = serving(STREAMS[kind])
    return [outputs(own.answer([frame(INPUTS[kind], sequence, step)]))[0] for step in range(6)]


ALONE = {kind: [alone(kind, sequence) for sequence in range(4)] for kind in STREAMS}


@pytest.mark.parametrize("markers", [(), (1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("platform", ["onnxruntime", "tensorrt", "python"])
def test_a_mark_with_further_axes_is_one_number(
    platform: Platform, markers: tuple[int, ...], tmp_path: Path
) -> None:
    """(1, 1, 1, 1) as in LRCN: Triton gives (N, 1). What is computed is what the net of several steps computes."""
    net = served(frames(1, -1, 1, markers), TritonOptions(platform=platform))
    (mark,) = net.controls
    assert mark.shape[1:] == (1,)
    whole = prototrt.rewrite(loaded(tmp_path, frames(3, 1, 3, (1,)), random_weights=1))
    data, marks = numbers(3, 3), np.array([[0], [1], [1]], np.float32)
    expected = Session(whole).run({"data": data, "clip_markers": marks})["y"]
    session = Session(net.graph)
    for step, y in enumerate(expected):
        feeds = {"data": data[step : step + 1], mark.name: marks[step : step + 1]}
        np.testing.assert_allclose(session.run(feeds)["y"].reshape(y.shape), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", STREAMS)
@settings(max_examples=15)
@given(calls=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=12))
def test_sequences_do_not_touch_each_other(kind: str, calls: Sequence[set[int]]) -> None:
    """``calls`` says whose next frames are computed together; after its last frame a sequence starts again."""
    server = serving(STREAMS[kind])
    steps = [0] * 4
    for call in calls:
        answers = outputs(server.answer([frame(INPUTS[kind], one, steps[one] % 6) for one in call]))
        for one, found in zip(call, answers, strict=True):
            np.testing.assert_allclose(found, ALONE[kind][one][steps[one] % 6], rtol=1e-5, atol=1e-6)
            steps[one] += 1
    assert server.sequences == sum(1 for step in steps if step % 6)


def test_the_state_makes_a_difference() -> None:
    """Otherwise the test above could not fail."""
    (first, *_), (other, *_) = (ALONE["together"][one] for one in (0, 1))
    again = outputs(serving(STREAMS["together"]).answer([frame("x", 0, 0)]))[0]
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(
        ALONE["together"][0][1],
        outputs(serving(STREAMS["together"]).answer([Request({"x": FRAMES[0, 1], "cont": START}, 1, True)]))[
            0
        ],
    )


def test_a_sequence_has_a_number_or_a_name() -> None:
    server = serving(STREAMS["together"])
    for step in range(2):
        feeds = frame("x", 0, step).feeds
        by_number, by_name = outputs(
            server.answer([Request(feeds, name, step == 0) for name in (7, "camera 7")])
        )
        np.testing.assert_array_equal(by_number, by_name)
    assert server.sequences == 2


def test_a_start_forgets_the_sequence_of_the_same_name() -> None:
    server = serving(STREAMS["together"])
    server.answer([frame("x", 0, 0)])
    (found,) = outputs(server.answer([frame("x", 0, 0)]))
    np.testing.assert_array_equal(found, ALONE["together"][0][0])


def test_an_abandoned_sequence_ends() -> None:
    times = iter([0.0, 0.0, 9.0, 9.0, 20.0, 20.0])
    server = serving(STREAMS["together"], idle=10.0, clock=lambda: next(times))
    server.answer([frame("x", 0, 0)])
    (answer,) = server.answer([frame("x", 0, 1)])
    assert "y" in answer  # type: ignore[operator]
    (answer,) = server.answer([frame("x", 0, 2)])
    assert server.sequences == 0
    assert refusal(answer) == (
        "sequence 1 is unknown\n"
        "  because it has not started here, or it had no request for 10 s\n"
        "  fix: start it again: set sequence_start in its first request"
    )


def test_a_warm_up_belongs_to_no_sequence() -> None:
    server = serving(STREAMS["together"])
    zeros = {"x": np.zeros((1, 3), np.float32), "cont": np.zeros((1, 1), np.float32)}
    assert len(outputs(server.answer([Request(zeros)] * 8))) == 8
    assert server.sequences == 0


def test_a_wrong_request_leaves_the_others_alone() -> None:
    server = serving(STREAMS["together"])
    wrong = Request({"x": np.zeros((1, 2), np.float32), "cont": START}, 9, starts=True)
    first, second, third = server.answer([frame("x", 0, 0), wrong, frame("x", 1, 0)])
    assert refusal(second).splitlines()[0] == 'input "x" has the shape (1, 2), expected (N, 3)'
    for found, sequence in zip(outputs([first, third]), (0, 1), strict=True):
        np.testing.assert_allclose(found, ALONE["together"][sequence][0], rtol=1e-5, atol=1e-6)
    assert server.sequences == 2


def test_more_requests_than_the_batch() -> None:
    found = outputs(serving(STREAMS["together"]).answer([frame("x", one % 4, 0) for one in range(20)]))
    for one, each in enumerate(found):
        np.testing.assert_allclose(each, ALONE["together"][one % 4][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("steps", [2, 3])
def test_several_steps_in_a_request(steps: int) -> None:
    """Triton says of a request, not of its steps, whether a sequence starts."""
    server = serving(served(lstm(steps)))
    for first in range(0, 6, steps):
        rows = slice(first, first + steps)
        feeds = [{"x": FRAMES[one, rows].reshape(1, steps, 3)} for one in range(4)]
        cont = {"cont": START if first == 0 else GO_ON}
        found = outputs(
            server.answer([Request({**own, **cont}, one + 1, first == 0) for one, own in enumerate(feeds)])
        )
        for one, each in enumerate(found):
            wanted = np.concatenate(ALONE["together"][one][rows])
            np.testing.assert_allclose(each.reshape(steps, 4), wanted, rtol=1e-5, atol=1e-6)


def test_requests_with_different_numbers_of_steps() -> None:
    ranges: dict[str, Any] = {
        f"{size}_shapes": {"x": (steps, 1, 3), "cont": (steps, 1)}
        for size, steps in (("min", 1), ("opt", 2), ("max", 6))
    }
    server = serving(served(lstm(2), **ranges))
    lengths = [1, 3, 3, 6]
    requests = [
        Request({"x": FRAMES[one, :length].reshape(1, length, 3), "cont": START}, one + 1, starts=True)
        for one, length in enumerate(lengths)
    ]
    for one, found in enumerate(outputs(server.answer(requests))):
        wanted = np.concatenate(ALONE["together"][one][: lengths[one]])
        np.testing.assert_allclose(found.reshape(-1, 4), wanted, rtol=1e-5, atol=1e-6)


def test_a_state_to_start_with() -> None:
    state = {"lstm_h_0": numbers(1, 1, 4, seed=1), "lstm_c_0": numbers(1, 1, 4, seed=2)}
    net = served(lstm(), state=state)
    assert net.controls == ()
    server = serving(net)
    plain = Session(net.graph)
    plain.set_state({name: array.reshape(1, 4) for name, array in state.items()})
    for step in range(3):
        wanted = plain.run({"x": FRAMES[0, step]})["y"]
        (found,) = outputs(server.answer([Request({"x": FRAMES[0, step]}, 1, step == 0)]))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_requests_without_state_are_computed_together() -> None:
    server = serving(served(inputs_of({"x": (1, 2, 4, 4)}) + POOLING))
    images = [numbers(rows, 2, 4, 4, seed=rows) for rows in (1, 3, 2, 7)]
    for image, found in zip(images, outputs(server.answer([Request({"x": x}) for x in images])), strict=True):
        np.testing.assert_array_equal(found, image.max((2, 3), keepdims=True))
    assert server.sequences == 0


def test_a_net_that_takes_no_batch() -> None:
    net = served(inputs_of({"x": (1, 2, 4, 4)}) + ROWS)
    assert net.batch == 0
    images = [numbers(1, 2, 4, 4, seed=seed) for seed in range(3)]
    found = outputs(serving(net).answer([Request({"x": x}) for x in images]))
    for image, each in zip(images, found, strict=True):
        np.testing.assert_array_equal(each, image.reshape(8, 4))


M, K = (OpenSize.symbol(name, Range(1, 2, 8)) for name in ("M", "K"))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ((1, 2**40), 'the state "h" takes 4398.0 GB, expected at most 1.0 GB'),
        ((M, K), 'the state "h" would have the shape (1, -1)'),
    ],
)
def test_a_manifest_that_states_other_sizes(
    state: tuple[Dim, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gets a message, and goes on."""
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 10**9)
    h, out, x = (Value(name, DType.FLOAT32, state) for name in ("h", "out", "x"))
    signature = Signature((replace(x, shape=(1, 3)), h), (out,), (Recurrence(h, out, True),))
    session = SimpleNamespace(signature=signature)
    (answer,) = Serving(session).answer([Request({"x": numbers(1, 3)}, 1, starts=True)])  # type: ignore[arg-type]
    assert refusal(answer).splitlines()[0] == problem


def test_steps_that_no_input_counts() -> None:
    cont = Value("cont", DType.FLOAT32, (M, K))
    session = SimpleNamespace(signature=Signature((Value("x", DType.FLOAT32, (1, 3)), cont), (), ()))
    (answer,) = Serving(session, "cont").answer([Request({"x": numbers(1, 3), "cont": START})])  # type: ignore[arg-type]
    assert refusal(answer).splitlines()[0] == 'the input "cont" would have the shape (-1, -1)'

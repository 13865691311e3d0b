"""Companions of recurrent layers: continuation, reversal up to an end, reading off what was said."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import (
    WAYS,
    Blobs,
    Shapes,
    builds,
    failure,
    has_engine,
    numbers,
    op,
    refusal,
    rewritten,
    run,
    stored,
    told,
)


def result(kind: str, fields: str, on: Way, **inputs: Array) -> Array:
    return run(op(kind, fields, inputs), inputs, on=on)["y"]


@pytest.mark.parametrize("on", WAYS)
def test_continuation_indicator(on: Way) -> None:
    fields = "continuation_indicator_param { time_step: 3 batch_size: 2 }"
    graph = rewritten(op("ContinuationIndicator", fields, ()), {}, keep_constant=["y"])
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({})["y"], [[0, 0], [1, 1], [1, 1]])


DEEP_SPEECH = 'python_param { module: "ds2_cont_filler_layer" layer: "DS2ContFillerLayer" }'


@pytest.mark.parametrize("on", WAYS)
def test_cont_of_deep_speech_over_sizes_that_vary(on: Way) -> None:
    x = numbers(2, 3, 4)
    net = f"{op('Python', DEEP_SPEECH, ['x'])} layer {{ name: 'z' type: 'Power' bottom: 'x' top: 'z' }}"
    least, most = {"x": (1, 1, 4)}, {"x": (5, 6, 4)}
    graph = rewritten(net, {"x": x.shape}, min_shapes=least, max_shapes=most)
    np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({"x": x})["y"], [[0, 1, 1], [0, 1, 1]])


def test_cont_of_deep_speech_needs_streams() -> None:
    assert refusal(op("Python", DEEP_SPEECH), {"x": (3,)}) == (
        'net.prototxt:2: layer "op" (Python), bottom "x": shape is (3,), expected (T, N, ...)\n'
        "  fix: give it the input of the recurrent layer"
    )


def test_continuation_indicator_takes_the_batch_from_a_bottom() -> None:
    fields = "continuation_indicator_param { time_step: 2 }"
    found = result("ContinuationIndicator", fields, "reference", x=numbers(3, 5))
    np.testing.assert_array_equal(found, [[0, 0, 0], [1, 1, 1]])


def test_continuation_indicator_takes_the_batch_from_an_axis() -> None:
    fields = "continuation_indicator_param { time_step: 2 axis: %d }"
    for axis in (1, -1):
        found = result("ContinuationIndicator", fields % axis, "reference", x=numbers(5, 3))
        np.testing.assert_array_equal(found, [[0, 0, 0], [1, 1, 1]])
    assert refusal(op("ContinuationIndicator", fields % 2), {"x": (5, 3)}) == (
        'net.prototxt:2: layer "op" (ContinuationIndicator): axis is 2, but the bottom has 2 axes: (5, 3)\n'
        "  fix: use an axis from -2 to 1"
    )


def test_continuation_indicator_without_sizes() -> None:
    assert refusal(op("ContinuationIndicator", bottoms=[]), {}) == (
        'net.prototxt:1: layer "op" (ContinuationIndicator):'
        " time_step is 0 and batch_size 0, expected at least 1\n"
        "  fix: set both in continuation_indicator_param"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2, 2)])
def test_reverse_time(shape: tuple[int, ...], copies: bool, on: Way) -> None:
    x = numbers(*shape)
    lengths = np.array([5, 3, 1], np.float32)
    fields = f"reverse_time_param {{ copy_remaining: {str(copies).lower()} }}"
    expected = x.copy() if copies else np.zeros_like(x)
    for n, length in enumerate(lengths.astype(int)):
        expected[:length, n] = x[:length, n][::-1]
    np.testing.assert_array_equal(result("ReverseTime", fields, on, x=x, lengths=lengths), expected)


SHAPES = {"x": (4, 3, 2), "n": (3,)}


def of_any_size(copies: bool) -> Graph:
    net = op("ReverseTime", f"reverse_time_param {{ copy_remaining: {str(copies).lower()} }}", SHAPES)
    return rewritten(
        net, SHAPES, min_shapes={"x": (1, 1, 2), "n": (1,)}, max_shapes={"x": (9, 5, 2), "n": (5,)}
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("copies", [False, True])
def test_reverse_time_of_any_number_of_steps_and_streams(copies: bool, on: Way) -> None:
    """NaN behind the end stays there, or is nowhere."""
    session = prototrt.Session(of_any_size(copies), on=on)
    for steps, lengths in ((4, [4, 2, 0]), (1, [0, 1]), (9, [8, 3, 1, 9, 5])):
        x = numbers(steps, len(lengths), 2)
        expected = np.full_like(x, np.nan if copies else 0)
        for n, length in enumerate(lengths):
            x[length:, n] = np.nan
            expected[:length, n] = x[:length, n][::-1]
        feeds = {"x": x, "n": np.array(lengths, np.float32)}
        np.testing.assert_array_equal(session.run(feeds)["y"], expected)


@pytest.mark.trt
@pytest.mark.parametrize("copies", [False, True])
def test_reverse_time_of_any_size_builds(copies: bool) -> None:
    assert has_engine(of_any_size(copies))


def test_length_behind_the_last_step() -> None:
    feeds = {"x": numbers(4, 3, 2), "n": np.array([1, 5, 2], np.float32)}
    told = failure(lambda: run(op("ReverseTime", bottoms=feeds), feeds))
    assert told == (
        'net.prototxt:3: layer "op" (ReverseTime): length 5 is not one of 0 to 4\n'
        "  fix: correct the lengths: none may exceed the number of steps"
    )


def decoded(scores: Array, blank: int, merges: bool) -> Array:
    """A loop over the steps, as in the source."""
    steps, streams, _ = scores.shape
    rows = np.full((streams, steps), -1.0)
    for n in range(streams):
        previous, said = -1, []
        for t in range(steps):
            best = int(np.argmax(scores[t, n]))
            if best != blank and not (merges and best == previous):
                said.append(best)
            previous = best
        rows[n, : len(said)] = said
    return rows


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("merges", [True, False])
@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_greedy_decoder(blank: int, merges: bool, on: Way) -> None:
    """Few classes and whole scores: blanks, repetitions and equal scores everywhere."""
    scores = np.random.default_rng(5).integers(0, 4, (12, 5, 3)).astype(np.float32)
    scores[:, 4] = [0, 1, 0] if blank else [1, 0, 0]
    fields = f"ctc_decoder_param {{ blank_index: {blank} ctc_merge_repeated: {str(merges).lower()} }}"
    np.testing.assert_array_equal(
        result("CTCGreedyDecoder", fields, on, x=scores), decoded(scores, blank, merges)
    )


def decoded_to_ends(scores: Array, indicators: Array, blank: int) -> tuple[Array, Array]:
    """The source's loop: it looks at the indicator of the next step."""
    steps, streams, _ = scores.shape
    rows, totals = np.full((streams, steps, 1, 1), -1.0), np.zeros((streams, 1, 1, 1))
    for n in range(streams):
        previous, said, t = -1, 0, 0
        while True:
            best = int(np.argmax(scores[t, n]))
            totals[n] -= scores[t, n, best]
            if best not in (blank, previous):
                rows[n, said] = best
                said += 1
            previous = best
            t += 1
            if t == steps or indicators[t, n] == 0:
                break
    return rows, totals


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("steps", [1, 12])
def test_ctc_greedy_decoder_with_indicators(steps: int, on: Way) -> None:
    """A stream that begins with 0, one with 1, one that ends at once, one in the midst, and one that goes on after."""
    scores = np.random.default_rng(6).integers(0, 4, (steps, 5, 3)).astype(np.float32)
    indicators = np.ones((steps, 5), np.float32)
    indicators[0, 0] = indicators[1:2, 2] = indicators[7:, 3] = indicators[4:5, 4] = 0
    inputs = {"x": scores, "cont": indicators}
    net = op("CTCGreedyDecoder", "ctc_decoder_param { blank_index: 2 }", inputs, ("y", "score"))
    found = run(net, inputs, on=on)
    rows, totals = decoded_to_ends(scores, indicators, 2)
    np.testing.assert_array_equal(found["y"], rows)
    np.testing.assert_array_equal(found["score"], totals)


def test_ctc_greedy_decoder_with_other_indicators() -> None:
    assert refusal(op("CTCGreedyDecoder", bottoms=("x", "cont")), {"x": (4, 2, 3), "cont": (2, 4)}) == (
        'net.prototxt:3: layer "op" (CTCGreedyDecoder), bottom "cont": shape is (2, 4), expected (4, 2)\n'
        '  because these are T and N, the first dimensions of bottom "x"\n'
        "  fix: give an indicator for each step of each stream"
    )


def any_steps(layers: str, inputs: Shapes, blobs: Blobs | None = None) -> Graph:
    """A net over ``x`` (T, N, 3) of 1 to 12 steps, usually 4, and of 1 to 5 streams, usually 2."""
    return rewritten(
        layers, inputs, blobs, shapes={"x": ("T", "N", 3)}, sizes={"T": (1, 4, 12), "N": (1, 2, 5)}
    )


CALLS = ((4, 2), (1, 1), (12, 5), (1, 5), (7, 3))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("merges", [True, False])
def test_ctc_greedy_decoder_of_any_number_of_steps_and_streams(merges: bool, on: Way) -> None:
    fields = f"ctc_decoder_param {{ blank_index: 2 ctc_merge_repeated: {str(merges).lower()} }}"
    session = prototrt.Session(any_steps(op("CTCGreedyDecoder", fields), {"x": (4, 2, 3)}), on=on)
    for steps, streams in CALLS:
        scores = np.random.default_rng(steps).integers(0, 4, (steps, streams, 3)).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": scores})["y"], decoded(scores, 2, merges))


INDICATED = (
    'layer { name: "cont" type: "ContinuationIndicator" top: "cont"'
    " continuation_indicator_param { time_step: %d batch_size: %d } }\n"
    + op("LSTM", "recurrent_param { num_output: 4 }", ("x", "cont"))
)
BLOBS = stored("op", [numbers(16, 3, seed=1), numbers(16, seed=2), numbers(16, 4, seed=3)])


@pytest.mark.parametrize("on", WAYS)
def test_an_indicator_of_usual_sizes(on: Way) -> None:
    graph = any_steps(INDICATED % (4, 2), {"x": (4, 2, 3)}, blobs=BLOBS)
    assert [told(warning) for warning in graph.warnings] == [
        'net.prototxt:3: layer "op" (LSTM): "cont" states usual sizes, which vary: 4 is T and 2 is N'
    ]
    session = prototrt.Session(graph, on=on)
    for steps, streams in CALLS:
        x = numbers(steps, streams, 3, seed=steps)
        fixed = prototrt.Session(rewritten(INDICATED % (steps, streams), {"x": x.shape}, BLOBS))
        session.reset()
        for _ in range(2):  # the second call begins anew, too
            np.testing.assert_allclose(session.run({"x": x})["y"], fixed.run({"x": x})["y"], 1e-5, 1e-6)


def test_an_indicator_of_other_sizes() -> None:
    told_of = failure(lambda: any_steps(INDICATED % (5, 2), {"x": (4, 2, 3)}, blobs=BLOBS))
    assert told_of == (
        'net.prototxt:3: layer "op" (LSTM), bottom "cont": shape is (5, 2), expected (T, N)\n'
        '  because T varies and N varies, the first dimensions of bottom "x"\n'
        "  fix: give both bottoms the same sizes, in shapes or in a Reshape before this layer; or, if each call"
        ' holds whole sequences, convert with cont="drop" and state="zero"'
    )


@pytest.mark.trt
@pytest.mark.parametrize("layers", [op("CTCGreedyDecoder"), INDICATED % (4, 2)])
def test_of_any_number_of_steps_they_build(layers: str) -> None:
    assert has_engine(any_steps(layers, {"x": (4, 2, 3)}, blobs=BLOBS if "LSTM" in layers else None))


@pytest.mark.parametrize("on", WAYS)
def test_ctc_greedy_decoder_with_an_indicator_of_usual_sizes(on: Way) -> None:
    """As in the net of a text recognizer: no stream ends before the last step."""
    layers = (
        'layer { name: "cont" type: "ContinuationIndicator" top: "cont"'
        " continuation_indicator_param { time_step: 4 batch_size: 2 } }\n"
    ) + op("CTCGreedyDecoder", "ctc_decoder_param { blank_index: 2 }", ("x", "cont"))
    session = prototrt.Session(any_steps(layers, {"x": (4, 2, 3)}), on=on)
    for steps, streams in CALLS:
        scores = np.random.default_rng(steps).integers(0, 4, (steps, streams, 3)).astype(np.float32)
        found = session.run({"x": scores})["y"]
        np.testing.assert_array_equal(found.reshape(streams, steps), decoded(scores, 2, True))


@pytest.mark.trt
def test_they_build() -> None:
    layers = (
        'layer { name: "r" type: "ReverseTime" bottom: "x" bottom: "n" top: "r" }\n'
        'layer { name: "y" type: "CTCGreedyDecoder" bottom: "r" top: "y" }\n'
        'layer { name: "z" type: "CTCGreedyDecoder" bottom: "r" bottom: "c" top: "z" top: "s" }'
    )
    assert builds(layers, {"x": (6, 2, 4), "n": (2,), "c": (6, 2)})

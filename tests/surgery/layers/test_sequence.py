"""Companions of recurrent layers: continuation, reversal up to an end, reading off what was said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.errors import ConversionError
from prototrt.surgery.ir import Array

WAYS = ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"]


def run(folder: Path, layer: str, on: str, **feeds: Array) -> Array:
    text = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}"'
        f" input_param {{ shape {{ {' '.join(f'dim: {dim}' for dim in array.shape)} }} }} }}\n"
        for name, array in feeds.items()
    )
    bottoms = " ".join(f'bottom: "{name}"' for name in feeds)
    (folder / "net.prototxt").write_text(f'{text}layer {{ name: "y" {bottoms} top: "y" {layer} }}')
    graph = prototrt.rewrite(prototrt.load(folder / "net.prototxt"), require_weights=False)
    result: Array = prototrt.Session(graph, on=on).run(feeds)["y"]
    return result


@pytest.mark.parametrize("on", WAYS)
def test_continuation_indicator(on: str, tmp_path: Path) -> None:
    layer = 'type: "ContinuationIndicator" continuation_indicator_param { time_step: 3 batch_size: 2 }'
    np.testing.assert_array_equal(run(tmp_path, layer, on), [[0, 0], [1, 1], [1, 1]])


def test_continuation_indicator_takes_the_batch_from_a_bottom(tmp_path: Path) -> None:
    layer = 'type: "ContinuationIndicator" continuation_indicator_param { time_step: 2 }'
    result = run(tmp_path, layer, "reference", x=np.zeros((3, 5), np.float32))
    np.testing.assert_array_equal(result, [[0, 0, 0], [1, 1, 1]])


def test_continuation_indicator_without_sizes(tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        run(tmp_path, 'type: "ContinuationIndicator"', "reference")
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:1: layer "y" (ContinuationIndicator):'
        " time_step is 0 and batch_size 0, expected at least 1"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2, 2)])
def test_reverse_time(shape: tuple[int, ...], copies: bool, on: str, tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    lengths = np.array([5, 3, 1], np.float32)
    layer = f'type: "ReverseTime" reverse_time_param {{ copy_remaining: {str(copies).lower()} }}'
    expected = x.copy() if copies else np.zeros_like(x)
    for n, length in enumerate(lengths.astype(int)):
        expected[:length, n] = x[:length, n][::-1]
    np.testing.assert_array_equal(run(tmp_path, layer, on, x=x, lengths=lengths), expected)


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
def test_ctc_greedy_decoder(blank: int, merges: bool, on: str, tmp_path: Path) -> None:
    """Few classes and whole scores: blanks, repetitions and equal scores everywhere."""
    scores = np.random.default_rng(5).integers(0, 4, (12, 5, 3)).astype(np.float32)
    scores[:, 4] = [0, 1, 0] if blank else [1, 0, 0]
    layer = (
        f'type: "CTCGreedyDecoder" ctc_decoder_param {{ blank_index: {blank}'
        f" ctc_merge_repeated: {str(merges).lower()} }}"
    )
    np.testing.assert_array_equal(run(tmp_path, layer, on, x=scores), decoded(scores, blank, merges))


@pytest.mark.trt
def test_they_build(tmp_path: Path) -> None:
    text = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 6 dim: 2 dim: 4 } } }
layer { name: "n" type: "Input" top: "n" input_param { shape { dim: 2 } } }
layer { name: "r" type: "ReverseTime" bottom: "x" bottom: "n" top: "r" }
layer { name: "y" type: "CTCGreedyDecoder" bottom: "r" top: "y" }
"""
    (tmp_path / "net.prototxt").write_text(text)
    graph = prototrt.rewrite(prototrt.load(tmp_path / "net.prototxt"), require_weights=False)
    assert prototrt.build(graph, backend="rtx").plan.nbytes > 0

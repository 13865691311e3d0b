"""Layers around recurrent layers in text recognition forks: marks, reversal and decoding of sequences."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery import ops
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    layer_rule,
    misfit,
)
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.building.limits import refuse_too_many
from prototrt.surgery.ir import DType, Size, computable, fixed, range_of
from prototrt.surgery.layers.recurrent.bottoms import fitted_indicator, indicator
from prototrt.surgery.recurrent.counting import numbered_steps, numbers


@layer_rule("ContinuationIndicator")
def continuation_indicator(build: LayerBuilder, layer: Layer, like: Value | None = None) -> list[Value]:
    """cont for sequences that begin with each call: 0 in the first row, 1 elsewhere. From warpctc-caffe.

    Becomes: a constant, or Concat of two.
    Bottoms: none; in some forks one, whose axis ``axis`` is N, by default its first. Top: (time_step, batch_size). For
    a recurrent layer whose steps or streams vary, and usually are as many, the top has the sizes of that layer.
    Source: warpctc-caffe and jolibrain/caffe ``src/caffe/layers/continuation_indicator_layer.cpp``.
    """
    steps, streams = int(layer.param.time_step), int(layer.param.batch_size)
    size: Size = streams
    if like is not None and not streams:
        axis = canonical_axis(layer.param.axis, like.shape, "axis") if like.shape else 0
        size = computable((*like.shape, 1)[axis], "the batch size")
    if steps < 1 or range_of(size).min < 1:
        raise NetError(
            f"time_step is {steps} and batch_size {size}, expected at least 1",
            fix="set both in continuation_indicator_param",
        )
    refuse_too_many(steps * range_of(size).max, (steps, size), f'top "{layer.top_blob(0)}"')
    return [indicator(build, steps, size)]


@python_rule("ds2_cont_filler_layer.DS2ContFillerLayer")
def cont_of_deep_speech(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """cont that is 0 in the first column and 1 elsewhere. From CaffeDeepSpeech2.

    Becomes: a constant; over streams that vary Count, Greater, Cast, Tile.
    Bottoms: (T, N, ...), of which only T and N are read. Tops: (T, N).
    Source: ftian1/CaffeDeepSpeech2 ``ds2_cont_filler_layer.py``.
    """
    if len(x.shape) < 2:
        raise misfit(layer, 0, x, "(T, N, ...)", "give it the input of the recurrent layer")
    steps, streams = (computable(size, "the steps and streams") for size in x.shape[:2])
    if isinstance(streams, int):
        row = build.constant(np.minimum(np.arange(streams, dtype=np.float32), 1)[None], "cont")
    else:
        places = build.counted_numbers(streams, "streams", dtype=DType.FLOAT32)
        row = (places > 0).cast(DType.FLOAT32).reshape(1, streams)
    return [build.broadcast(row, (steps, streams), "cont")]


@layer_rule("ReverseTime")
def reverse_time(build: LayerBuilder, layer: Layer, x: Value, lengths: Value) -> list[Value]:
    """The first steps of each stream backwards, as many as its length. From caffe_ocr.

    Becomes: Cast, ReverseSequence, Select.
    Bottoms: x (T, N, ...), lengths (N,). Elements after the end are copied with copy_remaining, else 0.
    Source: caffe_ocr ``src/caffe/layers/reverse_time_layer.cpp``.
    """
    if len(x.shape) < 2 or lengths.shape != (x.shape[1],):
        raise ShapeError(
            f"shapes are {x.shape} and {lengths.shape}, expected (T, N, ...) and (N,)",
            fix="give a length for each stream",
        )
    count = lengths
    if count.dtype is not DType.INT32:
        count = build.add(ops.Cast(DType.INT32), lengths, hint="lengths")
    y = build.add(ops.ReverseSequence(), x, count)
    if layer.param.copy_remaining:
        return [y]
    row = build.reshape(count, (1, x.shape[1], 1), hint="lengths_row")
    valid = (row > numbered_steps(build, x)).named("valid")
    inside = build.reshape(valid, (*x.shape[:2], *(1,) * (len(x.shape) - 2)), hint="inside")
    return [build.add(ops.Select(), inside, y, build.scalar(0, len(y.shape)))]


@layer_rule("CTCGreedyDecoder")
def ctc_greedy_decoder(build: LayerBuilder, layer: Layer, x: Value, cont: Value | None = None) -> list[Value]:
    """The best class of each step, without blanks and, with ctc_merge_repeated, without repetitions.

    Becomes: Reverse, TopK, Cast, Select, MatMul, Reduce.
    Bottoms: scores (T, N, C); in some forks indicators (T, N), of which a 0 after the first step ends the stream.
    Tops: classes (N, T), with indicators (N, T, 1, 1), the row filled up with -1; with indicators, too, the negative
    sum of the best scores, (N, 1, 1, 1). A negative ``blank_index`` is the last class.
    Source: caffe_ocr and MhLiao/TextBoxes_plusplus ``src/caffe/layers/ctc_decoder_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(T, N, C)")
    steps, classes = (
        computable(x.shape[0], "the number of steps T"),
        fixed(x.shape[2], "the number of classes"),
    )
    refuse_too_many(range_of(steps).max ** 2, (steps, steps), "what is compared, each step with each other")
    largest, best = _best(build, x, classes)
    blank = int(layer.param.blank_index)
    is_class = _is_class(layer, best, blank if blank >= 0 else classes - 1)
    # The place of each class in its row is the number of classes before it. Sums of 0 and 1 are exact.
    number = numbers(build, steps, "steps")
    is_before = (build.aligned(number, 3, 1) > build.aligned(number, 3)).named("is_before")
    before = is_before.apply(ops.Cast(DType.FLOAT32)).named("before")
    runs = None if cont is None else _runs(build, layer, x, cont, number, before)
    if runs is not None:
        is_class = (is_class * runs.cast(DType.FLOAT32)).named("is_class_before_end")
    place = is_class.apply(ops.MatMul(transpose_b=True), before).named("place")
    column = build.aligned(number, 3).apply(ops.Cast(DType.FLOAT32)).named("columns")
    is_here = (1 - _is_nonzero((_upright(place) - column).named("apart"))) * _upright(is_class)
    # The class plus 1, so that an empty place is 0.
    moved = (is_here * _upright((best + 1).named("classes"))).named("moved")
    rows = moved.apply(ops.Reduce(ops.ReduceKind.SUM, (1,), keep=False)) - 1
    if runs is None:
        return [rows]
    tops = [rows.named("rows").reshape(*rows.shape, 1, 1)]
    if len(layer.tops) > 1:
        score = largest.transpose(1, 2, 0).named("best_scores")
        total = runs.chosen(score, 0).named("scores_before_end").sum(2).named("score")
        tops.append((-total).reshape(x.shape[1], 1, 1, 1))
    return tops


def _best(build: LayerBuilder, x: Value, classes: int) -> tuple[Value, Value]:
    """The largest score of each step, (T, N, 1), and its class, of equals the first, as floats (N, 1, T)."""
    largest, index = build.add_all(ops.TopK(2, 1), build.add(ops.Reverse(2), x, hint="scores"), hint="best")
    number = index.apply(ops.Cast(DType.FLOAT32)).named("index")
    return largest, (classes - 1 - number).named("class").transpose(1, 2, 0).named("class_rows")


def _runs(build: LayerBuilder, layer: Layer, x: Value, cont: Value, number: Value, before: Value) -> Value:
    """Where a stream has not ended: a truth value (N, 1, T). The 0 with which a stream begins ends none."""
    fitted = fitted_indicator(build, cont, x.shape[:2]) or cont
    if fitted.shape != x.shape[:2]:
        because = f'these are T and N, the first dimensions of bottom "{layer.bottom_blob(0)}"'
        fix = "give an indicator for each step of each stream"
        raise misfit(layer, 1, fitted, x.shape[:2], fix, because)
    indicators = build.reshape(fitted, (*fitted.shape, 1), hint="indicators")
    is_zero = indicators.equals(0).named("is_zero")
    is_later = (build.aligned(number, 3, 0) > 0).named("is_later")
    ends = (is_zero & is_later).named("is_end").cast(DType.FLOAT32).transpose(1, 2, 0).named("ends")
    return (
        (ends.apply(ops.MatMul(transpose_b=True), before).named("ended") + ends).named("ends_so_far") < 1
    ).named("runs")


def _is_class(layer: Layer, best: Value, blank: int) -> Value:
    """1 where a class is neither blank nor a repetition, otherwise 0: (N, 1, T)."""
    is_class = _is_nonzero((best - blank).named("from_blank"))
    if not layer.param.ctc_merge_repeated:
        return is_class
    previous = best.apply(ops.Pad((0, 0, 1), (0, 0, -1), -1.0)).named("previous")
    return is_class * _is_nonzero((best - previous).named("change"))


def _upright(row: Value) -> Value:
    """(N, 1, T) as (N, T, 1)."""
    return row.reshape(row.shape[0], row.shape[2], 1)


def _is_nonzero(x: Value) -> Value:
    """1 for whole numbers other than 0, and 0 for 0."""
    return abs(x).apply(ops.Clip(0, 1))

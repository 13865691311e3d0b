"""Layers around recurrent layers in text recognition forks: marks, reversal and decoding of sequences."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, expect_axes, layer_rule
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.building.limits import refuse_too_many
from prototrt.surgery.ir import DType, Size, Value, computable, fixed, range_of
from prototrt.surgery.layers.recurrent.indicator import indicator
from prototrt.surgery.ops import (
    ABS,
    ADD,
    GREATER,
    MULTIPLY,
    SUBTRACT,
    Cast,
    Clip,
    MatMul,
    Pad,
    Reduce,
    ReduceKind,
    Reverse,
    ReverseSequence,
    Select,
    TopK,
    Transpose,
)
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
        raise ShapeError(
            f"shape is {x.shape}, expected (T, N, ...)",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="give it the input of the recurrent layer",
        )
    steps, streams = (computable(size, "the steps and streams") for size in x.shape[:2])
    if isinstance(streams, int):
        row = build.constant(np.minimum(np.arange(streams, dtype=np.float32), 1)[None], "cont")
    else:
        places = Expression(build, build.counted_numbers(streams, "streams", dtype=DType.FLOAT32))
        row = (places > 0).cast(DType.FLOAT32).reshape(1, streams).value
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
        count = build.add(Cast(DType.INT32), lengths, hint="lengths")
    y = build.add(ReverseSequence(), x, count)
    if layer.param.copy_remaining:
        return [y]
    row = build.reshape(count, (1, x.shape[1], 1), hint="lengths_row")
    valid = build.add(GREATER, row, numbered_steps(build, x), hint="valid")
    inside = build.reshape(valid, (*x.shape[:2], *(1,) * (len(x.shape) - 2)), hint="inside")
    return [build.add(Select(), inside, y, build.scalar(0, len(y.shape)))]


@layer_rule("CTCGreedyDecoder")
def ctc_greedy_decoder(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The best class of each step, without blanks and, with ctc_merge_repeated, without repetitions.

    Becomes: Reverse, TopK, Cast, Select, MatMul, Reduce.
    Bottom: scores (T, N, C). Top: classes (N, T), the row filled up with -1.
    Source: caffe_ocr ``src/caffe/layers/ctc_decoder_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(T, N, C)", 3)
    steps, classes = (
        computable(x.shape[0], "the number of steps T"),
        fixed(x.shape[2], "the number of classes"),
    )
    refuse_too_many(range_of(steps).max ** 2, (steps, steps), "what is compared, each step with each other")
    best = _best(build, x, classes)
    said = _is_said(build, layer, best)
    # The place of each class in its row is the number of classes before it. Sums of 0 and 1 are exact.
    number = numbers(build, steps, "steps")
    is_before = build.add(GREATER, build.aligned(number, 3, 1), build.aligned(number, 3), hint="is_before")
    before = build.add(Cast(DType.FLOAT32), is_before, hint="before")
    place = build.add(MatMul(transpose_b=True), said, before, hint="place")
    column = build.add(Cast(DType.FLOAT32), build.aligned(number, 3), hint="columns")
    standing = _upright(build, place)
    goes = _and(
        build, _is_zero(build, build.add(SUBTRACT, standing, column, hint="apart")), _upright(build, said)
    )
    # The class plus 1, so that an empty place is 0.
    shown = _upright(build, build.add(ADD, best, build.scalar(1, 3), hint="classes"))
    row = build.add(Reduce(ReduceKind.SUM, (1,), keep=False), build.add(MULTIPLY, goes, shown, hint="moved"))
    return [build.add(SUBTRACT, row, build.scalar(1, 2))]


def _best(build: LayerBuilder, x: Value, classes: int) -> Value:
    """The class with the largest score, of equals the first, as floats (N, 1, T)."""
    _, index = build.add_all(TopK(2, 1), build.add(Reverse(2), x, hint="scores"), hint="best")
    number = build.add(Cast(DType.FLOAT32), index, hint="index")
    number = build.add(SUBTRACT, build.scalar(classes - 1, 3), number, hint="class")
    return build.add(Transpose((1, 2, 0)), number, hint="class_rows")


def _is_said(build: LayerBuilder, layer: Layer, best: Value) -> Value:
    """1 where a class is neither blank nor a repetition, otherwise 0: (N, 1, T)."""
    blank = build.add(SUBTRACT, best, build.scalar(int(layer.param.blank_index), 3), hint="from_blank")
    said = _is_nonzero(build, blank)
    if not layer.param.ctc_merge_repeated:
        return said
    previous = build.add(Pad((0, 0, 1), (0, 0, -1), -1.0), best, hint="previous")
    return _and(build, said, _is_nonzero(build, build.add(SUBTRACT, best, previous, hint="change")))


def _upright(build: LayerBuilder, row: Value) -> Value:
    """(N, 1, T) as (N, T, 1)."""
    return build.reshape(row, (row.shape[0], row.shape[2], 1))


def _is_nonzero(build: LayerBuilder, x: Value) -> Value:
    """1 for whole numbers other than 0, and 0 for 0."""
    return build.add(Clip(0, 1), build.add(ABS, x))


def _is_zero(build: LayerBuilder, x: Value) -> Value:
    return build.add(SUBTRACT, build.scalar(1, len(x.shape)), _is_nonzero(build, x))


def _and(build: LayerBuilder, a: Value, b: Value) -> Value:
    return build.add(MULTIPLY, a, b)

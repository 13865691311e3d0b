"""What primitives say of their axes, held against what they compute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DataSize, DType, Op, Value
from prototrt.surgery.ops import (
    ABS,
    ADD,
    LRN,
    Affine,
    AveragePool,
    Axis,
    Cast,
    Compress,
    Concat,
    Convolution,
    Deconvolution,
    Dequantize,
    Gather,
    MatMul,
    MaxPool,
    NonMaxSuppression,
    Pad,
    Patches,
    PReLU,
    Quantize,
    Reduce,
    ReduceKind,
    Reshape,
    Resize,
    Reverse,
    ReverseSequence,
    Scan,
    Scatter,
    Select,
    Slice,
    Softmax,
    Tile,
    TopK,
    Transpose,
    While,
)
from prototrt.tests.converter.test_families import PRIMITIVES
from prototrt.tests.small_nets import float32

Place: TypeAlias = tuple[Value, int]

RANDOM = np.random.default_rng(1)


def drawn(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def whole(limit: int, *shape: int) -> Array:
    return RANDOM.integers(0, limit, shape).astype(np.int32)


def adding_steps() -> Scan:
    body = Builder().body()
    total = body.add(ADD, body.body_input("state", (3,)), body.body_input("row", (3,)))
    return Scan(body.graph("", [total, total]), 1, 1)


def adding_rounds() -> While:
    body = Builder().body()
    state, summand = body.body_input("state", (3, 2)), body.body_input("summand", (3, 2))
    return While(body.graph("", [body.add(ADD, state, summand)]), rounds=2)


MOVED: list[tuple[Op, list[Array], Sequence[int]]] = [
    (ABS, [drawn(4, 3, 2)], [0]),
    (ADD, [drawn(4, 3, 2), drawn(4, 1, 2)], [0, 1]),
    (Cast(DType.INT32), [drawn(4, 3)], [0]),
    (Concat(1), [drawn(4, 3, 2), drawn(4, 5, 2)], [0, 1]),
    (Dequantize(axis=1), [whole(9, 4, 3).astype(np.int8), drawn(3)], [0]),
    (Gather(), [drawn(5, 2), whole(5, 4, 3)], [1]),
    (MatMul(), [drawn(4, 3, 2), drawn(4, 2, 5)], [0, 1]),
    (MatMul(transpose_b=True), [drawn(4, 3, 5), drawn(4, 5, 5)], [0, 1]),
    (PReLU(), [drawn(4, 3), drawn(1, 3)], [0, 1]),
    (Pad((1, 0), (0, 0)), [drawn(4, 3)], [0]),
    (Quantize(), [drawn(4, 3), float32(0.5)], [0]),
    (Quantize(axis=0), [drawn(4, 3), np.abs(drawn(4))], [0]),
    (Reduce(ReduceKind.MAX, (1,)), [drawn(4, 3, 2)], [0]),
    (Reduce(ReduceKind.MAX, (1,), keep=False), [drawn(4, 3, 2)], [0]),
    (Reshape((Axis(0), 6)), [drawn(4, 3, 2)], [0]),
    (Reshape((12, 2)), [drawn(4, 3, 2)], [0]),
    (Reverse(1), [drawn(4, 3)], [0]),
    (Scatter(7), [drawn(4, 3), np.argsort(drawn(4, 7))[:, :3].astype(np.int32)], [0, 1]),
    (Select(), [drawn(4, 3) > 0, drawn(4, 3), drawn(4, 1)], [0, 1, 2]),
    (Slice(1, 1, 2), [drawn(4, 3)], [0]),
    (Softmax(0), [drawn(4, 3)], [0]),
    (Tile(1, 2), [drawn(4, 3)], [0]),
    (TopK(1, 2), [drawn(4, 3)], [0]),
    (Transpose((1, 2, 0)), [drawn(4, 3, 2)], [0]),
]
"""Primitives that can have other axes around, their inputs, and which of these move."""
FIXED: list[tuple[Op, list[Array]]] = [
    (Affine(), [drawn(4, 3, 2), drawn(3), drawn(3)]),
    (AveragePool((2,), (1,), (0,), (0,)), [drawn(4, 3, 6)]),
    (Compress(DataSize("kept")), [drawn(4, 3), float32([1, 1, 1, 1])]),
    (Convolution((1,), (0,), (1,)), [drawn(4, 3, 6), drawn(2, 3, 2), drawn(2)]),
    (Deconvolution((1,), (0,), (1,)), [drawn(4, 3, 6), drawn(3, 2, 2), drawn(2)]),
    (LRN(3, 1, 0.5, 1), [drawn(4, 3, 2, 2)]),
    (MaxPool((2,), (1,), (0,), (0,)), [drawn(4, 3, 6)]),
    (NonMaxSuppression(0.1), [np.sort(np.abs(drawn(4, 3, 2, 2)), 2).reshape(4, 3, 4), np.ones((4, 3), bool)]),
    (Patches((2,), (1,), (0,), (1,)), [drawn(4, 3, 6)]),
    (Resize(5, 5), [drawn(4, 3, 2, 2)]),
    (ReverseSequence(), [drawn(4, 3, 2), whole(4, 3)]),
    (adding_rounds(), [drawn(3, 2), drawn(3, 2)]),
    (adding_steps(), [drawn(3), drawn(4, 3)]),
]
CASES = [*((op, inputs) for op, inputs, _ in MOVED), *FIXED]


def name_of(part: object) -> str:
    return type(part).__name__ if isinstance(part, Op) else ""


def values(op: Op, inputs: Sequence[Array]) -> tuple[list[Value], list[Value]]:
    """Values with the shapes of the inputs, and of the results of a primitive."""
    given, results = (
        [Value(f"{name}{index}", DType.FLOAT32, array.shape) for index, array in enumerate(arrays)]
        for name, arrays in (("x", inputs), ("y", op.evaluate(*inputs)))
    )
    return given, results


def tied_axes(op: Op, inputs: Sequence[Array]) -> Iterator[tuple[dict[int, int], int, int]]:
    """For each axis of each result: the axes of inputs that are tied to it, by input; the result; its axis."""
    given, results = values(op, inputs)
    twins = defaultdict[Place, set[Place]](set)
    for x, y, groups in op.ties(given, results):
        for left, right in groups:
            a, b = (x, left[0]), (y, right[0])
            if len(left) == len(right) == 1 and x.shape[left[0]] == y.shape[right[0]]:
                twins[a].add(b)
                twins[b].add(a)
    for number, result in enumerate(results):
        for axis in range(len(result.shape)):
            reached = {(result, axis)}
            for _ in range(len(inputs) + len(results) + 4):
                reached |= {twin for place in reached for twin in twins[place]}  # along the bodies, too
            tied = {given.index(x): place for x, place in reached if x in given}
            if tied:
                yield tied, number, axis


def follows(op: Op, inputs: Sequence[Array], tied: dict[int, int], number: int, axis: int) -> bool:
    """Whether a result has the last of its places twice when its inputs have."""
    order = np.arange(op.evaluate(*inputs)[number].shape[axis])
    order[0] = order[-1]
    moved = [array.take(order, tied[index]) if index in tied else array for index, array in enumerate(inputs)]
    expected = op.evaluate(*inputs)[number].take(order, axis)
    found = op.evaluate(*moved)[number]
    return np.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_every_primitive_answers_for_its_axes() -> None:
    silent = [
        f"{kind.__name__}.{question}"
        for kind in PRIMITIVES
        for question in ("ties", "mixes")
        if getattr(kind, question) is getattr(Op, question)
    ]
    assert silent == []


def test_every_answer_is_tried() -> None:
    """Primitives that inherit an answer are tried by one that has the same."""
    answers = {getattr(kind, question) for kind in PRIMITIVES for question in ("ties", "mixes", "renumbered")}
    tried = {getattr(type(op), question) for op, _ in CASES for question in ("ties", "mixes", "renumbered")}
    of_plugins = {ops.Plugin.ties, ops.Plugin.mixes}
    without_inputs = {ops.Count.ties, ops.Count.mixes}
    assert answers - tried - of_plugins - without_inputs == set()


@pytest.mark.parametrize(("op", "inputs"), CASES, ids=name_of)
def test_tied_axes_that_are_not_mixed_count_the_same(op: Op, inputs: list[Array]) -> None:
    mixed = op.mixes(inputs[0].ndim)
    for tied, number, axis in tied_axes(op, inputs):
        if mixed != range(inputs[0].ndim) and tied.get(0) not in mixed:
            assert follows(op, inputs, tied, number, axis), (tied, axis)


@pytest.mark.parametrize(("op", "inputs"), CASES, ids=name_of)
def test_mixed_axes_depend_on_other_places(op: Op, inputs: list[Array]) -> None:
    for tied, number, axis in tied_axes(op, inputs):
        if tied.get(0) in op.mixes(inputs[0].ndim) and not isinstance(op, (Scan, While)):
            assert not follows(op, inputs, tied, number, axis), (tied, axis)


@pytest.mark.parametrize(("op", "inputs", "moving"), MOVED, ids=name_of)
def test_an_axis_in_front(op: Op, inputs: list[Array], moving: Sequence[int]) -> None:
    several = [
        np.stack([array, array[::-1].copy(), array]) if index in moving else array
        for index, array in enumerate(inputs)
    ]
    moved = op.renumbered(range(1, inputs[moving[0]].ndim + 1))
    assert moved is not None
    for step in range(3):
        here = [array[step] if index in moving else array for index, array in enumerate(several)]
        for found, expected in zip(moved.evaluate(*several), op.evaluate(*here), strict=True):
            np.testing.assert_allclose(found[step], expected, rtol=1e-5, atol=1e-6)


@given(st.data())
@pytest.mark.parametrize(("op", "inputs", "moving"), MOVED, ids=name_of)
def test_axes_with_other_numbers(op: Op, inputs: list[Array], moving: Sequence[int], data: Any) -> None:
    rank = inputs[moving[0]].ndim
    places = data.draw(st.permutations(range(rank)))
    moved = op.renumbered(places)
    if moved is None:
        return
    here = [
        np.moveaxis(array, range(rank), places) if index in moving else array
        for index, array in enumerate(inputs)
    ]
    for found, expected in zip(moved.evaluate(*here), op.evaluate(*inputs), strict=True):
        back = [*places, *range(rank, expected.ndim)][: expected.ndim]
        if expected.ndim >= rank:
            expected = np.moveaxis(expected, range(expected.ndim), back)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "inputs"), FIXED, ids=name_of)
def test_a_primitive_whose_axes_are_fixed(op: Op, inputs: list[Array]) -> None:
    assert op.renumbered(range(1, inputs[0].ndim + 1)) is None

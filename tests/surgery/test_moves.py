"""Moves of axes: one description, whatever they were made of, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prototrt.surgery.ir import Array, DType, Op, Shape, Value
from prototrt.surgery.ir.axes import reshaped_axes
from prototrt.surgery.ir.layout import STEPS, STREAMS, BindingLayout, Factor, Factors
from prototrt.surgery.ops import Reshape, Transpose
from prototrt.surgery.passes.moved_values import Move, before_moves, together
from prototrt.surgery.passes.put_batch_first import batch_first

SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=1, max_size=5)


def numbered(shape: Sequence[int]) -> Array:
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


def value_of(array: Array) -> Value:
    return Value("x", DType.FLOAT32, array.shape)


def applied(ops: Sequence[Op], array: Array) -> Array:
    for op in ops:
        (array,) = op.evaluate(array)
    return array


@st.composite
def moves(draw: st.DrawFn) -> tuple[Sequence[int], list[Op]]:
    """A shape, and Transposes and Reshapes that add and remove axes of size 1."""
    start = draw(SIZES)
    shape, ops = list(start), list[Op]()
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            ops.append(Transpose(tuple(order)))
            shape = [shape[axis] for axis in order]
        else:
            shape = [dim for dim in shape if dim != 1]
            for _ in range(draw(st.integers(0, 2))):
                shape.insert(draw(st.integers(0, len(shape))), 1)
            ops.append(Reshape(tuple(shape)))
    return start, ops


def move_of(value: Value, ops: Sequence[Op]) -> Move:
    move = Move.of(value)
    for op in ops:
        found = move.then(op)
        assert found is not None
        move = found
    return move


@given(moves())
def test_any_moves_are_at_most_two(case: tuple[Sequence[int], list[Op]]) -> None:
    array = numbered(case[0])
    move = move_of(value_of(array), case[1])
    expected = applied(case[1], array)
    assert move.shape == expected.shape
    assert len(move.ops()) <= 2
    np.testing.assert_array_equal(applied(move.ops(), array), expected)


@given(moves())
def test_elements_meet_before_their_moves(case: tuple[Sequence[int], list[Op]]) -> None:
    """A sum of two moved values is the moved sum, also with a constant that broadcasts."""
    array = numbered(case[0])
    move = move_of(value_of(array), case[1])
    moved = applied(case[1], array)
    constant = numbered([dim if axis % 2 else 1 for axis, dim in enumerate(moved.shape)])
    axes = together([move, move])
    assert axes is not None
    before = before_moves(constant, axes, array.ndim)
    assert before is not None
    found = Move.of(value_of(array), axes)
    np.testing.assert_array_equal(applied(found.ops(), array + array + before), moved + moved + constant)


def test_what_changes_elements_is_no_move() -> None:
    move = Move.of(value_of(numbered((2, 3))))
    assert move.then(Reshape((6,))) is None
    assert move.then(Reshape((3, 2))) is None


@st.composite
def bindings(draw: st.DrawFn) -> tuple[Shape, tuple[Factors, ...]]:
    """The shape of a binding, whose axes are steps and streams, both in one axis, or neither; in any order."""
    steps, streams = (Factor(name, draw(st.integers(1, 4))) for name in (STEPS, STREAMS))
    pairs: list[list[Factors]] = [
        [(steps, streams)],
        [(streams, steps)],
        [(steps,), (streams,)],
        [(streams,)],
    ]
    known = draw(st.sampled_from(pairs))
    others: list[Factors] = [()] * draw(st.integers(0, 2))
    axes = draw(st.permutations([*known, *others]))
    shape = [
        prod(int(factor.size) for factor in factors) if factors else draw(st.integers(1, 4))
        for factors in axes
    ]
    return tuple(shape), tuple(axes)


@given(bindings())
def test_batch_first(case: tuple[Shape, tuple[Factors, ...]]) -> None:
    """The streams are in front; other axes keep their order; the inverse gives back what there was."""
    shape, axes = case
    layout = batch_first(shape, BindingLayout(axes))
    assert layout.names[0] == STREAMS
    array = numbered([int(dim) for dim in shape])
    moved = layout.array_from_caffe(array)
    np.testing.assert_array_equal(layout.array_to_caffe(moved), array)
    assert moved.ndim == len(layout.names)
    flat = [(factor.name, int(factor.size)) for factors in axes for factor in factors or [Factor("", 0)]]
    parts = [
        int(f.size) for dim, factors in zip(shape, axes, strict=True) for f in factors or [Factor("", dim)]
    ]
    place = [name for name, _ in flat].index(STREAMS)
    expected = np.moveaxis(array.reshape(parts), place, 0)
    np.testing.assert_array_equal(moved.reshape(-1), expected.reshape(-1))
    assert moved.shape[0] == parts[place]
    assert [dim for dim in moved.shape[1:] if dim != 1] == [dim for dim in expected.shape[1:] if dim != 1]


@given(SIZES, SIZES, SIZES)
def test_groups_of_a_reshape_hold_the_same_elements(x: list[int], ones: list[int], y: list[int]) -> None:
    """Every axis but those of size 1 is in one group; groups are in order, and as small as their elements allow."""
    before, after = tuple(x), (*(1 for _ in ones), prod(x[: len(y)]), *x[len(y) :], 1)
    found = reshaped_axes(before, after)
    for left, right in found:
        assert left
        assert right
        assert prod(before[axis] for axis in left) == prod(after[axis] for axis in right)
    for shape, side in ((before, 0), (after, 1)):
        axes = [axis for group in found for axis in group[side]]
        assert axes == sorted(set(axes))
        assert {axis for axis, dim in enumerate(shape) if dim != 1} <= {*axes}

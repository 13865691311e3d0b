"""Identifying and checking the bottoms of a recurrent layer, and the cont that ContinuationIndicator makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, misfit
from prototrt.surgery.building.shape_advice import dims, resize_advice
from prototrt.surgery.ir import (
    Dim,
    DType,
    OpenSize,
    Shape,
    Size,
    computable,
    element_count,
    measure,
    range_of,
)
from prototrt.surgery.ops import Concat
from prototrt.surgery.recurrent.cells import clip
from prototrt.surgery.recurrent.running import StackInputs


@dataclass(frozen=True, slots=True)
class ExpectedBottoms:
    """Which bottoms may follow x and cont: how many static inputs at most, lengths, and which states."""

    statics: int
    lengths: bool
    states: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentBottoms:
    """``x`` (T, N, ...), ``cont`` (T, N), static inputs (N, ...), ``lengths`` (N,), exposed initial states.

    There is no cont if the options drop it.
    """

    build: LayerBuilder
    layer: Layer
    x: Value
    cont: Value | None
    statics: tuple[Value, ...]
    lengths: Value | None
    initial: tuple[Value, ...]
    first_state: int

    @property
    def steps(self) -> Dim:
        return self.x.shape[0]

    @property
    def streams(self) -> Dim:
        return self.x.shape[1]

    def varies(self, place: int) -> bool:
        """Whether a static input changes from step to step: (T, N, ...).

        The first one, Caffe's, never changes, even if its second axis is as long as T or N.
        """
        shape = self.statics[place].shape
        return place > 0 and len(shape) > 2 and shape[:2] == (self.steps, self.streams)

    def static_size(self, place: int) -> int:
        """The number of elements that a static input has at a step."""
        axes = 2 if self.varies(place) else 1
        return element_count(self.statics[place].shape[axes:], "an axis of x_static")

    def stack_inputs(self, build: LayerBuilder, input_clip: float = 0.0) -> StackInputs:
        """The inputs of the stack. x is clipped to -input_clip and input_clip, unless that is 0."""
        inputs = element_count(self.x.shape[2:], "an axis of x")
        flat = build.reshape(self.x, (self.steps, self.streams, inputs), hint="x")
        return StackInputs(
            clip(flat, input_clip).named("x_clip"),
            self.cont,
            self.lengths,
            tuple(self._static_rows(build, place) for place in range(len(self.statics))),
        )

    def _static_rows(self, build: LayerBuilder, place: int) -> Value:
        """A static input as (1, N, S), to be broadcast over the steps, or as (T, N, S) if it changes."""
        shape = (self.steps if self.varies(place) else 1, self.streams, self.static_size(place))
        return build.reshape(self.statics[place], shape, hint="static")

    def expect(self, index: int, value: Value, shape: tuple[Dim, ...]) -> None:
        if value.shape == shape:
            return
        sizes = f"{_size_text('T', self.steps)} and {_size_text('N', self.streams)}"
        because = f"{sizes}, the first dimensions of {bottom(self.layer, 0)}"
        raise misfit(self.layer, index, value, shape, self.advice(index, value, shape), because)

    def expect_states(self, *shapes: Shape) -> None:
        """Refuse exposed initial states of other shapes."""
        for index, (value, shape) in enumerate(zip(self.initial, shapes, strict=False), self.first_state):
            self.expect(index, value, shape)

    def advice(self, index: int, value: Value, expected: tuple[Dim, ...]) -> str:
        """How the bottom gets this shape."""
        if (advice := resize_advice(self.build, value, expected)) is not None:
            return advice
        actual = value.shape
        if not any(isinstance(dim, str) for dim in (*actual, *expected)):
            has_as_many = measure(actual) == measure(expected)
            how = "as by a Reshape" if has_as_many else "by a change of the layers that make it"
            return f"give it the shape {dims(expected)}, {how}"
        fix = Worded(
            "give both bottoms the same sizes, in {} or in a Reshape before this layer", Option("shapes")
        )
        if index != 1 or any(isinstance(dim, str) for dim in actual):
            return fix
        whole = Option("cont", "drop"), Option("state", "zero")
        return Worded("{}; or, if each call holds whole sequences, convert with {} and {}", fix, *whole)


def _size_text(letter: str, size: Dim) -> str:
    return f"{letter} varies" if size == letter else f"{letter} is {size}"


def bottom(layer: Layer, index: int) -> str:
    """The name of a bottom in messages."""
    return f'bottom "{layer.bottom_blob(index)}"'


def expect_step(layer: Layer, state: Value) -> None:
    """Refuse a first bottom that is not the state of one step, (1, N, H)."""
    if len(state.shape) != 3 or state.shape[0] != 1:
        fix = "slice the sequence into single steps, and give this layer the state of one of them"
        raise misfit(layer, 0, state, "(1, N, H)", fix)


def expect_shape(layer: Layer, value: Value, shape: Shape, because: str, index: int = 0) -> None:
    """Refuse a bottom of another shape. ``because`` is the reason for the expected shape."""
    if value.shape != shape:
        fix = "change the num_output of the layer that makes this bottom, or add a Reshape after that layer"
        raise misfit(layer, index, value, shape, fix, because)


def read_bottoms(
    build: LayerBuilder,
    layer: Layer,
    x: Value,
    cont: Value | None,
    others: Sequence[Value],
    expected: ExpectedBottoms,
) -> RecurrentBottoms:
    """Identify the bottoms after x and cont: static inputs, sequence lengths, initial states.

    A cont that the options drop may have any shape: that of a net that computes it does not vary with T.
    """
    if len(x.shape) < 3:
        fix = "give x an axis of steps, an axis of streams, and the inputs of a step"
        raise misfit(layer, 0, x, "(T, N, ...)", fix)
    first = 1 if cont is None else 2
    rest = list(enumerate(others, first))
    lengths = _take_lengths(layer, rest) if expected.lengths else None
    if not len(expected.states) <= len(rest) <= len(expected.states) + expected.statics:
        raise _wrong_count(layer, first, expected)
    statics = rest[: len(rest) - len(expected.states)]
    initial = rest[len(statics) :]
    drops_cont = cont is not None and build.heed("cont") == "drop"
    bottoms = RecurrentBottoms(
        build,
        layer,
        x,
        None if drops_cont else fitted_indicator(build, cont, x.shape[:2]),
        tuple(value for _, value in statics),
        lengths[1] if lengths else None,
        tuple(value for _, value in initial),
        initial[0][0] if initial else 0,
    )
    if bottoms.cont is not None:
        bottoms.expect(1, bottoms.cont, (bottoms.steps, bottoms.streams))
    if lengths:
        bottoms.expect(*lengths, (bottoms.streams,))
    for place, (index, value) in enumerate(statics):
        _expect_static(bottoms, place, index, value)
    return bottoms


def _take_lengths(layer: Layer, rest: list[tuple[int, Value]]) -> tuple[int, Value]:
    """The sequence lengths are the last bottom with a single axis: initial states have three."""
    for place in reversed(range(len(rest))):
        if len(rest[place][1].shape) == 1:
            return rest.pop(place)
    raise NetError(
        "has no bottom with the sequence lengths",
        because="sequence_lengths is true",
        fix="add a bottom of shape (N,), the number of steps of each stream",
    )


def _wrong_count(layer: Layer, first: int, expected: ExpectedBottoms) -> NetError:
    states, lengths = expected.states, int(expected.lengths)
    least = first + lengths + len(states)
    counts = [str(least + extra) for extra in range(expected.statics + 1)]
    then = "x, cont" if first == 2 else "x"
    if expected.statics:
        then += ", optionally a static input" if expected.statics == 1 else ", optionally static inputs"
    return NetError(
        f"has {len(layer.bottoms)} bottoms, expected {' or '.join(counts)}",
        because=f"expose_hidden is {'true' if states else 'false'}",
        fix=f"give {then}"
        + (", then the sequence lengths" if lengths else "")
        + (f", then the initial {' and '.join(states)}" if states else ""),
    )


def _expect_static(bottoms: RecurrentBottoms, place: int, index: int, value: Value) -> None:
    if bottoms.varies(place) or (len(value.shape) > 1 and value.shape[0] == bottoms.streams):
        return
    because = f"{_size_text('N', bottoms.streams)}, the second dimension of {bottom(bottoms.layer, 0)}"
    fix = bottoms.advice(index, value, (bottoms.streams, *(value.shape[1:] or value.shape)))
    raise misfit(bottoms.layer, index, value, f"({bottoms.streams}, ...)", fix, because)


def indicator(build: LayerBuilder, steps: Size, streams: Size) -> Value:
    """0 in the first row, 1 elsewhere: (T, N)."""
    if isinstance(steps, int) and isinstance(streams, int):
        later = build.constant(np.broadcast_to(np.float32(1), (steps - 1, streams)), "continuing")
        first = build.constant(np.broadcast_to(np.float32(0), (1, streams)), "beginning")
        return build.add(Concat(0), first, later) if steps > 1 else first
    number = build.aligned(build.counted_numbers(steps, "steps"), 2, 0)
    return build.broadcast((number > 0).cast(DType.FLOAT32), (steps, streams), "cont")


def fitted_indicator(build: LayerBuilder, cont: Value | None, shape: Shape) -> Value | None:
    """An indicator of this shape (T, N) for one that states the usual sizes of what varies; or ``cont`` itself.

    A ContinuationIndicator states numbers, and reads nothing that knows the sizes of a call.
    """
    node = None if cont is None else build.writer(cont)
    if cont is None or node is None or node.origin.type != "ContinuationIndicator" or cont.shape == shape:
        return cont
    pairs = list(zip(cont.shape, shape, strict=False))
    if len(shape) < 2 or not all(size == expected or size == _usual(expected) for size, expected in pairs):
        return cont
    differences = [f"{size} is {expected}" for size, expected in pairs if size != expected]
    build.warn(f'"{cont.name}" states usual sizes, which vary: {" and ".join(differences)}')
    steps, streams = map(computable, shape)
    return indicator(build, steps, streams)


def _usual(size: Dim) -> Dim:
    return range_of(size).opt if isinstance(size, OpenSize) else size

"""Loops: a trip count or a condition, slices handed in, states carried on, results put together."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.readback.actions import Action, Values
from prototrt.converter.backends.readback.dtypes import NetworkTensor
from prototrt.converter.backends.readback.registry import Array

LOOP_LAYERS = ("ITERATOR", "LOOP_OUTPUT", "RECURRENCE", "TRIP_LIMIT")
"""The kinds of TensorRT layers that are a loop's boundary. They have no rules of their own: see ``schedule``."""


@dataclass(frozen=True, slots=True)
class LoopIterator:
    """Hands out one slice of a tensor after another, or, in reverse, from the last trip's to the first's."""

    where: str
    source: str
    output: NetworkTensor
    axis: int
    reverse: bool

    def advance(self, values: Values, trip: int, trips: int | None) -> None:
        source = values[self.source]
        assert trips is not None or not self.reverse
        place = trips - 1 - trip if self.reverse and trips is not None else trip
        if place >= source.shape[self.axis]:
            raise ShapeError(
                f'trip {place} is after the end of "{self.source}", which has shape {source.shape}',
                where=self.where,
                because=f"the loop iterates over axis {self.axis}",
            )
        values[self.output.name] = np.take(source, place, self.axis)


@dataclass(frozen=True, slots=True)
class LoopState:
    """A value that goes from one trip to the next: ``initial`` before the first, then ``following``."""

    where: str
    initial: str
    following: str
    output: NetworkTensor

    def start(self, values: Values) -> None:
        values[self.output.name] = self.output.hold(values[self.initial], self.where)


@dataclass(frozen=True, slots=True)
class LoopOutput:
    """``length`` names the tensor that holds the number of trips whose values are concatenated."""

    where: str
    source: str
    output: NetworkTensor
    length: str
    axis: int
    reverse: bool

    def join(self, trips: list[Array], values: Values) -> Array:
        length = int(values[self.length])
        if len(trips) != length:
            # TensorRT leaves what an early end does not write undefined: there is nothing to compare with.
            raise ShapeError(
                f"the loop made {len(trips)} trips, but its output is to be {length} long", where=self.where
            )
        if not trips:
            return self._nothing()
        return self.output.hold(np.stack(trips[::-1] if self.reverse else trips, self.axis), self.where)

    def _nothing(self) -> Array:
        shape = tuple(0 if axis == self.axis else size for axis, size in enumerate(self.output.shape))
        if -1 in shape:
            raise ShapeError("the loop made no trip, so its output has no known shape", where=self.where)
        return np.zeros(shape, self.output.held_dtype)


@dataclass(frozen=True, slots=True, eq=False)
class LoopAction:
    """``guard`` computes the condition before each trip; ``body`` is the rest.

    ``last_values`` are pairs: the state's output, and the tensor that gets its value after the loop.
    """

    name: str
    count: str | None
    condition: str | None
    iterators: tuple[LoopIterator, ...]
    states: tuple[LoopState, ...]
    guard: tuple[Action, ...]
    body: tuple[Action, ...]
    outputs: tuple[LoopOutput, ...]
    last_values: tuple[tuple[str, str], ...]
    reads: frozenset[str]
    writes: frozenset[str]

    def run(self, values: Values) -> None:
        trips = None if self.count is None else int(values[self.count])
        collected: list[list[Array]] = [[] for _ in self.outputs]
        for state in self.states:
            state.start(values)
        trip = 0
        while (trips is None or trip < trips) and self._goes_on(values):
            self._trip(values, trip, trips)
            for output, parts in zip(self.outputs, collected, strict=True):
                parts.append(values[output.source])
            self._recur(values)
            trip += 1
        for source, target in self.last_values:
            values[target] = values[source]
        for output, parts in zip(self.outputs, collected, strict=True):
            values[output.output.name] = output.join(parts, values)

    def _goes_on(self, values: Values) -> bool:
        for action in self.guard:
            action.run(values)
        return self.condition is None or bool(values[self.condition])

    def _trip(self, values: Values, trip: int, trips: int | None) -> None:
        for iterator in self.iterators:
            iterator.advance(values, trip, trips)
        for action in self.body:
            action.run(values)

    def _recur(self, values: Values) -> None:
        # All are read before any is written: a state may be fed by another one.
        following = [values[state.following] for state in self.states]
        for state, value in zip(self.states, following, strict=True):
            values[state.output.name] = state.output.hold(value, state.where)

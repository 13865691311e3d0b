"""What the interpreter does, one thing after another: run a layer, run a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from prototrt.caffe_proto.errors import ConversionError, ShapeError
from prototrt.converter.readback.dtypes import Tensor
from prototrt.converter.readback.registry import Array, Evaluate

Values = dict[str, Array]


class Step(Protocol):
    @property
    def reads(self) -> frozenset[str]: ...

    @property
    def writes(self) -> frozenset[str]: ...

    def run(self, values: Values) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class LayerStep:
    where: str
    evaluate: Evaluate
    inputs: tuple[str | None, ...]
    outputs: tuple[Tensor, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for name in self.inputs if name is not None)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(output.name for output in self.outputs)

    def run(self, values: Values) -> None:
        results = self._results([None if name is None else values[name] for name in self.inputs])
        for output, result in zip(self.outputs, results, strict=True):
            values[output.name] = output.hold(result, self.where)

    def _results(self, arguments: Sequence[Array | None]) -> tuple[Array, ...]:
        try:
            results = self.evaluate(*arguments)
        except ConversionError as error:
            error.where = self.where
            raise
        except (ValueError, IndexError) as error:
            raise ShapeError(f"cannot be computed: {error}", where=self.where) from error
        return results if isinstance(results, tuple) else (results,)


@dataclass(frozen=True, slots=True)
class Iterator:
    """Hands out one slice of a tensor after another, or, in reverse, from the last trip's to the first's."""

    where: str
    source: str
    output: Tensor
    axis: int
    reverse: bool

    def advance(self, values: Values, trip: int, trips: int | None) -> None:
        source = values[self.source]
        assert trips is not None or not self.reverse
        place = trips - 1 - trip if self.reverse and trips is not None else trip
        if place >= source.shape[self.axis]:
            raise ShapeError(
                f'trip {place} is behind the end of "{self.source}", which has shape {source.shape}',
                where=self.where,
                because=f"the loop iterates over axis {self.axis}",
            )
        values[self.output.name] = np.take(source, place, self.axis)


@dataclass(frozen=True, slots=True)
class Recurrence:
    where: str
    initial: str
    following: str
    output: Tensor

    def start(self, values: Values) -> None:
        values[self.output.name] = self.output.hold(values[self.initial], self.where)


@dataclass(frozen=True, slots=True)
class LoopOutput:
    """``length`` names the tensor that says how many trips' values are put together."""

    where: str
    source: str
    output: Tensor
    length: str
    axis: int
    reverse: bool

    def joined(self, trips: list[Array], values: Values) -> Array:
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
class LoopStep:
    """``guard`` computes the condition before each trip; ``body`` is the rest.

    ``last_values`` are pairs: the recurrence's output, and the tensor that gets its value after the loop.
    """

    name: str
    count: str | None
    condition: str | None
    iterators: tuple[Iterator, ...]
    recurrences: tuple[Recurrence, ...]
    guard: tuple[Step, ...]
    body: tuple[Step, ...]
    outputs: tuple[LoopOutput, ...]
    last_values: tuple[tuple[str, str], ...]
    reads: frozenset[str]
    writes: frozenset[str]

    def run(self, values: Values) -> None:
        trips = None if self.count is None else int(values[self.count])
        collected: list[list[Array]] = [[] for _ in self.outputs]
        for recurrence in self.recurrences:
            recurrence.start(values)
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
            values[output.output.name] = output.joined(parts, values)

    def _goes_on(self, values: Values) -> bool:
        for step in self.guard:
            step.run(values)
        return self.condition is None or bool(values[self.condition])

    def _trip(self, values: Values, trip: int, trips: int | None) -> None:
        for iterator in self.iterators:
            iterator.advance(values, trip, trips)
        for step in self.body:
            step.run(values)

    def _recur(self, values: Values) -> None:
        # All are read before any is written: a recurrence may be fed by another one.
        following = [values[recurrence.following] for recurrence in self.recurrences]
        for recurrence, value in zip(self.recurrences, following, strict=True):
            values[recurrence.output.name] = recurrence.output.hold(value, recurrence.where)

"""Where the steps of each value lie in a net for pieces of a stream, as the net for one long call tells it."""

from __future__ import annotations

import math
from fractions import Fraction

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Dim, Graph, Shape, Value, computable
from prototrt.surgery.ir.layout import STEPS, STREAMS, BindingLayout, Factor
from prototrt.surgery.passes.named_axes import step_axes
from prototrt.surgery.passes.step_rates import rates_of_steps


@dataclass(frozen=True, slots=True)
class StepAxis:
    """Where the steps of a value lie.

    ``shape`` is that of a piece, with an axis for each factor of a row. ``streams`` is the axis of the streams, if it
    is known. One step is ``rate`` steps of the input.
    """

    shape: Shape
    axis: int
    streams: int | None
    rate: Fraction

    @property
    def steps(self) -> int:
        steps = self.shape[self.axis]
        assert isinstance(steps, int)
        return steps

    def broadcast(self, steps: int, streams: Dim) -> Shape:
        """The shape of a value that has a number for each step of each stream."""
        sizes: list[Dim] = [1] * len(self.shape)
        sizes[self.axis] = steps
        if self.streams is not None:
            sizes[self.streams] = streams
        return tuple(sizes)


class StreamAxes:
    """The axes of the values of a graph, for one long call, in pieces of so many steps.

    ``of`` has the values whose steps a piece has a part of. ``unit`` steps of the input are a whole number of steps of
    each of them.
    """

    def __init__(self, graph: Graph, steps: int) -> None:
        self._graph, self._steps = graph, steps
        self._names = step_axes(graph)
        self._rates = rates_of_steps(graph, self._names)
        self.of = {old: self._place(old) for old in self._rates if self._has_steps(old)}
        self.unit = math.lcm(*(place.rate.numerator for place in self.of.values()))

    def _has_steps(self, old: Value) -> bool:
        factors = [factor for axis in self._names.of(old) for factor in axis if factor.name == STEPS]
        return len(factors) == 1 and factors[0].size != 1

    def _size(self, old: Value, factor: Factor) -> Dim:
        is_piece = factor.name == STEPS and old in self._rates and self._has_steps(old)
        return int(self._steps / self._rates[old]) if is_piece else factor.size

    def _parts(self, old: Value) -> list[list[tuple[str, Dim]]]:
        """For each axis, the names and sizes of its factors in a piece."""
        return [
            [(factor.name, self._size(old, factor)) for factor in factors] or [("", dim)]
            for dim, factors in zip(old.shape, self._names.of(old), strict=True)
        ]

    def _place(self, old: Value) -> StepAxis:
        names, sizes = zip(*(part for axis in self._parts(old) for part in axis), strict=True)
        streams = names.index(STREAMS) if names.count(STREAMS) == 1 else None
        return StepAxis(sizes, names.index(STEPS), streams, self._rates[old])

    def piece(self, old: Value) -> Value:
        """The value as it is in a piece, under the same name."""
        if old not in self.of:
            return old
        shape: list[Dim] = []
        for axis in self._parts(old):
            (_, size), *others = axis
            for _, other in others:
                size = computable(size) * computable(other)
            shape.append(size)
        return replace(old, shape=tuple(shape))

    def axis(self, old: Value) -> int:
        """The axis of the steps of a value, whose rows may also count streams."""
        return next(
            axis for axis, parts in enumerate(self._parts(old)) if any(name == STEPS for name, _ in parts)
        )

    def streams(self) -> Dim:
        """How many streams the net has; 1 where nothing says so."""
        factors = (
            factor
            for value in self._graph.inputs
            for axis in self._names.of(value)
            for factor in axis
            if factor.name == STREAMS
        )
        return next((factor.size for factor in factors), 1)

    def bindings(self) -> dict[str, BindingLayout]:
        """The axes of inputs and outputs, as the long call tells them."""
        return {
            value.name: BindingLayout(
                tuple(
                    tuple(replace(factor, size=self._size(value, factor)) for factor in axis)
                    for axis in self._names.of(value)
                )
            )
            for value in (*self._graph.inputs, *self._graph.outputs)
        }

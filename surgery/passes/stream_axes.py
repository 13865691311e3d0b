"""Where the steps of each value lie in a net for pieces of a stream, and how many there are for a step of the input.

The net for one long call tells it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Dim, Graph, Node, Shape, Value, computable
from prototrt.surgery.ir.layout import STEPS, STREAMS, BindingLayout, Factor
from prototrt.surgery.ops import Convolution
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.passes.named_axes import AxisNames, axes_of_steps, step_axes


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


def stride_of(node: Node, axis: int) -> int:
    """How many elements along this axis of its input a step of the node's result is."""
    op = node.op
    return op.stride[axis - 2] if isinstance(op, Convolution | Windows) and axis > 1 else 1


def rates_of_steps(graph: Graph, names: AxisNames) -> dict[Value, Fraction]:
    """How many steps of the input one step of each value is; of inputs that are joined, the one with the most steps.

    A value has no rate if it does not count steps, or if no input of the graph counts them with it.
    """
    rates: dict[Value, Fraction] = {}
    tied: dict[Value, list[tuple[Value, Fraction]]] = {}
    for node in graph.nodes:
        for one, other, ratio in _ratios(node, names):
            tied.setdefault(one, []).append((other, ratio))
            tied.setdefault(other, []).append((one, 1 / ratio))
    for start in graph.inputs:
        if start in rates or not axes_of_steps(names, start):
            continue
        joined, fresh = {start: Fraction(1)}, [start]
        while fresh:
            value = fresh.pop()
            for other, ratio in tied.get(value, ()):
                if other not in joined:
                    joined[other] = joined[value] * ratio
                    fresh.append(other)
        fastest = min(joined[value] for value in graph.inputs if value in joined)
        rates |= {value: rate / fastest for value, rate in joined.items()}
    return rates


def _ratios(node: Node, names: AxisNames) -> Iterator[tuple[Value, Value, Fraction]]:
    """Pairs of values of a node, and how many steps of the first one step of the second is."""
    counting = [
        (value, axis) for value in (*node.inputs, *node.outputs) for axis in axes_of_steps(names, value)[:1]
    ]
    for value, _ in counting[1:]:
        first, axis = counting[0]
        is_made = first in node.inputs and value in node.outputs
        yield first, value, Fraction(stride_of(node, axis) if is_made else 1)

"""Which axes of values count steps and which count streams, as the recurrences of a graph tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from prototrt.surgery.ir import Dim, Graph, Node, OpenSize, Value, measure, walk
from prototrt.surgery.ir.axes import Tie, at_same_places
from prototrt.surgery.ir.layout import STEPS, STREAMS, BindingLayout, Factor, Factors
from prototrt.surgery.ops import Scan
from prototrt.surgery.ops.windows import Images

Place: TypeAlias = tuple[Value, int]
"""An axis of a value."""
Places: TypeAlias = Sequence[Place]
_UNCLEAR: Factors = (Factor("?", 0),)
"""The factors of an axis for which a graph says two things."""
MAP_AXES = 4
"""How many axes a state has that consists of maps."""
_UNITS = "units"
"""The name of the factor of an axis that counts neither steps nor streams, as the hidden units of a state."""


def caffe_layout(graph: Graph) -> dict[str, BindingLayout]:
    """The layout of each input and output of a graph whose bindings are in Caffe's layout, by name.

    A Scan that does not run over places runs over steps, the first axis of its sequences; the last but one axis of its
    states counts streams, the last one units. States of maps are (N, C, H, W). Ties between the axes of inputs and
    outputs of primitives carry that through the graph, in both directions. In a net without a Scan, the states that the
    user feeds back tell the same; in one without recurrences, images (N, C, H, W) have streams on their first axis.
    An input that is there for its sizes alone has axes of the names that these sizes have elsewhere.
    """
    names = axis_names(graph)
    layouts = {value.name: BindingLayout(names.of(value)) for value in (*graph.inputs, *graph.outputs)}
    read = {value for node in graph.nodes for value in node.inputs}
    parts = [part for each in layouts.values() for factors in each.axes for part in factors]
    open_parts: dict[Dim, Factors] = {part.size: (part,) for part in parts if isinstance(part.size, OpenSize)}
    for value in graph.inputs:
        if value not in read:
            layouts[value.name] = BindingLayout(tuple(open_parts.get(dim, ()) for dim in value.shape))
    return layouts


def axis_names(graph: Graph) -> AxisNames:
    """What is known of the axes of all values."""
    names = AxisNames(graph)
    scans = [(node, node.op) for node in graph.nodes if isinstance(node.op, Scan) and not node.op.over_places]
    for node, scan in scans:
        names.learn_from(node, scan)
    if not scans:
        for value in graph.state_inputs:
            names.learn_state(value)
        for value in graph.inputs if not graph.recurrences else ():
            if len(value.shape) >= 4:
                names.learn((value, 0), (Factor(STREAMS, value.shape[0]),))
    names.spread()
    return names


def step_axes(graph: Graph) -> AxisNames:
    """``axis_names``; what windows leave of steps, and what they make of steps, are steps, too."""
    names = axis_names(graph)
    for node in (*graph.nodes[::-1], *graph.nodes, *graph.nodes[::-1]):
        if isinstance(node.op, Images):
            x, y = node.inputs[0], node.outputs[0]
            for one, other in ((y, x), (x, y)):
                for axis in axes_of_steps(names, one):
                    if axis > 1 and not other.is_constant:
                        names.learn((other, axis), (Factor(STEPS, other.shape[axis]),))
            names.spread()
    return names


def axes_of_steps(names: AxisNames, value: Value) -> list[int]:
    """The axes that count steps; a constant has none."""
    if value.is_constant:
        return []
    return [axis for axis, name in enumerate(names.names(value)) if STEPS in name]


class AxisNames:
    """The factors of axes, as far as they are known."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._factors: dict[Place, Factors] = {}
        self._fresh: list[Place] = []

    @cached_property
    def _tied(self) -> tuple[dict[Place, list[Place]], dict[Place, list[tuple[Places, Places]]]]:
        """By an axis: the single axes that count what it counts; the groups of axes with it, and their counterparts."""
        twins: dict[Place, list[Place]] = {}
        ties: dict[Place, list[tuple[Places, Places]]] = {}
        for x, y, tied in _ties_of(self._graph):
            for left, right in tied if not (x.is_constant or y.is_constant) else ():
                sides = [(x, axis) for axis in left], [(y, axis) for axis in right]
                for source, target in (sides, sides[::-1]):
                    if len(left) == len(right) == 1:
                        twins.setdefault(source[0], []).append(target[0])
                    else:
                        for place in source:
                            ties.setdefault(place, []).append((source, target))
        return twins, ties

    def of(self, value: Value) -> tuple[Factors, ...]:
        """The factors of each axis of a value."""
        each_axis = (self._factors.get((value, axis), ()) for axis in range(len(value.shape)))
        return tuple(
            factors if all(factor.name in (STEPS, STREAMS) for factor in factors) else ()
            for factors in each_axis
        )

    def names(self, value: Value) -> list[list[str]]:
        """The names of the factors of each axis."""
        return [[factor.name for factor in factors] for factors in self.of(value)]

    def learn_from(self, node: Node, scan: Scan) -> None:
        """What a Scan says of its sequences and states. One that only counts says nothing."""
        sequences = [value for value in scan.named_inputs(node.inputs).sequences if not value.is_constant]
        for value in sequences:
            self.learn((value, 0), (Factor(STEPS, value.shape[0]),))
        for value in scan.named_inputs(scan.body.inputs).states if sequences else ():
            self.learn_state(value)

    def learn_state(self, value: Value) -> None:
        """What a state says: its last but one axis counts streams, the last one units; maps have streams in front."""
        if len(value.shape) > 1:
            streams = 0 if len(value.shape) == MAP_AXES else len(value.shape) - 2
            for axis, name in ((streams, STREAMS), (streams + 1, _UNITS)):
                self.learn((value, axis), (Factor(name, value.shape[axis]),))

    def learn(self, place: Place, factors: Factors) -> None:
        before = self._factors.get(place)
        if before is None or before not in (factors, _UNCLEAR):
            self._factors[place] = factors if before is None else _UNCLEAR
            self._fresh.append(place)

    def spread(self) -> None:
        """Carry what is known along all ties; along those of several axes last, since sizes of 1 make them vague."""
        if not self._fresh:
            return
        (twins, ties), vague = self._tied, list[tuple[Places, Places]]()
        while self._fresh or vague:
            if not self._fresh:
                self._carry(*vague.pop())
                continue
            place = self._fresh.pop()
            for twin in twins.get(place, ()):
                if self._factors.get(twin) is not self._factors[place]:
                    self._carry_one(place, twin)
            vague += ties.get(place, ())

    def _carry_one(self, source: Place, target: Place) -> None:
        before, after = (value.shape[axis] for value, axis in (source, target))
        # A size of 1 that becomes another one was broadcast: it counts nothing.
        is_broadcast = before != after and 1 in (before, after)
        if not is_broadcast and (part := _resize(self._factors[source], after)):
            self.learn(target, part)

    def _carry(self, source: Places, target: Places) -> None:
        """Learn on one side of a tie of several axes what the other side knows."""
        carried, before = ([self._factors.get(place, ()) for place in side] for side in (source, target))
        sides = zip(source, carried, strict=True)
        is_whole = all(factors or value.shape[axis] == 1 for (value, axis), factors in sides)
        needed = _without_ones(carried)
        if not is_whole or _UNCLEAR in carried or needed == _without_ones(before):
            return
        sizes = [value.shape[axis] for value, axis in target]
        parts = _align(carried, sizes) or _split(needed, sizes) or [()] * len(target)
        for place, part in zip(target, parts, strict=True):
            if part:
                self.learn(place, part)


def _without_ones(parts: Iterable[Factors]) -> Factors:
    """All factors without a single step or unit, unless there is nothing else: a row of one step is a stream."""
    factors = tuple(chain.from_iterable(parts))
    return tuple(factor for factor in factors if factor.name == STREAMS or factor.size != 1) or factors


def _align(parts: Sequence[Factors], sizes: Sequence[Dim]) -> list[Factors] | None:
    """The factors of axes of size 1, for other such axes: from the last one on, or from the first one on.

    Those of a step of a stream, in more axes than that, are a row, as of several steps: its first axis counts it.
    """
    if any(factor.size != 1 for factor in chain.from_iterable(parts)) or any(size != 1 for size in sizes):
        return None
    places, count = [place for place, factors in enumerate(parts) if factors], len(sizes)
    if len(places) == len(parts) > 1 and count > len(parts):
        return [_without_ones(parts), *[()] * (count - 1)]
    for shift in (count - len(parts), 0):
        if places and places[0] + shift >= 0 and places[-1] + shift < count:
            parted: list[Factors] = [()] * count
            for place in places:
                parted[place + shift] = parts[place]
            return parted
    return None


def _split(factors: Factors, sizes: Sequence[Dim]) -> list[Factors] | None:
    """The factors of each of several axes that have these together; None if they do not fit."""
    left = list(factors)
    parts: list[Factors] = []
    for size in reversed(sizes):
        part: list[Factor] = []
        while left and measure((size,)) != measure(tuple(factor.size for factor in part)):
            part.insert(0, left.pop())
        if size == 1 and left and left[-1].size == 1:
            part = [left.pop()]
        if part and measure((size,)) != measure(tuple(factor.size for factor in part)):
            return None
        parts.insert(0, tuple(part))
    return None if left else parts


def _resize(factors: Factors, size: Dim) -> Factors:
    """The factors of an axis of another size: some of the steps are steps, but some of the streams say nothing."""
    if len(factors) == 1 and factors[0].size == size:  # almost always
        return factors
    if factors is _UNCLEAR or measure((size,)) == measure(tuple(factor.size for factor in factors)):
        return factors
    return (replace(factors[0], size=size),) if [factor.name for factor in factors] == [STEPS] else ()


def _ties_of(graph: Graph) -> Iterator[Tie]:
    for node in walk(graph):
        yield from node.op.ties(node.inputs, node.outputs)
    for pair in graph.recurrences:
        yield from at_same_places([pair.input], [pair.output])

"""Which axes of values count steps and which count streams, as the recurrences of a graph tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from prototrt.surgery.ir import Dim, Graph, Node, Op, Shape, Value, element_count, walk
from prototrt.surgery.ir.layout import STEPS, STREAMS, BindingLayout, Factor, Factors
from prototrt.surgery.ops import (
    LRN,
    Affine,
    Binary,
    Cast,
    Concat,
    Convolution,
    Deconvolution,
    Dequantize,
    Gather,
    MatMul,
    Pad,
    Patches,
    PReLU,
    Quantize,
    Reduce,
    Reshape,
    Reverse,
    ReverseSequence,
    Scan,
    Select,
    Slice,
    Softmax,
    Tile,
    TopK,
    Transpose,
)
from prototrt.surgery.ops.elementwise import Pointwise
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.ops.shape import measure

Place: TypeAlias = tuple[Value, int]
"""An axis of a value."""
_UNCLEAR: Factors = (Factor("?", 0),)
"""The factors of an axis for which a graph says two things."""


Tie: TypeAlias = tuple[Sequence[Place], Sequence[Place]]
"""Axes of two values that hold the same elements in the same order: some of one value together, some of the other."""
Rule: TypeAlias = Callable[[Node, Any], Iterator[Tie]]


def caffe_layout(graph: Graph) -> dict[str, BindingLayout]:
    """The layout of each input and output of a graph whose bindings are in Caffe's layout, by name.

    A Scan runs over steps, the first axis of its sequences; the last but one axis of its states counts streams. Ties
    between the axes of inputs and outputs of primitives carry that through the graph, in both directions. In a
    net without recurrences, images (N, C, H, W) have streams on their first axis.
    """
    names = _Names(graph)
    scans = [(node, node.op) for node in graph.nodes if isinstance(node.op, Scan)]
    for node, scan in scans:
        names.learn_from(node, scan)
    for value in graph.inputs if not scans else ():
        if len(value.shape) >= 4:
            names.learn((value, 0), (Factor(STREAMS, value.shape[0]),))
    names.spread()
    return {value.name: BindingLayout(names.of(value)) for value in (*graph.inputs, *graph.outputs)}


class _Names:
    """The factors of axes, as far as they are known."""

    def __init__(self, graph: Graph) -> None:
        self._factors: dict[Place, Factors] = {}
        self._fresh: list[Place] = []
        self._twins: dict[Place, list[Place]] = {}
        """The axes that are tied to one axis, one by one."""
        self._groups: dict[Place, list[Tie]] = {}
        """The ties of several axes in which an axis is."""
        for left, right in _ties_of(graph):
            if len(left) == len(right) == 1:
                self._twins.setdefault(left[0], []).append(right[0])
                self._twins.setdefault(right[0], []).append(left[0])
            else:
                for place in (*left, *right):
                    self._groups.setdefault(place, []).append((left, right))

    def of(self, value: Value) -> tuple[Factors, ...]:
        """The factors of each axis of a value."""
        found = (self._factors.get((value, axis), ()) for axis in range(len(value.shape)))
        return tuple(() if factors is _UNCLEAR else factors for factors in found)

    def learn_from(self, node: Node, scan: Scan) -> None:
        """What a Scan says of its sequences and states. One that only counts says nothing."""
        sequences = [value for value in scan.named_inputs(node.inputs).sequences if not value.is_constant]
        for value in sequences:
            self.learn((value, 0), (Factor(STEPS, value.shape[0]),))
        for value in scan.named_inputs(scan.body.inputs).states if sequences else ():
            if len(value.shape) > 1:
                axis = len(value.shape) - 2
                self.learn((value, axis), (Factor(STREAMS, value.shape[axis]),))

    def learn(self, place: Place, factors: Factors) -> None:
        known = self._factors.get(place)
        if known is None or known not in (factors, _UNCLEAR):
            self._factors[place] = factors if known is None else _UNCLEAR
            self._fresh.append(place)

    def spread(self) -> None:
        """Carry what is known along all ties; along those of several axes last, since sizes of 1 make them vague."""
        vague: list[Tie] = []
        while self._fresh or vague:
            if self._fresh:
                place = self._fresh.pop()
                for twin in self._twins.get(place, ()):
                    if self._factors.get(twin) is not self._factors[place]:
                        self._carry([place], [twin])
                vague += self._groups.get(place, ())
            else:
                left, right = vague.pop()
                self._carry(left, right)
                self._carry(right, left)

    def _carry(self, source: Sequence[Place], target: Sequence[Place]) -> None:
        """Learn on one side of a tie what the other side knows."""
        factors = self._joined(source)
        if factors is not None and factors != self._joined(target):
            sizes = [value.shape[axis] for value, axis in target]
            for place, part in zip(target, _split(factors, sizes), strict=True):
                if part:
                    self.learn(place, part)

    def _joined(self, places: Sequence[Place]) -> Factors | None:
        """The factors of axes that are seen as one; None unless those of all axes that matter are known."""
        joined: list[Factor] = []
        for value, axis in places:
            factors = self._factors.get((value, axis), ())
            if factors is _UNCLEAR or (not factors and value.shape[axis] != 1):
                return _UNCLEAR if len(places) == 1 and factors else None
            joined += factors
        needed = [factor for factor in joined if (factor.name, factor.size) != (STEPS, 1)]
        return tuple(joined if len(places) == 1 else needed or joined) or None


def _split(factors: Factors, sizes: Sequence[Dim]) -> list[Factors]:
    """The factors of each of several axes that have these together; of none if they do not fit."""
    if len(sizes) == 1:
        return [_resized(factors, sizes[0])]
    left = list(factors)
    parts: list[Factors] = []
    for size in reversed(sizes):
        part: list[Factor] = []
        while left and measure((size,)) != measure(tuple(factor.size for factor in part)):
            part.insert(0, left.pop())
        if size == 1 and left and left[-1].size == 1:
            part = [left.pop()]
        parts.insert(0, tuple(part))
    fits = all(
        not part or measure((size,)) == measure(tuple(factor.size for factor in part))
        for size, part in zip(sizes, parts, strict=True)
    )
    return parts if fits and not left else [()] * len(sizes)


def _resized(factors: Factors, size: Dim) -> Factors:
    """The factors of an axis of another size: some of the steps are steps, but some of the streams say nothing."""
    if len(factors) == 1 and factors[0].size == size:  # almost always
        return factors
    if factors is _UNCLEAR or measure((size,)) == measure(tuple(factor.size for factor in factors)):
        return factors
    return (replace(factors[0], size=size),) if [factor.name for factor in factors] == [STEPS] else ()


def _ties_of(graph: Graph) -> Iterator[Tie]:
    for node in walk(graph):
        for kind in type(node.op).__mro__:
            if kind in _RULES:
                yield from _RULES[kind](node, node.op)
    for pair in graph.recurrences:
        yield from _axis_by_axis(pair.input, pair.output)


def _tied(x: Value, y: Value, axes: Iterable[tuple[int, int]]) -> Iterator[Tie]:
    """Ties of single axes. A size of 1 that becomes another one was broadcast: it counts nothing. Nor do constants."""
    if x.is_constant or y.is_constant:
        return
    for left, right in axes:
        before, after = x.shape[left], y.shape[right]
        if before == after or (before != 1 and after != 1):
            yield [(x, left)], [(y, right)]


def _axis_by_axis(x: Value, y: Value, but: Iterable[int] = ()) -> Iterator[Tie]:
    """Ties of all axes of equal places, but those listed."""
    yield from _tied(x, y, ((axis, axis) for axis in range(len(x.shape)) if axis not in but))


def _pointwise(node: Node, op: Op) -> Iterator[Tie]:
    """Elements at equal places; sizes 1 broadcast."""
    y = node.outputs[0]
    for x in node.inputs:
        if len(x.shape) == len(y.shape):
            yield from _axis_by_axis(x, y)


def _along(node: Node, op: Any) -> Iterator[Tie]:
    """Primitives that change one axis: it may still count steps."""
    for x in node.inputs:
        yield from _axis_by_axis(x, node.outputs[0])


def _outside_axis(node: Node, op: Any) -> Iterator[Tie]:
    """Primitives after which the elements of one axis are others."""
    for y in node.outputs:
        yield from _axis_by_axis(node.inputs[0], y, [op.axis])


def _reverse_sequence(node: Node, op: ReverseSequence) -> Iterator[Tie]:
    x, lengths = node.inputs
    yield from _axis_by_axis(x, node.outputs[0])
    yield from _tied(lengths, x, [(0, 1)])


def _reduce(node: Node, op: Reduce) -> Iterator[Tie]:
    kept = [axis for axis in range(len(node.inputs[0].shape)) if axis not in op.axes]
    places = kept if op.keep else range(len(kept))
    yield from _tied(node.inputs[0], node.outputs[0], zip(kept, places, strict=True))


def _matmul(node: Node, op: MatMul) -> Iterator[Tie]:
    (a, b), y, last = node.inputs, node.outputs[0], len(node.outputs[0].shape) - 1
    for x in (a, b):
        yield from _tied(x, y, ((axis, axis) for axis in range(last - 1)))
    yield from _tied(a, y, [(last - 1, last - 1)])
    yield from _tied(b, y, [(last - 1 if op.transpose_b else last, last)])


def _gather(node: Node, op: Gather) -> Iterator[Tie]:
    (table, index), y = node.inputs, node.outputs[0]
    yield from _tied(index, y, ((axis, axis) for axis in range(len(index.shape))))
    yield from _tied(table, y, ((axis, axis + len(index.shape) - 1) for axis in range(1, len(table.shape))))


def _images(node: Node, op: Op) -> Iterator[Tie]:
    yield from _tied(node.inputs[0], node.outputs[0], [(0, 0)])


def _transpose(node: Node, op: Transpose) -> Iterator[Tie]:
    yield from _tied(node.inputs[0], node.outputs[0], ((old, new) for new, old in enumerate(op.order)))


def _reshape(node: Node, op: Reshape) -> Iterator[Tie]:
    x, y = node.inputs[0], node.outputs[0]
    for left, right in () if x.is_constant else _groups(x.shape, y.shape):
        yield [(x, axis) for axis in left], [(y, axis) for axis in right]


def _scan(node: Node, op: Scan) -> Iterator[Tie]:
    outer, inner = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
    written, result = op.named_outputs(node.outputs), op.named_outputs(op.body.outputs)
    for x, y in zip((*outer.states, *outer.invariants), (*inner.states, *inner.invariants), strict=True):
        yield from _axis_by_axis(x, y)
    for x, y in (
        *zip(result.states, inner.states, strict=True),
        *zip(result.states, written.states, strict=True),
    ):
        yield from _axis_by_axis(x, y)
    pairs = [
        *zip(outer.sequences, inner.sequences, strict=True),
        *zip(written.stacked, result.stacked, strict=True),
    ]
    leading = next((value for value in outer.sequences if not value.is_constant), outer.sequences[0])
    for all_steps, step in pairs:
        yield from _tied(all_steps, step, ((axis + 1, axis) for axis in range(len(step.shape))))
        yield from _tied(leading, all_steps, [(0, 0)])


_RULES: Mapping[type[Op], Rule] = {
    Affine: _pointwise,
    Binary: _pointwise,
    Cast: _pointwise,
    Concat: _along,
    Convolution: _images,
    Deconvolution: _images,
    Dequantize: _pointwise,
    Gather: _gather,
    LRN: _pointwise,
    MatMul: _matmul,
    PReLU: _pointwise,
    Pad: _along,
    Patches: _images,
    Pointwise: _pointwise,
    Quantize: _pointwise,
    Reduce: _reduce,
    Reshape: _reshape,
    Reverse: _pointwise,
    ReverseSequence: _reverse_sequence,
    Scan: _scan,
    Select: _pointwise,
    Slice: _along,
    Softmax: _pointwise,
    Tile: _outside_axis,
    TopK: _outside_axis,
    Transpose: _transpose,
    Windows: _images,
}
"""Primitives that are missing here carry nothing."""


def _groups(x: Shape, y: Shape) -> list[tuple[list[int], list[int]]]:
    """Axes before and after a Reshape that hold the same elements, in as small groups as the sizes tell.

    Axes of size 1 that remain belong to the group before them, or to the first one.
    """
    first = _equal_ends(x, y)
    last = _equal_ends(x[first:][::-1], y[first:][::-1])
    groups = [([axis], [axis]) for axis in range(first)]
    left, right = list(range(first, len(x) - last)), list(range(first, len(y) - last))
    groups += _middle(x, y, left, right)
    groups += [([len(x) - axis], [len(y) - axis]) for axis in range(last, 0, -1)]
    return _without_loose_ends(groups)


def _equal_ends(x: Shape, y: Shape) -> int:
    """How many sizes are equal, from the first one on."""
    return next((at for at, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))


def _middle(x: Shape, y: Shape, left: list[int], right: list[int]) -> list[tuple[list[int], list[int]]]:
    """Groups of the axes between: each ends as soon as both sides have as many elements."""
    if any(isinstance(dim, str) for dim in (*(x[axis] for axis in left), *(y[axis] for axis in right))):
        return [(left, right)]
    groups: list[tuple[list[int], list[int]]] = [([], [])]
    while left or right:
        a, b = groups[-1]
        held = element_count(tuple(x[axis] for axis in a)), element_count(tuple(y[axis] for axis in b))
        if a and b and held[0] == held[1]:
            groups.append(([], []))
        elif left and (held[0] <= held[1] or not right):
            a.append(left.pop(0))
        else:
            b.append(right.pop(0))
    return groups


def _without_loose_ends(groups: Sequence[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    """The groups, where axes that stand alone (all of size 1) are joined to a neighbour."""
    joined: list[tuple[list[int], list[int]]] = []
    loose: tuple[list[int], list[int]] = ([], [])
    for left, right in groups:
        if left and right:
            joined.append(([*loose[0], *left], [*loose[1], *right]))
            loose = ([], [])
        elif joined:
            joined[-1] = ([*joined[-1][0], *left], [*joined[-1][1], *right])
        else:
            loose = ([*loose[0], *left], [*loose[1], *right])
    return joined

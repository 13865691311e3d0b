"""Magnitudes that values never exceed, whatever the inputs are: they need no calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from prototrt.surgery import ops
from prototrt.surgery.ir import DType, Graph, Node, Value
from prototrt.surgery.ir.uniform_constants import unbroadcast

_UP_TO_ONE = (ops.HardSigmoid, ops.Sigmoid, ops.Softmax, ops.Softsign, ops.TanH)
_NOT_BEYOND = (
    ops.AveragePool,
    ops.Cast,
    ops.Concat,
    ops.Identity,
    ops.LeakyReLU,
    ops.MaxPool,
    ops.Reshape,
    ops.Reverse,
    ops.Slice,
    ops.Tile,
    ops.Transpose,
)
"""Primitives whose results do not exceed the largest of their inputs; a LeakyReLU with a slope up to 1."""
_NOT_BEYOND_KINDS = (ops.ABS, ops.MAXIMUM, ops.MINIMUM, ops.NEGATIVE)
_STATE = 1.0
"""The largest magnitude of a hidden state: a product of a sigmoid and a tanh, or a tanh."""


def value_bounds(graph: Graph) -> Mapping[Value, float]:
    """The largest magnitude of each floating-point value that has one, also in the bodies of Scans.

    ``h`` of an LSTM is ``sigmoid(o) * tanh(c)``: at most 1. State that is carried from call to call is the result of
    an earlier call; exposed state may be anything. Cont is assumed to be from 0 to 1.
    """
    pairs = [(pair.input, pair.output) for pair in graph.recurrences if not pair.exposed]
    return _with_states(graph, {}, dict.fromkeys((before for before, _ in pairs), _STATE), pairs)


def _with_states(
    graph: Graph,
    bounds_before: Mapping[Value, float],
    states: dict[Value, float],
    pairs: Sequence[tuple[Value, Value]],
) -> dict[Value, float]:
    """The bounds in a graph or in a body. A state has one if each step keeps it.

    ``pairs`` are the states before and after a step.
    """
    while True:
        bounded = _propagate(graph, {**bounds_before, **states})
        lost = [
            before
            for before, after in pairs
            if before in states and not _is_within(_bound_of(after, bounded), states[before])
        ]
        if not lost:
            return bounded
        for state in lost:
            states.pop(state, None)


def _is_within(bound: float | None, limit: float) -> bool:
    return bound is not None and bound <= limit


def _propagate(graph: Graph, bounds_before: Mapping[Value, float]) -> dict[Value, float]:
    bounds = dict(bounds_before)
    for node in graph.nodes:
        if isinstance(node.op, ops.Scan):
            _enter(node, node.op, bounds)
        elif node.outputs[0].dtype is DType.FLOAT32:
            _note(bounds, node.outputs[0], _bound(node, bounds))
    return bounds


def _note(bounds: dict[Value, float], value: Value, bound: float | None) -> None:
    if bound is not None:
        bounds[value] = bound


def _bound(node: Node, bounds: Mapping[Value, float]) -> float | None:
    """The largest magnitude of what a node writes, if it follows from what it reads."""
    op = node.op
    if isinstance(op, _UP_TO_ONE):
        return 1.0
    if isinstance(op, ops.Clip):
        limit = max(abs(op.low), abs(op.high))
        return limit if np.isfinite(limit) else None
    if isinstance(op, ops.LeakyReLU) and abs(op.slope) > 1:
        return None
    if isinstance(op, ops.ReverseSequence):
        return _largest(node.inputs[:1], bounds)
    if isinstance(op, ops.Select):
        return _largest(node.inputs[1:], bounds)
    if isinstance(op, _NOT_BEYOND) or op in _NOT_BEYOND_KINDS:
        return _largest(node.inputs, bounds)
    if isinstance(op, ops.Pad):
        inside = _largest(node.inputs, bounds)
        return None if inside is None else max(inside, abs(op.value))
    if op == ops.MULTIPLY:
        factors = [_bound_of(value, bounds) for value in node.inputs]
        return None if None in factors else float(np.prod([each for each in factors if each is not None]))
    return None


def _bound_of(value: Value, bounds: Mapping[Value, float]) -> float | None:
    if value.data is None:
        return bounds.get(value)
    largest = float(np.abs(unbroadcast(value.data)).max(initial=0))
    return largest if np.isfinite(largest) else None


def _largest(values: Iterable[Value], bounds: Mapping[Value, float]) -> float | None:
    limits = [_bound_of(value, bounds) for value in values]
    return None if None in limits else max(each for each in limits if each is not None)


def _enter(node: Node, scan: ops.Scan, bounds: dict[Value, float]) -> None:
    """Bounds in the body of a Scan, and of its results. A state keeps its bound if each step keeps it."""
    body = scan.body
    roles, inside = scan.named_inputs(node.inputs), scan.named_inputs(body.inputs)
    outside = [*zip(roles.sequences, inside.sequences, strict=True)]
    outside += zip(roles.invariants, inside.invariants, strict=True)
    fixed: dict[Value, float] = {}
    for outer, inner in outside:
        _note(fixed, inner, _bound_of(outer, bounds))
    for mark in _resets(body, inside.states, [inner for _, inner in outside]):
        fixed.setdefault(mark, 1.0)
    states = {
        inner: max(_STATE, bound)
        for outer, inner in zip(roles.states, inside.states, strict=True)
        if (bound := _bound_of(outer, bounds)) is not None
    }
    after = scan.named_outputs(body.outputs).states
    bounded = _with_states(body, fixed, states, list(zip(inside.states, after, strict=True)))
    bounds.update(bounded)
    for result, end in zip(node.outputs, body.outputs, strict=True):
        _note(bounds, result, _bound_of(end, bounded))


def _resets(body: Graph, states: Sequence[Value], read: Sequence[Value]) -> list[Value]:
    """The first factor of the states: cont."""
    return [
        mark
        for node in body.nodes
        if node.op == ops.MULTIPLY
        for state, mark in (node.inputs, node.inputs[::-1])
        if state in states and mark in read
    ]

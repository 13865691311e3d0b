"""From the layers of a network to steps in an order in which they can be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from types import ModuleType
from typing import Any

from prototrt.caffe_proto.errors import BuildError, ConversionError, UnsupportedLayerError
from prototrt.converter.network.entries import Entry, read_entries
from prototrt.converter.network.nesting import Nesting
from prototrt.converter.network.registry import RULES
from prototrt.converter.network.steps import Iterator, LayerStep, LoopOutput, LoopStep, Recurrence, Step


def plan(trt: ModuleType, network: Any) -> list[Step]:
    entries = read_entries(trt, network)
    return _Planner(entries).steps_in(None)


class _Planner:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._nesting = Nesting(entries)
        self._bodies: dict[str | None, list[Entry]] = {None: []}
        self._boundaries: dict[str, list[Entry]] = {loop: [] for loop in self._nesting.loops}
        self._children: dict[str | None, list[str]] = {None: []}
        for entry in entries:
            if entry.loop is None:
                self._bodies.setdefault(self._nesting.loop_of(entry), []).append(entry)
            else:
                self._boundaries[entry.loop].append(entry)
        for loop in self._nesting.loops:
            self._children.setdefault(self._nesting.loop_of(loop), []).append(loop)

    def steps_in(self, loop: str | None) -> list[Step]:
        """The steps of a loop's body, or of the network, each after what it reads."""
        steps: list[Step] = [_layer_step(entry) for entry in self._bodies.get(loop, [])]
        steps += [self._loop_step(child) for child in self._children.get(loop, [])]
        return _ordered(steps)

    def _loop_step(self, loop: str) -> LoopStep:
        body = self.steps_in(loop)
        boundary = self._boundaries[loop]
        count, condition = _trip_limits(loop, boundary)
        guard = _needed_for(condition, body)
        last, joined = _loop_outputs(boundary)
        read = {name for entry in boundary for name in entry.reads}.union(*(step.reads for step in body))
        return LoopStep(
            name=loop,
            count=count,
            condition=condition,
            iterators=tuple(_iterator(e, count) for e in boundary if e.type == "ITERATOR"),
            recurrences=tuple(_recurrence(e) for e in boundary if e.type == "RECURRENCE"),
            guard=tuple(guard),
            body=tuple(step for step in body if step not in guard),
            outputs=tuple(joined),
            last_values=tuple(last),
            reads=frozenset(read),
            writes=frozenset(entry.output.name for entry in boundary if entry.type == "LOOP_OUTPUT"),
        )


def _layer_step(entry: Entry) -> LayerStep:
    if entry.type not in RULES:
        raise UnsupportedLayerError(
            f"the network interpreter has no rule for layers of type {entry.type}", where=entry.where
        )
    try:
        evaluate = RULES[entry.type](entry.layer)
    except ConversionError as error:
        error.where = entry.where
        raise
    return LayerStep(entry.where, evaluate, entry.inputs, entry.outputs)


def _ordered(steps: Sequence[Step]) -> list[Step]:
    writers = {name: step for step in steps for name in step.writes}
    needs = {step: [writers[name] for name in sorted(step.reads) if name in writers] for step in steps}
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        names = sorted({name for step in error.args[1] for name in step.writes})
        raise BuildError(
            f"these tensors depend on themselves outside any loop's recurrence: {names}"
        ) from error


def _needed_for(tensor: str | None, steps: Sequence[Step]) -> list[Step]:
    """Those of the ordered steps without which the tensor cannot be computed."""
    wanted = {tensor}
    needed: list[Step] = []
    for step in reversed(steps):
        if wanted & step.writes:
            wanted |= step.reads
            needed.append(step)
    return needed[::-1]


def _trip_limits(loop: str, boundary: Iterable[Entry]) -> tuple[str | None, str | None]:
    limits = {e.layer.kind.name: e.reads[0] for e in boundary if e.type == "TRIP_LIMIT"}
    if not limits:
        raise BuildError(f'loop "{loop}" has no trip limit')
    return limits.get("COUNT"), limits.get("WHILE")


def _iterator(entry: Entry, count: str | None) -> Iterator:
    if entry.layer.reverse and count is None:
        raise BuildError("iterates in reverse, but its loop has no trip count", where=entry.where)
    return Iterator(entry.where, entry.reads[0], entry.output, entry.layer.axis, entry.layer.reverse)


def _recurrence(entry: Entry) -> Recurrence:
    if len(entry.reads) != 2:
        raise BuildError("has no second input, the value for the next trip", where=entry.where)
    initial, following = entry.reads
    return Recurrence(entry.where, initial, following, entry.output)


def _loop_outputs(boundary: Sequence[Entry]) -> tuple[list[tuple[str, str]], list[LoopOutput]]:
    recurrences = {entry.output.name for entry in boundary if entry.type == "RECURRENCE"}
    last: list[tuple[str, str]] = []
    joined: list[LoopOutput] = []
    for entry in boundary:
        if entry.type != "LOOP_OUTPUT":
            continue
        kind = entry.layer.kind.name
        if kind != "LAST_VALUE":
            joined.append(_joined_output(entry, kind))
        elif entry.reads[0] in recurrences:
            last.append((entry.reads[0], entry.output.name))
        else:
            raise BuildError("gives the last value of what is no recurrence of its loop", where=entry.where)
    return last, joined


def _joined_output(entry: Entry, kind: str) -> LoopOutput:
    if len(entry.reads) != 2:
        raise BuildError("has no second input, the length of the result", where=entry.where)
    source, length = entry.reads
    axis = entry.layer.axis % len(entry.output.shape)
    return LoopOutput(entry.where, source, entry.output, length, axis, reverse=kind == "REVERSE")

"""The step net of a RecurrentNetwork as a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, EXPORT_LINKS_AGAIN
from prototrt.caffe_proto.caffe2.operators import Link, Operator, RecurrentArguments
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    NetError,
    ShapeError,
    UnsupportedLayerError,
    raise_all,
)
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_rules import check_bottoms
from prototrt.surgery.caffe2.operator_rule import NO_RULE, operator_rule
from prototrt.surgery.ir import Shape, fixed
from prototrt.surgery.ops import ADD, Concat, Slice
from prototrt.surgery.recurrent.cells import Step, StepFunction


class StepNet:
    """The links that read, the links that write, and the operators that the states depend on.

    A state is carried as a window of its buffer: the rows that are known before the step.
    """

    def __init__(
        self, operator: Operator, recurrence: RecurrentArguments, initial: Mapping[str, Value]
    ) -> None:
        self.operator, self.recurrence, self.initial = operator, recurrence, initial
        self.reads = [link for link in recurrence.links if self._is_read(link)]
        self.writes = {buffer: self._write(buffer) for buffer in initial}
        for link in self.reads:
            if link.outside in initial:
                self._check_read(link)
        self.operators = self._needed_operators()
        self._refuse_unknown()

    def cell(self, around: Mapping[str, Value], sequences: Sequence[str]) -> StepFunction:
        """One step. Its inputs are the elements of the ``sequences``, then the number of the step.

        If the number of steps is not known, an additional state counts them.
        """
        buffers = list(self.initial)

        def cell(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
            here = {value: body.from_outside(value) for value in around.values()}
            blobs = {name: here[value] for name, value in around.items()}
            blobs.update(zip(sequences, inputs, strict=False))
            counted = list(states[len(buffers) :])
            blobs[self.recurrence.timestep] = counted[0] if counted else inputs[-1]
            windows = dict(zip(buffers, states, strict=False))
            for link in self.reads:
                if link.outside in windows:
                    blobs[link.inside] = _rows(body, windows[link.outside], link.offset, link.window)
            self._run(body, blobs)
            written = [self._row_to_write(body, blobs, buffer) for buffer in buffers]
            shifted = [_shift(body, windows[name], row) for name, row in zip(buffers, written, strict=True)]
            one = body.constant(np.ones(1, np.int32), "one")
            return Step(
                [*shifted, *(body.add(ADD, step, one, hint="next_step") for step in counted)], written
            )

        return cell

    def _run(self, body: Builder, blobs: dict[str, Value]) -> None:
        """Run the operators, and add what they write to ``blobs``."""
        for operator in self.operators:
            body.origin = operator.origin
            rule = operator_rule.get(operator.type)
            check_bottoms(rule, operator)
            try:
                results = rule(
                    body, operator, *(self._read(blobs, operator, name) for name in operator.bottoms)
                )
            except ConversionError as error:
                error.origin = error.origin or operator.origin
                raise
            blobs.update(zip(operator.tops, results, strict=False))
        body.origin = self.operator.origin

    def _read(self, blobs: Mapping[str, Value], operator: Operator, name: str) -> Value:
        if name not in blobs:
            raise NetError(
                "the blob is not a tensor here",
                origin=operator.origin,
                blob=f'input "{name}"',
                fix=CUT_BEFORE,
            )
        return blobs[name]

    def _row_to_write(self, body: Builder, blobs: Mapping[str, Value], buffer: str) -> Value:
        """The row that a step adds to a buffer: (1, N, D)."""
        link, rows = self.writes[buffer], self.initial[buffer].shape
        value = blobs[self.recurrence.written[link.inside]]
        expected: Shape = (1, *rows[1:])
        if tuple(dim for dim in value.shape if dim != 1) != tuple(dim for dim in expected if dim != 1):
            raise ShapeError(
                f"the step net makes the shape {value.shape}, expected {expected}",
                blob=f'link_internal "{link.inside}"',
                because=f'that is a row of the state "{buffer}"',
                fix=EXPORT_LINKS_AGAIN,
            )
        return body.reshape(value, expected, hint="row")

    def _is_read(self, link: Link) -> bool:
        """Whether the step net reads the blob: it does not make it, or makes it only after reading."""
        if link.inside not in self.recurrence.written:
            return True
        is_state = link.outside in self.initial
        if link.inside not in self.recurrence.read:
            if is_state:
                return False
            raise UnsupportedLayerError(
                f'the step net writes "{link.inside}" into "{link.outside}", which is not a state',
                fix="make it a state: add it to recurrent_states, and its initial state to initial_recurrent_state_ids",
            )
        if is_state:
            raise UnsupportedLayerError(
                f'the step net writes over "{link.inside}", a row of the state "{link.outside}" that it reads',
                fix="write into another blob",
            )
        return True

    def _write(self, buffer: str) -> Link:
        """The one link that adds a row to a buffer."""
        links = [
            link
            for link in self.recurrence.links
            if link.outside == buffer and link.inside in self.recurrence.written
        ]
        rows = fixed(self.initial[buffer].shape[0], "the number of initial rows")
        if len(links) != 1:
            there = ", ".join(f'"{link.inside}"' for link in self.recurrence.links if link.outside == buffer)
            raise NetError(
                f'{len(links)} links write the state "{buffer}", expected 1',
                because=f"the blobs linked to it are {there or 'none'}",
                fix="link a blob that the step net makes to it",
            )
        if links[0].offset != rows or links[0].window != 1:
            raise NetError(
                f'the link that writes "{links[0].inside}" has offset {links[0].offset} and window'
                f" {links[0].window}, expected {rows} and 1",
                because=f'the state "{buffer}" begins with {rows} rows, and every step adds one',
                fix=EXPORT_LINKS_AGAIN,
            )
        return links[0]

    def _check_read(self, link: Link) -> None:
        rows = fixed(self.initial[link.outside].shape[0], "the number of initial rows")
        room = rows - link.window
        if link.offset > room:
            raise NetError(
                f'the link of "{link.inside}" shows row {link.offset + link.window - 1} of the state'
                f' "{link.outside}" before it is written',
                because=f"the state begins with {rows} rows",
                fix=f"use an offset from 0 to {room}" if room >= 0 else EXPORT_LINKS_AGAIN,
            )

    def _needed_operators(self) -> list[Operator]:
        """The operators that the states depend on."""
        needed = {self.recurrence.written[link.inside] for link in self.writes.values()}
        kept = []
        for operator in reversed(self.recurrence.operators):
            if needed.intersection(operator.tops):
                needed.update(operator.bottoms)
                kept.append(operator)
        return kept[::-1]

    def _refuse_unknown(self) -> None:
        raise_all(
            [
                UnsupportedLayerError(
                    "there is no rule for this operator", origin=operator.origin, fix=NO_RULE
                )
                for operator in self.operators
                if operator_rule.find(operator.type) is None
            ]
        )


def _rows(body: Builder, window: Value, start: int, size: int) -> Value:
    return window if window.shape[0] == size else body.add(Slice(0, start, size), window, hint="rows")


def _shift(body: Builder, window: Value, row: Value) -> Value:
    """The window of the next step: without its first row, with the new one."""
    count = fixed(window.shape[0], "the number of initial rows")
    if count == 1:
        return row
    return body.add(Concat(0), body.add(Slice(0, 1, count - 1), window, hint="older"), row, hint="window")

"""RecurrentNetwork: a step net that runs T times. Links connect it with the outer blobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import EXPORT_AGAIN, EXPORT_LINKS_AGAIN
from prototrt.caffe_proto.caffe2.operators import Alias, Link, Operator, RecurrentArguments, StateBuffer
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import misfit, operator_rule
from prototrt.surgery.caffe2.step_net import StepNet
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import GREATER, Concat, Identity, Reshape, Select, Slice, Tile
from prototrt.surgery.recurrent.cells import scan
from prototrt.surgery.recurrent.counting import numbers


@operator_rule("RecurrentNetwork")
def recurrent_network(build: Builder, operator: Operator, sequence: Value, *others: Value) -> list[Value]:
    """A step net, run for each of the T rows of its first input.

    Becomes: Scan over the primitives of the step net; Slice, Concat and Reshape around it.
    Inputs: a sequence (T, N, ...), initial states ((D,), (N, D) or (rows, N, D)), and whatever
    the step net reads. Outputs: what the aliases say, as a rule all states of the T steps
    (T, N, D) and the last one (1, N, D). Workspaces are not tensors.
    Source: caffe2 ``operators/rnn/recurrent_network_op.h``, as observed.
    """
    return StepNetScan(build, operator, [sequence, *others]).outputs()


class StepNetScan:
    """One RecurrentNetwork, with its links and aliases as slices of their blobs."""

    def __init__(self, build: Builder, operator: Operator, inputs: Sequence[Value]) -> None:
        assert operator.recurrence is not None
        self.build, self.operator, self.inputs = build, operator, inputs
        self.recurrence: RecurrentArguments = operator.recurrence
        self.around = {operator.bottom_blob(index): value for index, value in enumerate(inputs)}
        if len(inputs[0].shape) < 2:
            raise misfit(operator, 0, inputs[0], "(T, N, ...)")
        self.steps, self.streams = inputs[0].shape[:2]
        self.initial = {state.buffer: self._rows(state) for state in self.recurrence.states}
        self.net = StepNet(operator, self.recurrence, self.initial)

    def outputs(self) -> list[Value]:
        """The outputs that are tensors, which aliases make from the buffers."""
        self._run()
        aliases = {alias.target: alias for alias in self.recurrence.aliases}
        results = []
        for target in self.operator.message.output:
            if target not in aliases:
                break
            results.append(self._alias_rows(aliases[target]))
        for state in self.recurrence.states:
            self._expose(state, [*map(aliases.get, self.operator.message.output)], results)
        return results

    def _run(self) -> None:
        """Scan the step net: the last rows of each buffer, and all rows that were written."""
        links = [link for link in self.net.reads if link.outside not in self.initial]
        sequences = [self._windows(link) for link in links]
        states = list(self.initial.values())
        if isinstance(self.steps, int):
            sequences.append(self.build.aligned(numbers(self.build, self.steps, "timesteps"), 2, 0))
        elif not sequences:
            raise UnsupportedLayerError(
                f"the step net reads no sequence, and its number of steps, {self.steps}, is not known",
                fix="give the number of steps one size",
            )
        else:
            states.append(self.build.constant(np.zeros(1, np.int32), "first_timestep"))
        cell = self.net.cell(self.around, [link.inside for link in links])
        end = scan(self.build, cell, sequences, states)
        self.final = dict(zip(self.initial, end.states, strict=False))
        self.written = {
            buffer: self.build.reshape(value, (self.steps, *value.shape[2:]), hint="all")
            for buffer, value in zip(self.initial, end.outputs, strict=True)
        }

    def _rows(self, state: StateBuffer) -> Value:
        """The rows (L, N, D) that a buffer begins with."""
        value, build = self.inputs[state.initial], self.build
        shape = value.shape
        if len(shape) == 1:
            return self._for_each_stream(build.reshape(value, (1, 1, *shape), hint="initial"))
        rows = (1, *shape) if len(shape) == 2 else shape
        if len(rows) != 3 or rows[1] != self.streams:
            expected = f"(D,), ({self.streams}, D) or (1, {self.streams}, D)"
            because = f'N is {self.streams}, the second dimension of "{self.operator.bottom_blob(0)}"'
            raise misfit(self.operator, state.initial, value, expected, because)
        return build.reshape(value, rows, hint="initial")

    def _for_each_stream(self, row: Value) -> Value:
        """The row (1, 1, D) for all streams: (1, N, D)."""
        build, column = self.build, self.inputs[0]
        if self.streams == 1:
            return row
        if isinstance(self.streams, int):
            return build.add(Tile(1, self.streams), row, hint="initial")
        # How many streams there are, only a column of the sequence knows: it chooses between row and row.
        for axis in (0, *range(2, len(column.shape))):
            column = build.add(Slice(axis, 0, 1), column, hint="column")
        is_any = build.add(GREATER, *[build.reshape(column, (1, self.streams, 1))] * 2, hint="is_any")
        return build.add(Select(), is_any, row, row, hint="initial")

    def _windows(self, link: Link) -> Value:
        """What a link shows of a blob in each step: (T, window, ...)."""
        blob = self.around[link.outside]
        whole = blob.shape[0] if blob.shape else 0
        if link.offset == 0 and link.window == 1 and whole == self.steps:
            return self.build.reshape(blob, (whole, 1, *blob.shape[1:]), hint="rows")
        steps, size = fixed(self.steps, "the number of steps T"), fixed(whole, "the first axis")
        if link.offset + link.window - 1 + steps > size:
            raise NetError(
                f'in step {steps - 1} the link of "{link.inside}" shows rows {link.offset + steps - 1} to'
                f" {link.offset + link.window + steps - 2}, but the blob has {size}",
                blob=f'link_external "{link.outside}"',
                because=f"T is {steps}, the first dimension of the first input",
                fix=EXPORT_LINKS_AGAIN,
            )
        parts = [
            self.build.reshape(
                self.build.add(Slice(0, link.offset + row, steps), blob, hint="rows"),
                (steps, 1, *blob.shape[1:]),
            )
            for row in range(link.window)
        ]
        return parts[0] if len(parts) == 1 else self.build.add(Concat(1), *parts, hint="windows")

    def _alias_rows(self, alias: Alias) -> Value:
        """``source[offset:]`` of a buffer, or of an outer blob."""
        parts = self._parts(alias)
        if len(parts) == 2 and alias.offset == parts[0].shape[0]:
            return parts[1]
        if len(parts) == 2 and alias.offset == -fixed(parts[0].shape[0], "the number of rows"):
            return self.final[alias.source]
        length = sum(fixed(part.shape[0], "the number of rows") for part in parts)
        start = alias.offset if alias.offset >= 0 else length + alias.offset
        if not 0 <= start < length:
            raise NetError(
                f'alias_offset of "{alias.target}" is {alias.offset}, expected {-length} to {length - 1}',
                because=f'"{alias.source}" has {length} rows',
                fix=EXPORT_AGAIN,
            )
        rows = [self._rows_from(part, start - before) for part, before in _places(parts, start)]
        return rows[0] if len(rows) == 1 else self.build.add(Concat(0), *rows, hint="buffer")

    def _parts(self, alias: Alias) -> list[Value]:
        """The rows of a buffer: the initial ones, then the written ones."""
        if alias.source in self.initial:
            return [self.initial[alias.source], self.written[alias.source]]
        return [self.around[alias.source]]

    def _rows_from(self, part: Value, start: int) -> Value:
        size = fixed(part.shape[0], "the number of rows")
        return part if start <= 0 else self.build.add(Slice(0, start, size - start), part, hint="rows")

    def _expose(self, state: StateBuffer, aliases: Sequence[Alias | None], results: Sequence[Value]) -> None:
        """A final state whose initial value is an input is reported as a recurrence, by its alias if it has one."""
        before, rows = self._source(self.inputs[state.initial]), self.initial[state.buffer].shape
        if before not in self.build.inputs or len(before.shape) == 1:
            return
        last = -fixed(rows[0], "the number of initial rows")
        for alias, value in zip(aliases, results, strict=False):
            ends = alias is not None and (alias.source, alias.offset) == (state.buffer, last)
            if ends and value.shape == before.shape:
                self.build.expose_state(before, value)
                return
        final, hint = self.final[state.buffer], f"{before.name}_last"
        # A copy where the shapes are equal: the name is what a caller sees.
        is_same = final.shape == before.shape
        after = (
            self.build.add(Identity(), final, hint=hint)
            if is_same
            else self.build.reshape(final, before.shape, hint=hint)
        )
        self.build.expose_state(before, after)

    def _source(self, value: ir.Value) -> ir.Value:
        """The value that this one copies or reshapes."""
        while (node := self.build.writer(value)) is not None and isinstance(node.op, Identity | Reshape):
            value = node.inputs[0]
        return value


def _places(parts: list[Value], start: int) -> list[tuple[Value, int]]:
    """The parts that end after row ``start``, each with the number of rows before it."""
    places, before = [], 0
    for part in parts:
        size = fixed(part.shape[0], "the number of rows")
        if before + size > start:
            places.append((part, before))
        before += size
    return places

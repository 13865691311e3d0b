"""A net for a stream that comes in pieces: layers that mix steps keep the rows before a piece as states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import ConversionError, NetError, OptionsError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.ir import DType, Graph, Lag, Node, Op, Recurrence, StreamLags, Value, computable
from prototrt.surgery.ir.layout import STREAMS, BindingLayout, Factor, Factors
from prototrt.surgery.ops.windows import Images
from prototrt.surgery.passes.moved_values import reshape_to
from prototrt.surgery.passes.named_axes import MAP_AXES
from prototrt.surgery.passes.stream_axes import StepAxis, StreamAxes, stride_of

_LOWEST = float(np.finfo(np.float32).min)


def stream_in_pieces(graph: Graph, steps: int) -> Graph:
    """The net whose calls take the next ``steps`` steps of a stream, and together give what one long call gives.

    Before: ``x`` (1, C, T, W), ``y = Convolution[pad=(1, 0)](x)`` with a kernel of 3 rows, ``h = Scan(h_0, y)``
    After:  ``x`` (1, C, steps, W), ``rows = Concat[axis=2](y_rows_0, x)``, ``y = Convolution[pad=(0, 0)](rows)``; the
            last two rows are the state ``y_rows_T``. Result n of the long call is result n + 1 of the stream: the
            Scan keeps its states until result 1 comes.
    Branches with different delays meet after states that delay the faster one. A counter of steps tells padding, and
    what comes before the first result, from steps. All these states begin as zeros. ``Graph.stream`` has the delays.
    Left alone: what does not depend on steps. Raises ``NetError`` for a layer that a stream cannot have, and
    ``OptionsError`` where pieces of this length have no whole number of results.
    """
    pieces = _Pieces(graph, steps)
    pieces.refuse_broken()
    return pieces.graph()


def shortest_piece(graph: Graph) -> int | None:
    """The fewest steps of which a stream can have pieces; None if it cannot have any."""
    try:
        steps = _Pieces(graph, 1).unit
        stream_in_pieces(graph, steps)
    except ConversionError:
        return None
    return steps


@dataclass(frozen=True, slots=True)
class _Flow:
    """The steps of a piece: number n of the stream is number ``n - delay`` of the long call.

    The last ``end`` steps of the long call depend on where it ends.
    """

    value: Value
    delay: int = 0
    end: int = 0


class _Pieces:
    """The graph for pieces, node by node. Values of the long call are "old"."""

    def __init__(self, graph: Graph, steps: int) -> None:
        self._old, self._steps = graph, steps
        self._axes = StreamAxes(graph, steps)
        self._places = self._axes.of
        self._build = Builder(names_in(graph))
        self._new: dict[Value, Value] = {}
        self._flows: dict[Value, _Flow] = {}
        self._of_last: set[Value] = set()
        """What is computed from the last step of a call."""
        self._carried: set[Value] = set(graph.state_inputs)
        """What depends on states."""
        self._late: dict[tuple[Value, int], Value] = {}
        self._layouts: dict[str, BindingLayout] = {}
        self._count: Expression | None = None
        self._most = 0
        self.unit = self._axes.unit

    def refuse_broken(self) -> None:
        """Raise ``ConversionError`` where pieces of a net without steps, or of a part of a step, are asked for."""
        for node in self._old.nodes if not self._places else ():
            if (
                isinstance(node.op, ops.Scan)
                and not node.op.over_places
                and node.op.steps([value.shape for value in node.inputs]) != 1
            ):
                self._refuse(node, "has steps that no input of the net has")
        if not self._places:
            if not any(isinstance(node.op, ops.Scan) for node in self._old.nodes):
                raise NetError(
                    Worded("{} is for recurrent layers, and the net has none", Option("stream", self._steps)),
                    fix=Worded("leave out {}", Option("stream")),
                )
            raise NetError(
                Worded(
                    "no recurrent layer has several steps, but {} is for sequences",
                    Option("stream", self._steps),
                ),
                fix=Worded("state more than one step with {}", Option("shapes")),
            )
        if self._steps % self.unit:
            raise OptionsError(
                Worded(
                    "{} is not a multiple of {}, the strides along the steps",
                    Option("stream", self._steps),
                    self.unit,
                ),
                fix=Worded("use {}", Option("stream", -(-self._steps // self.unit) * self.unit)),
            )

    def graph(self) -> Graph:
        old, build = self._old, self._build
        for value in old.inputs:
            new = self._new[value] = self._axes.piece(value)
            build.inputs.append(new)
            if value in self._places:
                self._flows[value] = _Flow(new)
        for node in old.nodes:
            build.origin = node.origin
            self._add(node)
        self._close_count()
        own = [pair.with_replacements(self._new) for pair in old.recurrences]
        recurrences = [*(pair for pair in own if not pair.exposed), *build.recurrences]
        hidden = {pair.output for pair in own if not pair.exposed}
        shown = [value for value in old.outputs if self._new[value] not in hidden]
        used = {name for value in build.inputs for dim in value.shape for name in getattr(dim, "symbols", ())}
        lags = {
            value.name: Lag(self._places[value].steps, self._flows[value].delay, self._flows[value].end)
            for value in shown
            if value in self._flows
        }
        return replace(
            old,
            inputs=tuple(build.inputs),
            outputs=(*(self._new[value] for value in shown), *(pair.output for pair in recurrences)),
            nodes=tuple(build.nodes),
            recurrences=(*recurrences, *(pair for pair in own if pair.exposed)),
            symbols={name: span for name, span in old.symbols.items() if name in used},
            layout=replace(old.layout, bindings=self._axes.bindings() | self._layouts),
            stream=StreamLags(self._steps, lags),
        )

    # Nodes

    def _add(self, node: Node) -> None:
        streams = [value for value in node.inputs if value in self._flows]
        if not self._carried.isdisjoint(node.inputs):
            self._carried.update(node.outputs)
        is_late = not self._of_last.isdisjoint(node.inputs)
        if not streams:
            if not self._places.keys().isdisjoint(node.outputs):
                self._refuse(node, "has steps that none of its inputs has")
            self._new.update((value, value) for value in node.outputs)
            self._of_last.update(node.outputs if is_late else ())
            self._build.nodes.append(node.with_replacements(self._new))
            return
        if is_late or len({self._places[value].rate for value in streams}) > 1:
            self._refuse(node)
        op = node.op
        if isinstance(op, ops.Scan):
            self._add_scan(node, op)
        elif isinstance(op, Images) and self._places[streams[0]].axis > 0:
            self._add_windows(node)
        elif isinstance(op, ops.Slice) and self._is_along_steps(node):
            self._add_slice(node, op)
        elif isinstance(op, ops.Pad) and self._is_along_steps(node):
            self._add_pad(node, op)
        else:
            self._add_other(node, streams)

    def _refuse(self, node: Node, what: str = "mixes the steps of a sequence") -> NoReturn:
        raise NetError(
            f"{what}, which a stream in pieces cannot do", origin=node.origin, fix=CUT_BEFORE_LAYER
        )

    def _is_along_steps(self, node: Node) -> bool:
        x = node.inputs[0]
        return x in self._places and self._axes.axis(x) in node.op.mixes(len(x.shape))

    def _emit(self, node: Node, op: Op, inputs: Sequence[Value], delay: int, end: int) -> None:
        """Add a node that makes the steps of all its outputs."""
        outputs = tuple(map(self._axes.piece, node.outputs))
        shapes = op.shape(*(value.shape for value in inputs))
        if [*shapes] != [value.shape for value in outputs]:
            self._refuse(node)
        self._build.nodes.append(replace(node, op=op, inputs=tuple(inputs), outputs=outputs))
        for old, new in zip(node.outputs, outputs, strict=True):
            self._new[old] = new
            if old in self._places:
                self._flows[old] = _Flow(new, delay, end)
            else:
                self._of_last.add(old)

    def _add_other(self, node: Node, streams: Sequence[Value]) -> None:
        is_mixed = any(self._axes.axis(value) in node.op.mixes(len(value.shape)) for value in streams)
        if is_mixed or any(value not in self._places for value in node.outputs):
            self._refuse(node)
        inputs, delay, end = self._align(node, streams)
        op = node.op
        if isinstance(op, ops.Reshape):
            op = reshape_to(self._axes.piece(node.outputs[0]).shape, inputs[0].shape)
        self._emit(node, op, inputs, delay, end)

    def _align(self, node: Node, streams: Sequence[Value]) -> tuple[list[Value], int, int]:
        """The inputs of a node, with equal delays."""
        delay, end = (
            max(getattr(self._flows[value], name) for value in streams) for name in ("delay", "end")
        )
        axes = self._axes_of_constants(node)
        place = self._places[streams[0]]
        inputs = [
            self._steps_of(value, delay)
            if value in self._flows
            else self._rows_of_constant(node, value, axes[value], place, delay)
            if value in axes
            else self._new.get(value, value)
            for value in node.inputs
        ]
        return inputs, delay, end

    def _axes_of_constants(self, node: Node) -> dict[Value, int]:
        """The axes of constants that have a number for each step."""
        axes = {}
        for x, y, groups in node.op.ties(node.inputs, node.outputs):
            for left, right in groups:
                for constant, (axis, *_), value, others in ((x, left, y, right), (y, right, x, left)):
                    is_met = value in self._places and [*others] == [self._axes.axis(value)]
                    if constant.is_constant and is_met and constant.shape[axis] != 1:
                        axes[constant] = axis
        return axes

    def _rows_of_constant(self, node: Node, constant: Value, axis: int, place: StepAxis, delay: int) -> Value:
        """A constant for each step, of which only the first may differ."""
        rows = np.moveaxis(constant.array, axis, 0)
        if len(place.shape) != len(constant.shape) or not (rows[1:] == rows[1]).all():
            self._refuse(node, "reads numbers that differ from step to step")
        shape = (place.steps, *rows.shape[1:])
        first, others = (
            self._build.constant(np.moveaxis(np.broadcast_to(row, shape), 0, axis), "steps")
            for row in rows[:2]
        )
        if (rows[0] == rows[1]).all():
            return others
        return self._build.add(ops.Select(), self._since(node, place, delay + 1), others, first, hint="steps")

    def _add_scan(self, node: Node, scan: ops.Scan) -> None:
        outer = scan.named_inputs(node.inputs)
        streams = [value for value in outer.sequences if value in self._flows]
        others = {*outer.states, *outer.invariants}
        if scan.reverse:
            self._refuse(node, "reads a sequence backwards")
        if scan.over_places or not others.isdisjoint(self._flows):
            self._refuse(node)
        if not self._carried.issuperset(outer.states):
            self._refuse(node, "begins anew in each call")
        inputs, delay, end = self._align(node, streams)
        if delay:
            scan, inputs = self._hold(node, scan, inputs, self._places[streams[0]], delay)
        self._emit(node, scan, inputs, delay, end)

    def _hold(
        self, node: Node, scan: ops.Scan, inputs: Sequence[Value], place: StepAxis, delay: int
    ) -> tuple[ops.Scan, list[Value]]:
        """The Scan that keeps its states until the first step of the long call comes, and what it reads."""
        inner = self._build.body()
        before, after = scan.named_inputs(scan.body.inputs), scan.named_outputs(scan.body.outputs)
        outside, inside, held = dict[int, Value](), dict[int, Value](), list[Value]()
        for old, new in zip(before.states, after.states, strict=True):
            rank = len(old.shape)
            if rank not in outside:
                streams = None if rank < 2 else 1 if rank == MAP_AXES else rank - 1
                here = StepAxis((place.steps, *old.shape), 0, streams, place.rate)
                outside[rank] = self._since(node, here, delay)
                inside[rank] = inner.body_input("begun", outside[rank].shape[1:], DType.BOOL)
            held.append(inner.add(ops.Select(), inside[rank], new, old, hint="held"))
        body = replace(
            scan.body,
            inputs=(*before.states, *before.sequences, *inside.values(), *before.invariants),
            nodes=(*scan.body.nodes, *inner.nodes),
            outputs=(*held, *after.stacked),
        )
        read = scan.named_inputs(inputs)
        return replace(scan, body=body, sequences=scan.sequences + len(inside)), [
            *read.states,
            *read.sequences,
            *outside.values(),
            *read.invariants,
        ]

    def _add_windows(self, node: Node) -> None:
        x, *others = node.inputs
        place, flow, axis = self._places[x], self._flows[x], self._axes.axis(x) - 2
        if axis < 0 or place.shape != flow.value.shape or not self._flows.keys().isdisjoint(others):
            self._refuse(node)
        op, fill = node.op, 0.0
        if isinstance(op, ops.Convolution):
            pad = reach = op.pad[axis]
            extent = op.dilation[axis] * (int(computable(node.inputs[1].shape[2 + axis])) - 1) + 1
            inside: Op = replace(op, pad=_sizes_without(op.pad, axis))
        elif isinstance(op, ops.MaxPool) or (isinstance(op, ops.AveragePool) and not op.before[axis]):
            pad, reach, extent = op.before[axis], op.after[axis], op.window[axis]
            inside = replace(op, before=_sizes_without(op.before, axis), after=_sizes_without(op.after, axis))
            fill = _LOWEST
        else:
            self._refuse(node)
        stride = stride_of(node, 2 + axis)
        delay = max(-(-(flow.delay + extent - pad) // stride) - 1, 0)
        past = delay * stride + pad - flow.delay
        rows = self._with_past(flow.value, place, past)
        if pad and (flow.delay or fill):  # else the states begin as this padding
            rows = self._fill(node, rows, place, flow.delay, fill, max(past, 0))
        y = self._places.get(node.outputs[0])
        count = extent + stride * (y.steps - 1 if y else 0)
        rows = self._cut(rows, 2 + axis, max(-past, 0), count)
        self._emit(node, inside, [rows, *others], delay, -(-(reach + flow.end) // stride))

    def _add_slice(self, node: Node, op: ops.Slice) -> None:
        x = node.inputs[0]
        place, flow, size = self._places[x], self._flows[x], computable(x.shape[op.axis])
        if place.shape != flow.value.shape or not isinstance(op.start, int):
            self._refuse(node)
        rest = size - op.start - op.size
        if op.size == 1:
            if rest:
                self._refuse(node, "takes one step, not the last one, out of a sequence")
            self._emit(node, ops.Slice(op.axis, place.steps - 1, 1), [flow.value], 0, 0)
        else:
            end = max(flow.end - rest, 0) if isinstance(rest, int) else flow.end
            self._emit(node, ops.Identity(), [flow.value], flow.delay + op.start, end)

    def _add_pad(self, node: Node, op: ops.Pad) -> None:
        x = node.inputs[0]
        place, axis, end = self._places[x], self._axes.axis(x), self._flows[x].end
        if place.shape != self._flows[x].value.shape:
            self._refuse(node)
        before, after = op.before[axis], op.after[axis]
        delay = max(self._flows[x].delay, before)
        rows = self._steps_of(x, delay)
        if before > 0:
            rows = self._fill(node, rows, place, delay, op.value)
        around = ops.Pad(_sizes_without(op.before, axis), _sizes_without(op.after, axis), op.value)
        self._emit(node, around, [rows], delay - before, max(end + after, 0))

    # States

    def _steps_of(self, old: Value, delay: int) -> Value:
        """The steps of a value, with this delay."""
        flow, place = self._flows[old], self._places[old]
        if delay == flow.delay:
            return flow.value
        key = old, delay
        if key not in self._late:
            rows = self._with_past(self._build.reshape(flow.value, place.shape), place, delay - flow.delay)
            late = self._cut(rows, place.axis, 0, place.steps)
            self._late[key] = self._build.reshape(late, flow.value.shape)
        return self._late[key]

    def _with_past(self, value: Value, place: StepAxis, count: int) -> Value:
        """The steps of a piece, in the shape of the place, after the last ``count`` steps of the pieces before it."""
        if count <= 0:
            return value
        build, shape, layer = self._build, list(place.shape), self._build.origin.layer
        shape[place.axis] = count
        before = build.state_input(f"{layer}_rows_0", tuple(shape))
        rows = build.add(ops.Concat(place.axis), before, build.cast(value, DType.FLOAT32), hint="rows")
        after = build.add(ops.Slice(place.axis, place.steps, count), rows, hint="last_rows")
        build.state(f"{layer}_rows_T", before, after)
        self._lay_out(build.recurrences[-1], place.streams)
        return build.cast(rows, value.dtype)

    def _lay_out(self, pair: Recurrence, streams: int | None) -> None:
        """Say which axis of a state counts streams."""
        axes: list[Factors] = [()] * len(pair.input.shape)
        if streams is not None:
            axes[streams] = (Factor(STREAMS, pair.input.shape[streams]),)
        for value in (pair.input, pair.output):
            self._layouts[value.name] = BindingLayout(tuple(axes))

    def _cut(self, value: Value, axis: int, start: int, count: int) -> Value:
        return (
            value
            if value.shape[axis] == count
            else self._build.add(ops.Slice(axis, start, count), value, hint="cut")
        )

    def _fill(
        self, node: Node, rows: Value, place: StepAxis, first: int, fill: float, past: int = 0
    ) -> Value:
        """Rows with this number in those before step ``first`` of the stream."""
        is_step = self._since(node, place, first, past)
        return self._build.add(
            ops.Select(), is_step, rows, self._build.scalar(fill, len(rows.shape), rows.dtype), hint="padded"
        )

    def _since(self, node: Node, place: StepAxis, first: int, past: int = 0) -> Expression:
        """Which rows are step ``first`` of the stream or later ones; the piece is behind ``past`` further rows."""
        build, streams = self._build, self._axes.streams()
        if place.streams is None and streams != 1:
            self._refuse(node, "has no axis of streams")
        if self._count is None:
            self._count = build.state_input("stream_steps_0", (1, streams, 1))
        rate, rows = place.rate, place.steps + past
        self._most = max(self._most, math.ceil((first + past) * rate))
        numbers = (np.arange(rows) - past - first + 0.5) * float(rate)  # 0 is between two steps
        column = numbers.astype(np.float32).reshape([-1, *(1,) * (len(place.shape) - 1)])
        steps = build.constant(np.moveaxis(column, 0, place.axis), "steps")
        count = build.reshape(self._count, place.broadcast(1, streams))
        return (build.add(ops.ADD, count, steps) > 0).named("begun")

    def _close_count(self) -> None:
        """The counter of steps after a piece, which stops where no more needs to be told."""
        if self._count is not None:
            after = (self._count + self._steps).at_most(self._most).named("stream_steps")
            self._build.state("stream_steps_T", self._count, after)
            self._lay_out(self._build.recurrences[-1], 1)


def _sizes_without(numbers: Sequence[int], axis: int) -> tuple[int, ...]:
    """The numbers, with 0 for one axis."""
    return (*numbers[:axis], 0, *numbers[axis + 1 :])

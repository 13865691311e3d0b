"""Running a stack over the steps of its streams: products for all steps at once, and the Scans."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import fixed
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.ops import Concat, Select, Slice
from prototrt.surgery.recurrent.cells import scan
from prototrt.surgery.recurrent.resets import Resets
from prototrt.surgery.recurrent.stacks import Direction, InputWeights, Stack, StackStates, zeros


@dataclass(frozen=True, slots=True, eq=False)
class StackInputs:
    """The inputs of a stack: N streams of T steps.

    ``x`` (T, N, D); ``cont`` (T, N), 0 where a sequence begins, or nothing if every step continues; ``lengths`` (N,),
    the steps that each stream has, or nothing if it has all of them; ``statics``, which the first
    layer adds to its x: (1, N, S) each, or (T, N, S) where they change.
    """

    x: Value
    cont: Value | None = None
    lengths: Value | None = None
    statics: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StackOutputs:
    """``top`` (T, N, width), and the arrays of each state after the last step, of ``packed_shapes``."""

    top: Value
    states: Sequence[Sequence[Value]]


def run_stack(
    build: Builder, stack: Stack, inputs: StackInputs, initial: Sequence[Sequence[Value]]
) -> StackOutputs:
    """Run all layers of a stack over all steps; ``initial`` are the arrays of each state before the first one.

    Every state of every cell is reset by cont and held after a stream's end here, outside the
    cell.
    """
    resets = Resets(build, inputs.x, inputs.cont, inputs.lengths)
    states = StackStates(build, stack.state_sizes, initial, inputs.x.shape[1])
    top, statics = inputs.x, inputs.statics
    for layer in stack.layers:
        gate = resets.column() if stack.resets_input else None
        transformed = _input_products(build, top, statics, [direction.inputs for direction in layer], gate)
        tops = []
        for direction, x in zip(layer, transformed, strict=True):
            held = _initial_outputs(build, inputs.x, direction) if stack.holds_past_end else []
            tops.append(_run_direction(build, direction, x, held, resets, states))
        top, statics = _join_directions(build, tops, stack.adds_up), ()
    if resets.valid is not None and not stack.holds_past_end:
        top = build.add(Select(), resets.valid, top, build.scalar(0, 3), hint="until_end")
    return StackOutputs(top, states.pack())


def _run_direction(
    build: Builder, direction: Direction, x: Value, held: Sequence[Value], resets: Resets, states: StackStates
) -> Value:
    """The top of one direction for its transformed x; ``held`` are additional states, for other outputs."""
    cell, marks = resets.guard(direction.cell, reverse=direction.reverse)
    before = states.before()
    end = scan(build, cell, [x, *marks], [*before, *held], reverse=direction.reverse)
    states.last.append(end.states[: len(before)])
    return direction.readout(build, end.outputs)


def _initial_outputs(build: Builder, x: Value, direction: Direction) -> list[Value]:
    """Zeros (N, size): the outputs that are not states, of a stream without any step."""
    return [
        build.reshape(zeros(build, x, (1, x.shape[1], size)), (x.shape[1], size), hint="initial")
        for size in direction.cell.stateless_outputs
    ]


def _input_products(
    build: Builder,
    sequence: Value,
    statics: Sequence[Value],
    weights: Sequence[InputWeights],
    gate: Value | None,
) -> list[Value]:
    """``W x + b [+ W_static x_static]`` of each direction for all steps: (T, N, R) each.

    One product serves all directions, except for a single step: there each direction's product with x
    becomes one with its product with h (``surgery/passes/join_products.py``).
    """
    if len(weights) == 1 or sequence.shape[0] == 1:
        return [_input_sum(build, sequence, statics, [one], gate) for one in weights]
    total = _input_sum(build, sequence, statics, weights, gate)
    rows = fixed(weights[0].bias.shape[0], "the number of gates")
    return [
        build.add(Slice(2, place * rows, rows), total, hint="x_direction") for place in range(len(weights))
    ]


def _input_sum(
    build: Builder,
    sequence: Value,
    statics: Sequence[Value],
    weights: Sequence[InputWeights],
    gate: Value | None,
) -> Value:
    """The sums of several directions side by side: (T, N, directions R)."""
    product = sequence.product(_concatenate(build, [one.matrix for one in weights])).named("x_product")
    bias = _concatenate(build, [one.bias for one in weights])
    total = (product + build.aligned(bias, 3)).named("x_sum")
    if gate is not None:
        total = (total * gate).named("x_gated")
    for index, static in enumerate(statics):
        matrix = _concatenate(build, [one.statics[index] for one in weights])
        product = static.product(matrix).named("static_product")
        total = (total + product).named("x_static_sum")
    return total


def _concatenate(build: Builder, weights: Sequence[Value]) -> Value:
    """The rows of several constants, concatenated."""
    if len(weights) == 1:
        return weights[0]
    arrays = [value.data for value in weights if value.data is not None]
    if len(arrays) < len(weights):
        return build.add(Concat(0), *weights, hint="weights")
    return build.constant(concatenate(arrays), "weights")


def _join_directions(build: Builder, tops: Sequence[Value], adds_up: bool) -> Value:
    if len(tops) == 1:
        return tops[0]
    forward, backward = tops
    if adds_up:
        return (forward + backward).named("directions_sum")
    return build.add(Concat(2), forward, backward, hint="directions")

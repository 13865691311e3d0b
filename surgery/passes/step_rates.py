"""How many steps of the input of a net one step of each of its values is."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ops import Convolution
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.passes.named_axes import AxisNames, axes_of_steps


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

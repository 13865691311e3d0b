"""Which layers mix the steps of a sequence outside of recurrences, so that several calls differ from one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from prototrt.surgery.ir import Graph, Node, Op, Size, Value
from prototrt.surgery.ops import Concat, Convolution, Reshape, Scan, Slice
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.ops.windows import Images
from prototrt.surgery.passes.named_axes import AxisNames, axes_of_steps, step_axes


def layers_that_mix_steps(graph: Graph) -> list[str]:
    """The layers in whose results a step depends on other steps, in the order of the net.

    Among them are layers that read a sequence backwards. A Slice of the last steps is not, and neither are Slices and
    Concats where a net takes its sequence apart, step by step, and puts it together, or does the same with all parts.
    """
    names = step_axes(graph)
    recurrent = {node.origin.layer for node in graph.nodes if isinstance(node.op, Scan)}
    joined = _parts_of_wholes(names, graph)
    mixing = (
        node.origin.layer
        for node in graph.nodes
        if (isinstance(node.op, Scan) or node.origin.layer not in recurrent) and _mixes(names, node, joined)
    )
    return list(dict.fromkeys(filter(None, mixing)))


def _along_steps(names: AxisNames, node: Node) -> bool:
    """Whether the axis along which elements of the first input depend on each other counts steps."""
    x = node.inputs[0]
    return not {*axes_of_steps(names, x)}.isdisjoint(node.op.mixes(len(x.shape)))


def _mixes(names: AxisNames, node: Node, joined: Collection[Node]) -> bool:
    op = node.op
    if isinstance(op, Scan):
        return op.reverse and not op.over_places
    if isinstance(op, Images):
        x, y = node.inputs[0], node.outputs[0]
        axes = {*axes_of_steps(names, x), *axes_of_steps(names, y)}
        return any(axis > 1 and _sees_several(node, axis - 2) for axis in axes)
    if isinstance(op, Slice | Concat):
        return _along_steps(names, node) and node not in joined and not _keeps_last(node)
    return bool(node.inputs) and (_along_steps(names, node) or any(_drops_steps(names, node)))


def _parts_of_wholes(names: AxisNames, graph: Graph) -> set[Node]:
    """The Slices of steps, and the Concats that join such parts of a sequence again in their order.

    The parts are single steps, as those of a recurrence that is written out, or all parts are computed alike.
    """
    along = [
        node for node in graph.nodes if isinstance(node.op, Slice | Concat) and _along_steps(names, node)
    ]
    single = {node for node in along if isinstance(node.op, Slice) and node.op.size == 1}
    writers = graph.writers()
    whole: set[Node] = set()
    for concat in along:
        if not isinstance(concat.op, Concat):
            continue
        if all(value.shape[concat.op.axis] == 1 for value in concat.inputs):
            whole |= {concat, *single}
            continue
        ways = [_way_of_part(value, writers, along) for value in concat.inputs]
        slices = [node for node, _ in ways if node is not None]
        if len(slices) == len(ways) and all(way == ways[0][1] for _, way in ways) and _are_in_order(slices):
            whole |= {concat, *slices}
    return whole


def _way_of_part(
    value: Value, writers: Mapping[Value, Node], along: Collection[Node]
) -> tuple[Node | None, list[tuple[Op, list[bytes]]]]:
    """The Slice of steps that a part comes from, and what is computed of it alone, with which numbers."""
    way: list[tuple[Op, list[bytes]]] = []
    while (node := writers.get(value)) is not None and node not in along:
        read = [each for each in node.inputs if not each.is_constant]
        if len(read) != 1:
            return None, way
        numbers = [each.array.tobytes() for each in node.inputs if each.is_constant]
        way.append((Reshape(()) if isinstance(node.op, Reshape) else node.op, numbers))
        value = read[0]
    return node if node is not None and isinstance(node.op, Slice) else None, way


def _are_in_order(slices: Sequence[Node]) -> bool:
    """Whether Slices cut one sequence from its beginning on, each where the one before it ends."""
    end: Size = 0
    for node in slices:
        assert isinstance(node.op, Slice)
        if node.op.start != end or node.inputs != slices[0].inputs:
            return False
        end = end + node.op.size
    return True


def _sees_several(node: Node, axis: int) -> bool:
    """Whether windows have more than one element on a spatial axis, or leave out elements, or add some."""
    op, x = node.op, node.inputs[0]
    if axis >= len(x.shape) - 2:
        return False
    if isinstance(op, Convolution):
        return (node.inputs[1].shape[2 + axis], op.stride[axis], op.pad[axis]) != (1, 1, 0)
    if isinstance(op, Windows):
        return (op.window[axis], op.stride[axis], op.before[axis], op.after[axis]) != (1, 1, 0, 0)
    return True


def _keeps_last(node: Node) -> bool:
    """Whether a Slice keeps the last steps, which are those of the last call."""
    op = node.op
    return isinstance(op, Slice) and op.start + op.size == node.inputs[0].shape[op.axis]


def _drops_steps(names: AxisNames, node: Node) -> Iterator[bool]:
    """For each axis of steps of an input, whether no output keeps it: the node combines all steps."""
    kept = {
        (value, axis)
        for *values, groups in node.op.ties(node.inputs, node.outputs)
        for group in groups
        for value, axes in zip(values, group, strict=True)
        for axis in axes
    }
    for value in node.inputs:
        for axis in axes_of_steps(names, value):
            yield value.shape[axis] != 1 and (value, axis) not in kept

"""Which layers mix the steps of a sequence outside of recurrences, so that several calls differ from one."""

from __future__ import annotations

from collections.abc import Iterator

from prototrt.surgery.ir import Graph, Node
from prototrt.surgery.ops import Concat, Convolution, Scan, Slice
from prototrt.surgery.ops.pooling import Windows
from prototrt.surgery.ops.windows import Images
from prototrt.surgery.passes.named_axes import AxisNames, axes_of_steps, step_axes


def layers_that_mix_steps(graph: Graph) -> list[str]:
    """The layers in whose results a step depends on other steps, in the order of the net.

    Among them are layers that read a sequence backwards. A Slice of the last steps is not, and neither are Slices and
    Concats where a net takes its sequence apart and puts it together.
    """
    names = step_axes(graph)
    recurrent = {node.origin.layer for node in graph.nodes if isinstance(node.op, Scan)}
    joins = any(isinstance(node.op, Concat) and _along_steps(names, node) for node in graph.nodes)
    mixing = (
        node.origin.layer
        for node in graph.nodes
        if (isinstance(node.op, Scan) or node.origin.layer not in recurrent) and _mixes(names, node, joins)
    )
    return list(dict.fromkeys(filter(None, mixing)))


def _along_steps(names: AxisNames, node: Node) -> bool:
    """Whether the axis along which elements of the first input depend on each other counts steps."""
    x = node.inputs[0]
    return not {*axes_of_steps(names, x)}.isdisjoint(node.op.mixes(len(x.shape)))


def _mixes(names: AxisNames, node: Node, joins: bool) -> bool:
    op = node.op
    if isinstance(op, Scan):
        return op.reverse and not op.over_places
    if isinstance(op, Images):
        x, y = node.inputs[0], node.outputs[0]
        axes = {*axes_of_steps(names, x), *axes_of_steps(names, y)}
        return any(axis > 1 and _sees_several(node, axis - 2) for axis in axes)
    if isinstance(op, Slice | Concat):
        return _along_steps(names, node) and not joins and not _keeps_last(node)
    return bool(node.inputs) and (_along_steps(names, node) or any(_drops_steps(names, node)))


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

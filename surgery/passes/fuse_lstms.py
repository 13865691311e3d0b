"""Pass: write a recurrence that is exactly ONNX's LSTM as one operator."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import DType, Graph, Node, Op, Shape, Value, bodies, fixed, wiring
from prototrt.surgery.ops import ADD, MatMul, Scan, Slice

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FusedLSTM(Op):
    """ONNX's LSTM: h (N, H), c (N, H), x (T, N, D), W (4H, D), R (4H, H), b (4H,) -> h, c, h of all steps.

    Rows in Caffe's gate order: i, f, o, g. It is not a primitive: only the ONNX backend supports it.
    """

    hidden: int
    reverse: bool

    constants: ClassVar[tuple[int, ...]] = (3, 4, 5)

    def shape(self, h: Shape, c: Shape, x: Shape, *weights: Shape) -> list[Shape]:
        return [h, c, (*x[:2], self.hidden)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [*inputs[:3]]


def fuse_lstms(graph: Graph) -> Graph:
    """Replace Scans whose body is an LSTM step by ONNX's operator.

    Before: ``s = Add(MatMul(x, const W), const b)``, ``h, c, y = Scan[LSTM step](h0, c0, s)``
    After:  ``h, c, y = FusedLSTM(h0, c0, x, const W, const R, const b)``
    If nothing reads y, the Scan has no y, but the operator writes it.
    Left alone: a recurrence that reads cont or a static input, which ONNX's LSTM lacks, and
    any other cell. The user asked for the operator, so a warning reports them.
    """
    nodes = _with_operators(graph)
    for node in nodes:
        if isinstance(node.op, Scan):
            log.warning(
                "%s: stays a Scan: a cont, a static input, float16 or another cell does not fit ONNX's LSTM",
                node.origin,
            )
    return _changed(graph, nodes)


def fuse_forward_lstms(graph: Graph) -> Graph:
    """``fuse_lstms`` for a reader that computes the last state of an LSTM backwards wrongly, as OpenCV 5.0 does.

    Before: ``h, c, y = Scan[LSTM step](h0, c0, Add(MatMul(x, const W), const b))``
    After:  ``h, c, y = FusedLSTM(h0, c0, x, const W, const R, const b)``
    Left alone: what ``fuse_lstms`` leaves alone, and Scans that run backwards. Another pass writes them out.
    """
    pairs = zip(graph.nodes, _with_operators(graph), strict=True)
    return _changed(
        graph, [old if isinstance(old.op, Scan) and old.op.reverse else new for old, new in pairs]
    )


def _with_operators(graph: Graph) -> list[Node]:
    writers = {value: node for node in graph.nodes for value in node.outputs}
    build = Builder(names_in(graph))
    return [_fused(build, node, writers) or node for node in graph.nodes]


def _changed(graph: Graph, nodes: Sequence[Node]) -> Graph:
    is_changed = any(isinstance(node.op, FusedLSTM) for node in nodes)
    return graph.with_nodes(nodes) if is_changed else graph


def _fused(build: Builder, node: Node, writers: Mapping[Value, Node]) -> Node | None:
    """The operator that replaces a Scan, or None."""
    if not isinstance(node.op, Scan) or (recurrent := _recurrent_weights(node, node.op)) is None:
        return None
    read = node.op.named_inputs(node.inputs)
    (h, c), (sequence,) = read.states, read.sequences
    if (transformed := _transformed(sequence, writers)) is None:
        return None
    op = FusedLSTM(recurrent.array.shape[-1], node.op.reverse)
    inputs = (h, c, *transformed[:2], recurrent, transformed[2])
    shapes, dtypes = (
        op.shape(*(value.shape for value in inputs)),
        op.dtypes(*(value.dtype for value in inputs)),
    )
    build.origin = node.origin
    unread = [
        Value(build.fresh("unread"), dtype, shape, is_surgical=True)
        for dtype, shape in list(zip(dtypes, shapes, strict=True))[len(node.outputs) :]
    ]
    return replace(node, op=op, inputs=inputs, outputs=(*node.outputs, *unread))


def _recurrent_weights(node: Node, op: Scan) -> Value | None:
    """R (4H, H) if the body equals that of a plain LSTM cell, node by node; otherwise None."""
    # Imported where it is needed: the lists of passes are read for every net, this one runs for few.
    from prototrt.surgery.recurrent.cells import LSTMCell
    from prototrt.surgery.recurrent.resets import GuardedCell
    from prototrt.surgery.recurrent.scan import scan

    constants = [value for inner in op.body.nodes for value in inner.inputs if value.is_constant]
    read = op.named_inputs([replace(value, data=None) for value in node.inputs])
    if (len(read.states), len(read.sequences), len(read.invariants), len(constants)) != (2, 1, 0, 1):
        return None
    weights = replace(constants[0], shape=constants[0].shape[-2:])
    (h, c), (x,) = read.states, read.sequences
    if (len(h.shape), h.shape, x.shape) != (2, c.shape, (*x.shape[:1], *h.shape[:1], 4 * h.shape[1])):
        return None
    build = Builder()
    scan(build, GuardedCell(LSTMCell(weights)), [x], [h, c], reverse=op.reverse)
    (plain,) = bodies(build.nodes[-1].op)
    written = replace(plain, outputs=plain.outputs[: len(op.body.outputs)])
    return weights if wiring(op.body) == wiring(written) else None


def _transformed(sequence: Value, writers: Mapping[Value, Node]) -> tuple[Value, Value, Value] | None:
    """x (T, N, D), W (4H, D) and b (4H,) if a sequence is ``x W^T + b``; otherwise None.

    The sequence may be a part of a product that both directions share.
    """
    total, first = writers.get(sequence), 0
    if total is not None and isinstance(total.op, Slice) and total.op.axis == 2:
        if not isinstance(total.op.start, int):
            return None
        first, total = total.op.start, writers.get(total.inputs[0])
    if total is None or total.op != ADD or total.inputs[0] not in writers:
        return None
    product, bias = writers[total.inputs[0]], total.inputs[1]
    if product.op != MatMul(transpose_b=True) or bias.data is None or product.inputs[1].data is None:
        return None
    x, weights = product.inputs
    rows = total.outputs[0].shape[-1]
    if bias.data.size != rows or weights.data is None or weights.data.size != rows * weights.data.shape[-1]:
        return None
    own = slice(first, first + fixed(sequence.shape[-1], "the number of gates"))
    matrix, row = weights.data.reshape(weights.data.shape[-2:])[own], bias.data.reshape(-1)[own]
    return (
        x,
        replace(weights, shape=matrix.shape, data=matrix),
        replace(bias, shape=row.shape, data=row),
    )

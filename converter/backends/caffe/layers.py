"""Primitives as layers that BVLC Caffe has: one function for each.

The layers are those that each reader of Caffe's files knows: InnerProduct, Eltwise, Scale, Power, Slice, Concat,
Reshape and activations. What has no such layer is refused with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.surgery import ops
from prototrt.surgery.forms import UNROLL_AT_MOST
from prototrt.surgery.ir import Array, Graph, Node, Op, Value
from prototrt.surgery.ir.registry import Registry

Rule: TypeAlias = Callable[["PlainLayers", Node, Any], None]
"""It takes the node, and its op."""
_PRODUCT, _SUM, _LARGER = 0, 1, 2
"""Operations of Eltwise."""
layer_of: Registry[type[Op], Rule] = Registry("Caffe layer")


@dataclass(frozen=True, slots=True)
class PlainLayer:
    """A layer and its blobs."""

    message: Message
    arrays: Sequence[Array] = ()


@dataclass
class PlainLayers:
    """The layers of a graph, in order. ``blobs`` are the names that its inputs and outputs have in the net."""

    graph: Graph
    blobs: dict[Value, str]
    layers: list[PlainLayer] = field(default_factory=list)
    absorbed: set[Node] = field(default_factory=set)  # nodes that the layer of an earlier one computes, too

    def write(self) -> list[PlainLayer]:
        """The layers of all nodes. Raises ``ConversionError``."""
        for value in self.graph.outputs:
            self.blobs.setdefault(value, value.name)
        problems: list[ConversionError] = []
        for node in self.graph.nodes:
            rule = layer_of.find(type(node.op))
            try:
                if rule is None:
                    raise _without_layer(node)
                if node not in self.absorbed:
                    rule(self, node, node.op)
            except ConversionError as error:
                problems.append(error)
        raise_all(problems)
        return self.layers

    def readers(self, value: Value) -> list[Node]:
        return [node for node in self.graph.nodes if value in node.inputs]

    def blob(self, value: Value) -> str:
        """The blob of a value. A constant becomes a Parameter layer."""
        if value not in self.blobs:
            self.blobs[value] = value.name
            if value.is_constant:
                layer = self.layer("Parameter", value.name, [], [value.name], [value.array])
                layer.parameter_param.shape.dim.extend(value.array.shape)
        return self.blobs[value]

    def layer(
        self,
        kind: str,
        name: str,
        bottoms: Sequence[str],
        tops: Sequence[str],
        arrays: Sequence[Array] = (),
    ) -> Any:
        """Add a layer, and return its message for its parameters."""
        message = message_class("LayerParameter")(name=name, type=kind, bottom=bottoms, top=tops)
        self.layers.append(PlainLayer(message, arrays))
        return message

    def of_node(self, kind: str, node: Node, *bottoms: str, arrays: Sequence[Array] = ()) -> Any:
        """The layer that makes the output of a node. It reads the node's inputs, unless ``bottoms`` says what."""
        read = bottoms or tuple(map(self.blob, node.inputs))
        return self.layer(kind, node.name, read, [self.blob(node.outputs[0])], arrays)

    def line(self, name: str, bottom: str, *, power: float = 1, scale: float = 1, shift: float = 0) -> str:
        """``(scale * x + shift) ** power`` as a blob of this name."""
        layer = self.layer("Power", name, [bottom], [name])
        _set_line(layer, power=power, scale=scale, shift=shift)
        return name

    def alias(self, node: Node) -> None:
        """The output of a node is its input. A blob of the net gets its name by a Split of one top."""
        source, result = node.inputs[0], node.outputs[0]
        if result in self.blobs:
            self.of_node("Split", node)
        else:
            self.blobs[result] = self.blob(source)


def _without_layer(node: Node, what: str | None = None) -> ConversionError:
    return UnsupportedLayerError(
        f"computes with {what or type(node.op).__name__}, for which BVLC Caffe has no layer",
        origin=node.origin,
        fix=Worded("leave the layer as it is: use {}", Option("stage", "parsed")),
    )


def _set_line(layer: Message, **factors: float) -> None:
    usual = {"power": 1, "scale": 1, "shift": 0}
    layer.power_param.SetInParent()
    for name, factor in factors.items():
        if factor != usual[name]:
            setattr(layer.power_param, name, factor)


@layer_of(ops.Identity)
def _identity(plain: PlainLayers, node: Node, op: Any) -> None:
    plain.alias(node)


@layer_of(ops.Reshape)
def _reshape(plain: PlainLayers, node: Node, op: Any) -> None:
    (source,), (result,) = node.inputs, node.outputs
    if source.shape == result.shape:
        plain.alias(node)
        return
    plain.of_node("Reshape", node).reshape_param.shape.dim.extend(map(int, result.shape))


@layer_of(ops.MatMul)
def _matmul(plain: PlainLayers, node: Node, op: Any) -> None:
    """InnerProduct over the last axis. A constant that is added to nothing but the product is its bias."""
    source, factor = node.inputs
    if not factor.is_constant or factor.array.size != factor.array.shape[-1] * factor.array.shape[-2]:
        raise _without_layer(node, "a product of two computed matrices")
    matrix = factor.array.reshape(factor.array.shape[-2:])
    weights = matrix if op.transpose_b else matrix.T
    arrays, made = [weights], node
    readers = plain.readers(node.outputs[0])
    is_output = node.outputs[0] in plain.blobs
    if len(readers) == 1 and not is_output:
        bias = _bias(readers[0], node.outputs[0])
        if bias is not None:
            arrays, made = [weights, bias], readers[0]
            plain.absorbed.add(made)
    layer = plain.layer(
        "InnerProduct", node.name, [plain.blob(source)], [plain.blob(made.outputs[0])], arrays
    )
    layer.inner_product_param.num_output = len(weights)
    layer.inner_product_param.axis = len(source.shape) - 1
    if len(arrays) == 1:
        layer.inner_product_param.bias_term = False
    layer.param.add(name=factor.name)


def _bias(node: Node, product: Value) -> Array | None:
    """The numbers that a node adds to a product, if they are one for each column."""
    if not (isinstance(node.op, ops.Binary) and node.op.kind is ops.BinaryKind.ADD):
        return None
    other = next((value for value in node.inputs if value is not product), product)
    if not other.is_constant or other.array.size not in (1, *product.shape[-1:]):
        return None
    columns = int(product.shape[len(product.shape) - 1])
    is_row = other.array.size == 1 or other.array.shape[-1:] == (columns,)
    return np.broadcast_to(other.array.reshape(-1), [columns]) if is_row else None


@layer_of(ops.Slice)
def _slice(plain: PlainLayers, node: Node, op: Any) -> None:
    """All parts of a value along an axis are one Slice layer. What no node reads is silenced."""
    source = node.inputs[0]
    total = int(source.shape[op.axis])
    parts: dict[tuple[int, int], list[Node]] = {}
    for each in plain.readers(source):
        if isinstance(each.op, ops.Slice) and each.op.axis == op.axis:
            begin = int(each.op.start)
            parts.setdefault((begin, begin + int(each.op.size)), []).append(each)
    own = (int(op.start), int(op.start) + int(op.size))
    if own == (0, total):
        plain.alias(node)
        return
    ranges = sorted(parts) if _disjoint([*parts]) else [own]
    tops, unread, points, place = [], [], [], 0
    for begin, end in [*ranges, (total, total)]:
        if begin > place:
            tops.append(f"{node.name}_rest_{place}")
            unread.append(tops[-1])
            points.append(begin)
        if end > begin:
            tops.append(_shared_blob(plain, parts[(begin, end)]))
            plain.absorbed.update(parts[(begin, end)])
            points.append(end)
        place = end
    layer = plain.layer("Slice", node.name, [plain.blob(source)], tops)
    layer.slice_param.axis = op.axis
    layer.slice_param.slice_point.extend(points[:-1])
    if unread:
        plain.layer("Silence", f"{node.name}_unread", unread, [])


def _disjoint(ranges: Sequence[tuple[int, int]]) -> bool:
    ordered = sorted(ranges)
    return all(one[1] <= other[0] for one, other in pairwise(ordered))


def _shared_blob(plain: PlainLayers, nodes: Sequence[Node]) -> str:
    """The blob of all nodes that cut out the same part."""
    blob = plain.blob(nodes[0].outputs[0])
    for node in nodes[1:]:
        plain.blobs.setdefault(node.outputs[0], blob)
    return blob


@layer_of(ops.Concat)
def _concat(plain: PlainLayers, node: Node, op: Any) -> None:
    plain.of_node("Concat", node).concat_param.axis = op.axis


@layer_of(ops.Binary)
def _binary(plain: PlainLayers, node: Node, op: Any) -> None:
    """A number is a Power layer, equal shapes are an Eltwise, and one within the other is a Scale or a Bias."""
    (a, b), kind = node.inputs, op.kind
    for one, other in ((a, b), (b, a)):
        if (
            other.is_constant
            and (number := _one_number(other.array)) is not None
            and one.shape == node.outputs[0].shape
        ):
            _set_line(plain.of_node("Power", node, plain.blob(one)), **_line(node, kind, number, one is a))
            return
    if kind is ops.BinaryKind.DIVIDE:
        inverse = plain.line(f"{node.name}_inverse", plain.blob(b), power=-1)
        _product_or_sum(plain, node, (a, plain.blob(a)), (b, inverse), "Scale")
    elif kind is ops.BinaryKind.SUBTRACT:
        negative = plain.line(f"{node.name}_negative", plain.blob(b), scale=-1)
        _product_or_sum(plain, node, (a, plain.blob(a)), (b, negative), "Bias")
    elif kind in (ops.BinaryKind.ADD, ops.BinaryKind.MULTIPLY):
        layer = "Bias" if kind is ops.BinaryKind.ADD else "Scale"
        _product_or_sum(plain, node, (a, plain.blob(a)), (b, plain.blob(b)), layer)
    elif kind is ops.BinaryKind.MAXIMUM and a.shape == b.shape:
        plain.of_node("Eltwise", node).eltwise_param.operation = _LARGER
    else:
        raise _without_layer(node, kind.name.lower())


def _one_number(array: Array) -> float | None:
    """The number that all elements are; None if they differ."""
    first = array.reshape(-1)[:1]
    return float(first[0]) if array.size and bool((array == first).all()) else None


def _line(node: Node, kind: ops.BinaryKind, number: float, is_second: bool) -> dict[str, float]:
    """What a Power layer computes for an operation with a number, in the second or in the first place."""
    if kind is ops.BinaryKind.ADD:
        return {"shift": number}
    if kind is ops.BinaryKind.MULTIPLY:
        return {"scale": number}
    if kind is ops.BinaryKind.SUBTRACT:
        return {"shift": -number} if is_second else {"scale": -1, "shift": number}
    if kind is ops.BinaryKind.DIVIDE and is_second:
        return {"scale": 1 / number}
    raise _without_layer(node, kind.name.lower())


def _product_or_sum(
    plain: PlainLayers, node: Node, one: tuple[Value, str], other: tuple[Value, str], broadcasting: str
) -> None:
    """Eltwise of equal shapes; otherwise the larger one with a Scale or a Bias, which broadcast the other.

    A sum over a first axis of a few steps is an Eltwise, too, with a Concat of copies: OpenCV has no Bias.
    """
    result = node.outputs[0].shape
    if one[0].shape != result:
        one, other = other, one
    shape, inner = other[0].shape, [axis for axis, size in enumerate(other[0].shape) if size != 1]
    is_repeated = broadcasting == "Bias" and shape[:1] == (1,) and shape[1:] == result[1:]
    if is_repeated and int(result[0]) <= UNROLL_AT_MOST:
        copies = f"{node.name}_copies"
        plain.layer("Concat", copies, [other[1]] * int(result[0]), [copies]).concat_param.axis = 0
        shape, other = result, (other[0], copies)
    if one[0].shape == shape == result:
        layer = plain.of_node("Eltwise", node, one[1], other[1])
        layer.eltwise_param.operation = _PRODUCT if broadcasting == "Scale" else _SUM
        return
    begin, end = (inner[0], inner[-1] + 1) if inner else (0, 0)
    if one[0].shape != result or inner != [*range(begin, end)]:
        raise _without_layer(node, f"{shape} against {one[0].shape}")
    factor = f"{node.name}_factor"
    reshape = plain.layer("Reshape", factor, [other[1]], [factor])
    reshape.reshape_param.shape.dim.extend([int(size) for size in shape[begin:end]] or [1])
    layer = plain.of_node(broadcasting, node, one[1], factor)
    parameters = layer.scale_param if broadcasting == "Scale" else layer.bias_param
    parameters.axis = begin


_FUNCTIONS = {ops.UnaryKind.ABS: "AbsVal", ops.UnaryKind.EXP: "Exp", ops.UnaryKind.LOG: "Log"}
_LINES: dict[ops.UnaryKind, dict[str, float]] = {
    ops.UnaryKind.NEGATIVE: {"scale": -1},
    ops.UnaryKind.SQRT: {"power": 0.5},
}


@layer_of(ops.Unary)
def _unary(plain: PlainLayers, node: Node, op: Any) -> None:
    kind = op.kind
    if kind in _LINES:
        _set_line(plain.of_node("Power", node), **_LINES[kind])
    elif kind in _FUNCTIONS:
        plain.of_node(_FUNCTIONS[kind], node)
    else:
        raise _without_layer(node, kind.name.lower())


@layer_of(ops.Power)
def _power(plain: PlainLayers, node: Node, op: Any) -> None:
    _set_line(plain.of_node("Power", node), power=op.exponent)


@layer_of(ops.Sigmoid, ops.TanH)
def _by_name(plain: PlainLayers, node: Node, op: Any) -> None:
    plain.of_node(type(op).__name__, node)


@layer_of(ops.LeakyReLU)
def _relu(plain: PlainLayers, node: Node, op: Any) -> None:
    layer = plain.of_node("ReLU", node)
    if op.slope:
        layer.relu_param.negative_slope = op.slope


@layer_of(ops.Clip)
def _clip(plain: PlainLayers, node: Node, op: Any) -> None:
    layer = plain.of_node("Clip", node)
    layer.clip_param.min, layer.clip_param.max = op.low, op.high


@layer_of(ops.HardSigmoid)
def _hard_sigmoid(plain: PlainLayers, node: Node, op: Any) -> None:
    line = plain.line(f"{node.name}_line", plain.blob(node.inputs[0]), scale=op.alpha, shift=op.beta)
    layer = plain.of_node("Clip", node, line)
    layer.clip_param.min, layer.clip_param.max = 0, 1


@layer_of(ops.Softmax)
def _softmax(plain: PlainLayers, node: Node, op: Any) -> None:
    plain.of_node("Softmax", node).softmax_param.axis = op.axis

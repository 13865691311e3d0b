"""Which products of a graph compute in 8 bits, and which of its values are quantized for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery import ops
from prototrt.surgery.ir import DType, Graph, Node, Value, walk
from prototrt.surgery.ir.uniform_constants import unbroadcast
from prototrt.surgery.options import Precision, RewriteOptions
from prototrt.surgery.passes.precision import NOT_IN_BFLOAT16
from prototrt.surgery.passes.value_bounds import value_bounds

PRODUCTS = (ops.Convolution, ops.Deconvolution, ops.MatMul)
_SAME_NUMBERS = (ops.Identity, ops.Reshape, ops.Transpose)
_MOVES = (ops.Concat, *_SAME_NUMBERS)
_FEW_WEIGHTS = 2_000_000
"""Reading as many bytes less takes a GPU about as long as two more kernels, 1.1 us each: see docs/gpu-results.md."""


def quantized_values(graph: Graph, options: RewriteOptions) -> list[str]:
    """The names of the values whose largest magnitude must be known to quantize a graph, in the order it computes.

    The graph is ``pipeline.quantizable(model)``. Names are unique in it: a value in the body of a Scan has its
    own name there, as in ``__lstm1_delta_product_h``. Values with a limit of their own (``h`` of an LSTM, the result
    of a sigmoid) are left out. A value that is only moved goes by the name of what it is moved from.
    """
    products = chosen_products(graph, options)
    bounds = value_bounds(graph)
    names: dict[str, None] = {}
    for scope in scopes(graph):
        placement = Placement.of(scope, products, options.precision, is_body=scope is not graph)
        writers = {value: node for node in scope.nodes for value in node.outputs}
        names.update(
            {measured_value(value, writers).name: None for value in placement.read if value not in bounds}
        )
    return [*names]


def measured_value(value: Value, writers: Mapping[Value, Node]) -> Value:
    """The value that holds the same numbers in another shape or order: a blob of the net rather than rows of it."""
    node = writers.get(value)
    while node is not None and isinstance(node.op, _SAME_NUMBERS) and node.inputs[0].data is None:
        value = node.inputs[0]
        node = writers.get(value)
    return value


def scopes(graph: Graph) -> Iterator[Graph]:
    """The graph, and the bodies of its Scans."""
    yield graph
    for node in graph.nodes:
        if isinstance(node.op, ops.Scan):
            yield from scopes(node.op.body)


def chosen_products(graph: Graph, options: RewriteOptions) -> list[Node]:
    """The products to be quantized: not those of ``keep_float``, and the delicate ones with ``quantize_all`` only.

    Delicate are the first convolutions (of the net's input), the last products (that no other product follows),
    and depthwise convolutions. Nor are those of ``slower_steps``.
    """
    kept = {*options.keep_float, *slower_steps(graph, options)}
    delicate: set[Node] = set()
    if not options.quantize_all:
        delicate = {*_first_convolutions(graph), *_last_products(graph), *_depthwise_convolutions(graph)}
    return [
        node
        for scope in scopes(graph)
        for node in scope.nodes
        if is_quantizable(node, options) and node not in delicate and node.origin.layer not in kept
    ]


def slower_steps(graph: Graph, options: RewriteOptions) -> dict[str, Node]:
    """By layer, the Scans of a single step that 8 bits would slow down.

    x and h are quantized by kernels of their own, which takes longer than reading few weights. None with
    ``quantize_all``, and none of ``keep_float``.
    """
    weights = Counter[str]()
    for scope in scopes(graph):
        for node in scope.nodes:
            if isinstance(node.op, PRODUCTS):
                weights[node.origin.layer] += sum(
                    value.array.size for value in node.inputs if value.data is not None
                )
    return {
        node.origin.layer: node
        for node in graph.nodes
        if isinstance(node.op, ops.Scan)
        and node.op.steps([value.shape for value in node.inputs]) == 1
        and weights[node.origin.layer] < _FEW_WEIGHTS
        and not options.quantize_all
        and node.origin.layer not in options.keep_float
    }


def is_quantizable(node: Node, options: RewriteOptions) -> bool:
    """Whether a node is a product of float32 that every backend can compute in 8 bits."""
    op = node.op
    if not isinstance(op, PRODUCTS) or node.inputs[0].dtype is not DType.FLOAT32:
        return False
    if options.precision.endswith("bf16") and isinstance(op, NOT_IN_BFLOAT16):
        return False
    if (
        isinstance(op, ops.Deconvolution)
        and max(op.stride, default=1) > 1
        and max(op.dilation, default=1) > 1
    ):
        return False  # TensorRT for RTX takes it only with zeros written into its weights
    constants = [value.data for value in node.inputs[:2] if value.data is not None]
    return len(constants) < 2 and all(np.isfinite(unbroadcast(data)).all() for data in constants)


def _first_convolutions(graph: Graph) -> Iterator[Node]:
    follows: set[Value] = set()
    for node in graph.nodes:
        is_first = follows.isdisjoint(node.inputs)
        if is_first and isinstance(node.op, (ops.Convolution, ops.Deconvolution)):
            yield node
        if not is_first or _has_product(node):
            follows.update(node.outputs)


def _last_products(graph: Graph) -> Iterator[Node]:
    leads: set[Value] = set()
    for node in reversed(graph.nodes):
        is_last = leads.isdisjoint(node.outputs)
        if is_last and isinstance(node.op, PRODUCTS):
            yield node
        if not is_last or _has_product(node):
            leads.update(node.inputs)


def _depthwise_convolutions(graph: Graph) -> Iterator[Node]:
    """Those whose results come from one channel each: channels with a small range lose nearly all their digits."""
    for node in graph.nodes:
        if (
            isinstance(node.op, (ops.Convolution, ops.Deconvolution))
            and node.op.group == node.inputs[0].shape[1] != 1
        ):
            yield node


def _has_product(node: Node) -> bool:
    """Whether a node is a product, or runs a body that has one."""
    bodies = [node.op.body] if isinstance(node.op, ops.Scan) else []
    return isinstance(node.op, PRODUCTS) or any(
        isinstance(each.op, PRODUCTS) for body in bodies for each in walk(body)
    )


@dataclass(slots=True)
class Placement:
    """Where the numbers of a graph, or of a body, become 8 bits wide.

    ``read`` are the values that are read in 8 bits: factors of products, and the ``residuals`` of sums.
    ``carried`` are the values that are 8 bits wide because the nodes that write them (ReLU, maximum pooling, Concat,
    Reshape, ...) compute in 8 bits. A value and what it is moved from share a scale: they are one group.
    """

    read: list[Value] = field(default_factory=list)
    residuals: dict[Node, Value] = field(default_factory=dict)
    carried: set[Value] = field(default_factory=set)
    _joined_to: dict[Value, Value] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: Graph,
        products: Collection[Node],
        precision: Precision,
        *,
        is_body: bool = False,
        without: Collection[Value] = (),
    ) -> Placement:
        """The placement for these products; ``precision`` says which nodes can compute in 8 bits.

        In the body of a Scan no sum is read in 8 bits: it is one of gates, or of state. No sum reads values
        ``without`` a scale in 8 bits.
        """
        placement = cls()
        chosen = set(products)
        writers = graph.writers()
        for node in graph.nodes:
            if node in chosen:
                placement._read([value for value in node.inputs[:2] if value.data is None])
        if not is_body:
            residuals = _residuals(graph, chosen)
            placement.residuals = {node: value for node, value in residuals.items() if value not in without}
            placement._read([*placement.residuals.values()])
        for value in placement.read:
            placement._carry(value, writers, precision)
        return placement

    def _read(self, values: Sequence[Value]) -> None:
        for value in values:
            if value not in self._joined_to:
                self.read.append(value)
                self._joined_to[value] = value

    def _carry(self, value: Value, writers: Mapping[Value, Node], precision: Precision) -> None:
        """Quantize what a value is moved from rather than the value."""
        pending = [value]
        while pending:
            moved = pending.pop()
            node = writers.get(moved)
            if moved not in self.carried and node is not None and carries(node, precision):
                self.carried.add(moved)
                for source in node.inputs:
                    self._join(moved, source)
                pending.extend(node.inputs)

    def _join(self, a: Value, b: Value) -> None:
        self._joined_to.setdefault(b, b)
        self._joined_to[self.group_of(b)] = self.group_of(a)

    def group_of(self, value: Value) -> Value:
        """The value that stands for all that share a scale with this one."""
        joined = self._joined_to
        while joined[value] is not value:
            joined[value] = joined[joined[value]]  # halves the way for the next time
            value = joined[value]
        return value


def carries(node: Node, precision: Precision) -> bool:
    """Whether a node moves or chooses among numbers, so that it can do so in 8 bits as well.

    float8 is not for moving: TensorRT has no ReLU and no pooling of it, and onnxruntime not even Reshape.
    """
    op = node.op
    is_move = isinstance(op, (*_MOVES, ops.MaxPool)) or (isinstance(op, ops.LeakyReLU) and op.slope == 0)
    return (is_move and precision.startswith("int8")) and all(
        value.data is None and value.dtype is DType.FLOAT32 for value in node.inputs
    )


def _residuals(graph: Graph, chosen: Collection[Node]) -> dict[Node, Value]:
    """For each sum that can be computed with a product, which is one of its summands, the other summand.

    Source: NVIDIA, "Working with Quantized Types", Q/DQ placement: quantize the residual input of a skip connection.
    """
    readers = graph.readers()
    alone = {
        value: place
        for place, node in enumerate(graph.nodes)
        if node in chosen
        for value in node.outputs
        if len(readers.get(value, ())) == 1 and value not in graph.outputs
    }
    residuals: dict[Node, Value] = {}
    for node in graph.nodes:
        if node.op == ops.ADD and not alone.keys().isdisjoint(node.inputs):
            a, b = node.inputs
            if a.data is None and b.data is None and a.shape == b.shape:
                residuals[node] = b if alone.get(a, -1) > alone.get(b, -1) else a
    return residuals

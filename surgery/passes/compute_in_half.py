"""Passes: compute products in float16, or in bfloat16."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

import numpy as np

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Array, DType, Graph, Node, Op, Value
from prototrt.surgery.ir.uniform_constants import map_elements, memory_of, unbroadcast
from prototrt.surgery.ops import Cast, Dequantize, Scan
from prototrt.surgery.passes.precision import NOT_IN_BFLOAT16, InHalf, in_half

FULL = DType.FLOAT32
LARGEST = float(np.finfo(np.float16).max)
"""65504. Larger numbers become infinite."""
SMALLEST = float(np.finfo(np.float16).smallest_normal)
"""2^-14. Smaller numbers have fewer than 11 digits, and none below 2^-25."""


def compute_in_half(graph: Graph) -> Graph:
    """Compute products in float16, and also the nodes that only move or combine their results.

    Before: ``p = MatMul(x, const w)``, ``y = TanH(p)``, ``z = Softmax(y)``, all float32
    After:  ``p = MatMul(Cast(x), const w)``, ``y = TanH(p)`` in float16, ``z = Softmax(Cast(y))`` in float32
    ``surgery/passes/precision.py`` states the rule for each primitive. In the body of a Scan only products
    are float16, because rounding errors add up from step to step. Weights are cast here.
    Left alone: inputs, outputs and the states of Scans, which stay float32; integers; a
    primitive with numbers that float16 cannot hold, which a warning reports.
    """
    return _compute_in(DType.FLOAT16, graph)


def compute_in_bfloat16(graph: Graph) -> Graph:
    """Compute products in bfloat16: as ``compute_in_half``, but bfloat16 holds all numbers of float32.

    Before: ``p = MatMul(x, const w)``, ``z = Softmax(p)``, all float32
    After:  ``p = MatMul(Cast(x), const w)`` in bfloat16, ``z = Softmax(Cast(p))`` in float32
    Left alone: inputs, outputs and the states of Scans, which stay float32; integers; a Deconvolution.
    """
    return _compute_in(DType.BFLOAT16, graph)


def _compute_in(dtype: DType, graph: Graph) -> Graph:
    build = Builder(names_in(graph))
    half = _HalfNodes(build, HalfWeights(dtype), [*graph.outputs, *graph.state_outputs])
    half.rewrite(graph.nodes)
    if tuple(build.nodes) == graph.nodes and not build.warnings:
        return graph
    return replace(graph.with_nodes(build.nodes), warnings=(*graph.warnings, *build.warnings))


class _HalfNodes:
    """The nodes of a graph, or of a body, over values of other types.

    ``kept`` are values that code outside reads as float32. ``is_body``: the graph is the body of a Scan.
    """

    def __init__(
        self, build: Builder, weights: HalfWeights, kept: Iterable[Value] = (), *, is_body: bool = False
    ) -> None:
        self.build, self.weights, self.kept, self.is_body = build, weights, set(kept), is_body
        self.half = weights.dtype
        self.stands_for: dict[Value, Value] = {}
        self._casts: dict[tuple[Value, DType], Value] = {}

    def rewrite(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.build.origin = node.origin
            read = [self.stands_for.get(value, value) for value in node.inputs]
            if isinstance(node.op, Scan):
                self._add_scan(node, node.op, read)
            elif in_half(node) is InHalf.AS_IT_IS:
                self._write(node, node.op, read)
            elif in_half(node) is InHalf.SCALED:
                numbers, scale = read
                dtype = self.half if isinstance(node.op, Dequantize) else numbers.dtype
                self._write(node, node.op, [numbers, self.cast(scale, dtype)])
            else:
                dtype = self._working_type(node, read)
                self._write(node, node.op, [self.cast(value, dtype) for value in read])

    def cast(self, value: Value, dtype: DType) -> Value:
        """A value as this floating-point type, cast at most once. Other types are not changed."""
        if value.dtype is dtype or value.dtype not in (self.half, FULL):
            return value
        if value.is_constant and dtype is self.half:
            return self.weights.of(value)
        if (value, dtype) not in self._casts:
            self._casts[value, dtype] = self.build.cast(value, dtype)
        return self._casts[value, dtype]

    def _working_type(self, node: Node, read: Sequence[Value]) -> DType:
        kind = in_half(node)
        if self.half is DType.BFLOAT16 and isinstance(node.op, NOT_IN_BFLOAT16):
            return FULL
        varying = [
            value.dtype for value in read if not value.is_constant and value.dtype in (self.half, FULL)
        ]
        follows_half = kind is InHalf.FOLLOWS and not self.is_body and varying and FULL not in varying
        if kind is not InHalf.PRODUCT and not follows_half:
            return FULL
        constants = [value for value in read if value.is_constant and value.dtype is FULL]
        beside = any(not read[position].is_constant for position in node.op.weights)
        is_narrow = self.half is DType.FLOAT16
        reason = precision_loss(node.op, constants, beside_weights=beside) if is_narrow else None
        if reason is None:
            return self.half
        self.build.warn(f"stays in float32: {reason}")
        return FULL

    def _write(self, node: Node, op: Op, read: Sequence[Value]) -> None:
        """The node with other inputs. The types of its outputs follow from them."""
        dtypes = op.dtypes(*(value.dtype for value in read))
        pairs = list(zip(node.outputs, dtypes, strict=True))
        outputs = [self._output(value, dtype) for value, dtype in pairs]
        if node.op is not op or tuple(read) != node.inputs or tuple(outputs) != node.outputs:
            node = replace(node, op=op, inputs=tuple(read), outputs=tuple(outputs))
        self.build.nodes.append(node)
        for (old, _), new in zip(pairs, outputs, strict=True):
            if old is not new:
                self._stand_for(old, new)

    def _output(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        if value in self.kept:
            value = replace(value, name=self.build.fresh("half"), is_surgical=True)
        return replace(value, dtype=dtype)

    def _stand_for(self, old: Value, new: Value) -> None:
        """Make the readers of a value read it in 16 bits. Readers outside get it cast back."""
        self.stands_for[old] = new
        if old in self.kept:
            name = self.build.fresh("full")
            cast = Node(name, Cast(FULL), (new,), (old,), self.build.origin, is_surgical=True)
            self.build.nodes.append(cast)
            self._casts[new, FULL] = old

    def _add_scan(self, node: Node, scan: Scan, read: Sequence[Value]) -> None:
        scan_inputs = scan.named_inputs(read)
        inputs = tuple(
            replace(scan_inputs, states=tuple(self.cast(value, FULL) for value in scan_inputs.states))
        )
        body = self._body(scan, inputs)
        self._write(node, scan if body is scan.body else replace(scan, body=body), inputs)

    def _body(self, scan: Scan, outside: Sequence[Value]) -> Graph:
        inner = _HalfNodes(self.build.body(), self.weights, is_body=True)
        inputs = [
            value if value.dtype is outer.dtype else replace(value, dtype=outer.dtype)
            for value, outer in zip(scan.body.inputs, outside, strict=True)
        ]
        inner.stands_for.update(zip(scan.body.inputs, inputs, strict=True))
        inner.rewrite(scan.body.nodes)
        results = scan.named_outputs([inner.stands_for.get(value, value) for value in scan.body.outputs])
        inner.build.origin = self.build.origin
        states = tuple(inner.cast(value, FULL) for value in results.states)
        nodes, outputs = tuple(inner.build.nodes), tuple(replace(results, states=states))
        if (tuple(inputs), nodes, outputs) == (scan.body.inputs, scan.body.nodes, scan.body.outputs):
            return scan.body
        return replace(scan.body, inputs=tuple(inputs), nodes=nodes, outputs=outputs)


class HalfWeights:
    """Casts each constant to float16 or bfloat16 once, even if several nodes read it."""

    def __init__(self, dtype: DType = DType.FLOAT16) -> None:
        self.dtype = dtype
        self._cast: dict[tuple[object, ...], Array] = {}

    def of(self, value: Value) -> Value:
        """The constant in 16 bits."""
        key = memory_of(value.array)
        if key not in self._cast:
            with np.errstate(all="ignore"):  # NaN and infinity are reported when weights are read
                self._cast[key] = map_elements(self._round, value.array)
        return replace(value, dtype=self.dtype, data=self._cast[key])

    def _round(self, array: Array) -> Array:
        return array.astype(self.dtype.numpy)


def precision_loss(op: Op, constants: Sequence[Value], *, beside_weights: bool = False) -> str | None:
    """The damage that float16 would do to the constants of a primitive, or None.

    ``beside_weights``: the constants are added to what weights of 8 bits make, so that small ones may lose digits.
    """
    largest = max([0.0, *map(_largest, constants)])
    largest = max([largest, *(_magnitude(op, item.name) for item in fields(op))])
    if largest > LARGEST:
        return f"float16 ends at {LARGEST:.0f}, and some numbers here reach {largest:.3g}"
    if 0 < largest < SMALLEST and not beside_weights:
        return f"float16 loses digits below {SMALLEST:.2g}, and the largest number here is {largest:.2g}"
    return None


def _largest(value: Value) -> float:
    """The largest magnitude of finite numbers."""
    data = unbroadcast(value.array)
    largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    return largest if np.isfinite(largest) else float(np.abs(data[np.isfinite(data)]).max(initial=0))


def _magnitude(op: Op, name: str) -> float:
    """For an attribute that is a float. A whole number counts places; an infinite one is also infinite in float16."""
    attribute = getattr(op, name)
    is_number = isinstance(attribute, float) and np.isfinite(attribute)
    return abs(attribute) if is_number else 0.0

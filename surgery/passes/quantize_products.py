"""Pass: read the factors of products in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Array, DType, Graph, Node, Op, Value
from prototrt.surgery.ir.uniform_constants import is_broadcast, map_elements, unbroadcast
from prototrt.surgery.ops import Convolution, Deconvolution, Dequantize, MatMul, Quantize, Scan
from prototrt.surgery.ops.quantize import LARGEST
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.passes.quantization_placement import (
    Placement,
    carries,
    chosen_products,
    measured_value,
    scopes,
    slower_steps,
)
from prototrt.surgery.passes.value_bounds import value_bounds


def quantize_products(graph: Graph, ranges: Mapping[str, float], options: RewriteOptions) -> Graph:
    """Quantize the factors of products; the primitives that compute and the results stay what they are.

    Before: ``y = MatMul(x, const w)``
    After:  ``y = MatMul(Dequantize(Quantize(x, s)), Dequantize(const w8, s_w))``
    ``ranges`` has the largest magnitude of each of the ``quantized_values``; it becomes 127, or 448 of float8. Weights
    have a scale for each channel of the result. There is one Quantize for all readers of a value, before Concat,
    Reshape, ReLU and maximum pooling. The other summand of a residual sum is quantized as well.
    Left alone: the first convolution, the last product and depthwise convolutions without ``quantize_all``,
    ``keep_float``, and, with a warning, single steps that it would slow down and products whose inputs have no range.
    """
    build = Builder(names_in(graph))
    scheme = _Scheme.of(options)
    for node in slower_steps(graph, options).values():
        build.origin = node.origin
        build.warn(
            Worded(
                "is not quantized: 8 bits add kernels to a single step of few weights, which makes it slower;"
                " {} quantizes it",
                Option("quantize_all"),
            )
        )
    chosen = _Quantization.of(graph, ranges, options, build)
    nodes = _QuantizedNodes(build, graph, chosen, scheme).rewrite()
    if not chosen.products and not build.warnings:
        return graph
    return replace(graph.with_nodes(nodes), warnings=(*graph.warnings, *build.warnings))


@dataclass(frozen=True, slots=True)
class _Scheme:
    """The type of 8 bits, and the type of the numbers around it, which scales must fit into."""

    to: DType
    around: DType

    @classmethod
    def of(cls, options: RewriteOptions) -> _Scheme:
        eight, _, sixteen = options.precision.partition(",")
        to = DType.FLOAT8 if eight == "fp8" else DType.INT8
        return cls(to, DType.BFLOAT16 if sixteen == "bf16" else DType.FLOAT16)

    def scale(self, largest: Array) -> Array:
        """The scale for these largest magnitudes, as a number of 16 bits, which is not 0."""
        with np.errstate(over="ignore"):
            scales = np.where(largest > 0, largest / np.float32(LARGEST[self.to]), np.float32(1))
        if self.around is DType.FLOAT16:
            half = np.finfo(np.float16)
            scales = np.clip(scales, half.smallest_subnormal, half.max)
        return np.asarray(scales, self.around.numpy).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Quantization:
    """The products to quantize, and for each graph and body where and by which largest magnitudes."""

    products: frozenset[Node]
    placements: Mapping[Graph, Placement]
    largest: Mapping[Graph, Mapping[Value, float]]
    """By the value that stands for all that share a scale."""

    @classmethod
    def of(
        cls, graph: Graph, ranges: Mapping[str, float], options: RewriteOptions, build: Builder
    ) -> _Quantization:
        """As many products as there are ranges for: without one, others may have to do without theirs, too."""
        chosen, bounds = chosen_products(graph, options), value_bounds(graph)
        unknown: dict[Value, str] = {}
        while True:
            products = frozenset(node for node in chosen if unknown.keys().isdisjoint(node.inputs))
            placements = {
                scope: Placement.of(
                    scope, products, options.precision, is_body=scope is not graph, without=unknown
                )
                for scope in scopes(graph)
            }
            largest = {scope: dict[Value, float]() for scope in placements}
            lost = dict[Value, str]()
            for scope, placement in placements.items():
                lost |= _measure(placement, _Ranges(scope, ranges, bounds), largest[scope])
            if not lost:
                break
            unknown |= lost
        for node in chosen:
            _warn_of_unknown(build, node, unknown)
        return cls(products, placements, largest)


def _measure(placement: Placement, ranges: _Ranges, largest: dict[Value, float]) -> dict[Value, str]:
    """Add the largest magnitude of each group of values to ``largest``. The values without a range, and their names."""
    lost: dict[Value, str] = {}
    for value in placement.read:
        magnitude, group = ranges.of(value), placement.group_of(value)
        if magnitude is None:
            lost[value] = ranges.name(value)
        else:
            largest[group] = max(magnitude, largest.get(group, 0.0))
    return lost


def _warn_of_unknown(build: Builder, node: Node, unknown: Mapping[Value, str]) -> None:
    for name in dict.fromkeys(unknown[value] for value in node.inputs if value in unknown):
        build.origin = node.origin
        build.warn(Worded('is not quantized: there is no scale for its input "{}"', name))


class _Ranges:
    """The largest magnitudes of the values of one graph or body."""

    def __init__(self, graph: Graph, by_name: Mapping[str, float], bounds: Mapping[Value, float]) -> None:
        self.by_name, self.bounds = by_name, bounds
        self.writers = graph.writers()
        self._chosen: dict[Value, float] = {}
        for node in graph.nodes:
            if carries(node, "int8"):
                magnitudes = [each for each in map(self.of, node.inputs) if each is not None]
                if len(magnitudes) == len(node.inputs):
                    self._chosen[node.outputs[0]] = max(magnitudes)

    def name(self, value: Value) -> str:
        return measured_value(value, self.writers).name

    def of(self, value: Value) -> float | None:
        """By its name, or a bound, or that of what the value is chosen from."""
        for name in (value.name, self.name(value)):
            if name in self.by_name:
                return float(self.by_name[name])
        return self.bounds.get(value, self._chosen.get(value))


class _QuantizedNodes:
    """The nodes of a graph, or of a body, with 8 bits between them."""

    def __init__(self, build: Builder, graph: Graph, chosen: _Quantization, scheme: _Scheme) -> None:
        self.build, self.graph, self.chosen, self.scheme = build, graph, chosen, scheme
        self.placement, self.largest = chosen.placements[graph], chosen.largest[graph]
        self.writers = graph.writers()
        self._eight: dict[Value, Value] = {}
        self._read: dict[Value, Value] = {}
        self._weights: dict[tuple[int, int], Value] = {}

    def rewrite(self) -> list[Node]:
        for node in self.graph.nodes:
            self.build.origin = node.origin
            if isinstance(node.op, Scan):
                self.build.nodes.append(self._scan(node, node.op))
            else:
                self.build.nodes.append(self._node(node))
        return self.build.nodes

    def _scan(self, node: Node, scan: Scan) -> Node:
        inner = _QuantizedNodes(self.build.body(), scan.body, self.chosen, self.scheme)
        nodes = tuple(inner.rewrite())
        if nodes == scan.body.nodes:
            return node
        return replace(node, op=replace(scan, body=scan.body.with_nodes(nodes)))

    def _node(self, node: Node) -> Node:
        if node in self.chosen.products:
            axis = _output_axes(node.op, node.inputs)
            factors = [
                self._read_in_8_bits(value) if value.data is None else self._weight(value, axis[place])
                for place, value in enumerate(node.inputs[:2])
            ]
            return replace(node, inputs=(*factors, *node.inputs[2:]))
        residual = self.placement.residuals.get(node)
        if residual is None:
            return node
        return node.with_replacements({residual: self._read_in_8_bits(residual)})

    def _read_in_8_bits(self, value: Value) -> Value:
        """The value as products read it: quantized and dequantized, once for all readers."""
        if value not in self._read:
            numbers, scale = self._numbers_in_8_bits(value), self._scale_of(value)
            with self._origin_of_writer(value):
                self._read[value] = self.build.add(Dequantize(), numbers, scale, hint="dequantized")
        return self._read[value]

    def _numbers_in_8_bits(self, value: Value) -> Value:
        pending = [value]
        while pending:
            each = pending[-1]
            is_carried = each in self.placement.carried and each in self.writers
            sources = self.writers[each].inputs if is_carried else ()
            if missing := [source for source in sources if source not in self._eight]:
                pending.extend(reversed(missing))
                continue
            pending.pop()
            if each not in self._eight:
                self._eight[each] = self._add_in_8_bits(each, [self._eight[source] for source in sources])
        return self._eight[value]

    def _add_in_8_bits(self, value: Value, sources: Sequence[Value]) -> Value:
        """What writes a value in 8 bits: the same as before, from sources in 8 bits, or a Quantize."""
        with self._origin_of_writer(value):
            if sources:
                return self.build.add(self.writers[value].op, *sources, hint="in_8_bits")
            return self.build.add(Quantize(self.scheme.to), value, self._scale_of(value), hint="quantized")

    @contextmanager
    def _origin_of_writer(self, value: Value) -> Iterator[None]:
        """New nodes belong to the layer that writes a value, or for an input to the layer that reads it."""
        reader = self.build.origin
        self.build.origin = self.writers[value].origin if value in self.writers else reader
        yield
        self.build.origin = reader

    def _scale_of(self, value: Value) -> Value:
        largest = np.asarray(self.largest[self.placement.group_of(value)], np.float32)
        return self.build.constant(self.scheme.scale(largest), "scale")

    def _weight(self, value: Value, axis: int) -> Value:
        key = id(value.array), axis
        if key not in self._weights:
            scale, numbers = _weights_in_8_bits(value.array, axis, self.scheme)
            hint = value.name.removeprefix(f"__{self.build.origin.layer}_")
            constants = self.build.constant(numbers, hint), self.build.constant(scale, "scales")
            self._weights[key] = self.build.add(Dequantize(axis), *constants, hint=f"{hint}_dequantized")
        return self._weights[key]


def _output_axes(op: Op, inputs: Sequence[Value]) -> list[int]:
    """For both factors of a product, the axis that is an axis of the result: its channels, or rows and columns."""
    if isinstance(op, Convolution):
        return [1, 0]
    if isinstance(op, Deconvolution):
        return [1, 1]
    assert isinstance(op, MatMul)
    rank = len(inputs[0].shape)
    return [rank - 2, rank - 2 if op.transpose_b else rank - 1]


def _weights_in_8_bits(data: Array, axis: int, scheme: _Scheme) -> tuple[Array, Array]:
    """One scale for each element of the axis, and the numbers of 8 bits; both ends of the range are used alike."""
    count, others = data.shape[axis], tuple(other for other in range(data.ndim) if other != axis)
    if is_broadcast(data):
        largest = np.broadcast_to(np.abs(unbroadcast(data)).reshape(()), (count,))
    else:
        largest = np.maximum(data.max(others, initial=0), -data.min(others, initial=0))
    scale = map_elements(scheme.scale, largest)
    aligned = unbroadcast(scale).reshape(-1, *(1,) * (data.ndim - 1 - axis))
    limit, op = LARGEST[scheme.to], Quantize(scheme.to)

    def numbers(weights: Array, scales: Array) -> Array:
        (rounded,) = op.evaluate(np.clip(weights / scales, -limit, limit), np.ones((), np.float32))
        return rounded

    return scale, map_elements(numbers, data, np.broadcast_to(aligned, data.shape))

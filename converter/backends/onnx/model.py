"""An ONNX model in the making: every value named once, every node with its origin, weights by reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import Origin, UnsupportedLayerError
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.onnx.api import ELEMENT_TYPES, import_package
from prototrt.converter.backends.sizes import ComputedSize
from prototrt.surgery.ir import Array, DType, Graph, Node, Shape, Size, Value, fixed, walk
from prototrt.surgery.ir.shapes import symbol_sources

Proto: TypeAlias = Any
"""One of ONNX's messages: the types that onnx ships for them say little."""


_SMALL = 256
"""Bytes of an array that is worth looking at to see whether there is one like it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """The name of a value in ONNX, and the facts of the graph about it."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)


class OnnxModel:
    """Nodes and weights of a model, under names that are unique in it and in all its bodies.

    Arrays handed over are referenced, not copied; those that hold the same are one initializer.
    """

    def __init__(self, graph: Graph, opset: int) -> None:
        self.helper = import_package("onnx.helper")
        self.opset = opset
        self.primitives = len([*walk(graph)])
        """The number of nodes, including those in bodies."""
        self.nodes: list[Proto] = []
        self._outermost = self.nodes
        self._inputs = graph.inputs
        self._symbols: dict[str, ComputedSize[str]] = {}
        self._open_sizes: dict[str, ComputedSize[str]] = {}
        self.weights: dict[str, Array] = {}
        self._shared: dict[tuple[object, ...], str] = {}
        self._names: dict[Value, str] = {}
        # Inputs and outputs keep their names, even if other values have the same names.
        self._free_names = Names(value.name for value in (*graph.inputs, *graph.outputs))
        self._names.update({value: value.name for value in (*graph.inputs, *graph.outputs)})
        self._name, self._doc, self._count = "", "", 0
        self._origin: Origin | None = None
        self.domains: set[str] = set()
        """The domains of operators that ONNX does not define."""
        self.origins: dict[str, Origin] = {}
        """The origins of the nodes, by their names."""

    def add(self, kind: str, *inputs: Tensor | str, **attributes: Any) -> str:
        """A node with one output; the output's name."""
        (output,) = self.add_all(kind, inputs, 1, **attributes)
        return output

    def add_all(
        self, kind: str, inputs: Sequence[Tensor | str], outputs: int, **attributes: Any
    ) -> list[str]:
        """A node; the names of its outputs. An input ``""`` is left out."""
        names = [item if isinstance(item, str) else item.name for item in inputs]
        written = [self.unique(f"{self._name}_{kind}") for _ in range(outputs)]
        self._count += 1
        name = self._name if self._count == 1 else f"{self._name}#{self._count}"
        if self._origin is not None:
            self.origins[name] = self._origin
        self.nodes.append(
            self.helper.make_node(kind, names, written, name=name, doc_string=self._doc, **attributes)
        )
        return written

    def require_opset(self, lowest: int, what: str) -> None:
        """Raise ``UnsupportedLayerError`` unless the opset has what the node at hand needs."""
        if self.opset < lowest:
            raise opset_error(self.opset, lowest, what, self._origin)

    def tensor(self, value: Value) -> Tensor:
        """A value by its name; a constant becomes an initializer when it is first asked for."""
        if value.data is not None and value not in self._names:
            self._names[value] = self.array(value.data, value.name)
        return Tensor(self.name(value), value.dtype, value.shape)

    def name(self, value: Value) -> str:
        """The name of a value, the same at each call."""
        if value not in self._names:
            self._names[value] = self.unique(value.name)
        return self._names[value]

    def alias(self, value: Value, tensor: Tensor) -> None:
        """Let a value be what this tensor is."""
        self._names[value] = tensor.name

    def array(self, array: Array, hint: str = "") -> str:
        """The name of an initializer that holds the array."""
        key = _identity(array)
        if key not in self._shared:
            self._shared[key] = self.unique(hint or f"{self._name}_constant")
            self.weights[self._shared[key]] = array
        return self._shared[key]

    def integers(self, *numbers: int) -> str:
        """A vector of sizes or positions, as ONNX needs them: int64."""
        return self.array(np.array(numbers, np.int64))

    def scalar(self, number: float, dtype: DType) -> str:
        """A constant without axes."""
        return self.array(np.array(number, dtype.numpy))

    def sizes(self, tensor: Tensor, axes: Sequence[int]) -> str:
        """The sizes of these axes of a tensor, as a vector, whether they are known or not."""
        if all(isinstance(tensor.shape[axis], int) for axis in axes):
            return self.integers(*(fixed(tensor.shape[axis], "a size") for axis in axes))
        return self.add("Gather", self.add("Shape", tensor), self.integers(*axes))

    def size(self, dim: Size) -> str:
        """A size as a vector of one number, whether it is known or not. Made once, outside all bodies."""
        inside, self.nodes = self.nodes, self._outermost
        try:
            return self._size(dim).size
        finally:
            self.nodes = inside

    def size_vector(self, sizes: Sequence[Size]) -> str:
        """Several sizes as a vector, whether they are known or not."""
        fixed_sizes = [size for size in sizes if isinstance(size, int)]
        if len(fixed_sizes) == len(sizes):
            return self.integers(*fixed_sizes)
        return self.add("Concat", *map(self.size, sizes), axis=0)

    def _size(self, dim: Size) -> ComputedSize[str]:
        if isinstance(dim, int):
            return ComputedSize(self.integers(dim), self._combine)
        if dim not in self._open_sizes:
            symbols = {name: self._symbol(name) for name in dim.symbols}
            self._open_sizes[dim] = dim.at(symbols)
        return self._open_sizes[dim]

    def _symbol(self, name: str) -> ComputedSize[str]:
        """The size of an axis of an input, read once."""
        if name not in self._symbols:
            source = symbol_sources(self._inputs)[name]
            size = ComputedSize(self.sizes(self.tensor(source.input), [source.axis]), self._combine)
            self._symbols[name] = source.solve(size)
        return self._symbols[name]

    def _combine(self, operation: str, left: str, right: str | int) -> str:
        """The name of a computed size. ONNX cuts fractions off, which rounds down what is not negative."""
        kind = {"+": "Add", "*": "Mul", "//": "Div"}[operation]
        return self.add(kind, left, self.integers(right) if isinstance(right, int) else right)

    def info(self, value: Value, name: str | None = None) -> Proto:
        """Name, element type and shape of a value, as inputs and outputs are described."""
        kind = ELEMENT_TYPES[value.dtype]
        return self.helper.make_tensor_value_info(name or self.name(value), kind, list(value.shape))

    def unique(self, hint: str) -> str:
        """The name, or the name with a number; taken from now on."""
        return self._free_names.free(hint)

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Nodes made inside belong to this node of the graph."""
        outer = self._name, self._doc, self._count, self._origin
        origin = node.origin
        self._name, self._count, self._origin = node.name, 0, origin
        self._doc = f"{origin.layer} ({origin.type}), line {origin.line}" if origin.layer else ""
        try:
            yield
        finally:
            self._name, self._doc, self._count, self._origin = outer

    @contextmanager
    def body(self) -> Iterator[list[Proto]]:
        """Nodes made inside belong to a body of their own, which is given."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer


def opset_error(opset: int, lowest: int, what: str, origin: Origin | None) -> UnsupportedLayerError:
    """What an opset cannot say."""
    return UnsupportedLayerError(
        f"needs {what}, which ONNX has from opset {lowest} on",
        origin=origin,
        because=f"the model is written in opset {opset}",
        fix=Worded("use {}", Option("opset", lowest)),
    )


def _identity(array: Array) -> tuple[object, ...]:
    """Equal for arrays that hold the same: small ones by their bytes, others by the memory they view."""
    if array.nbytes <= _SMALL:
        return array.shape, array.dtype, array.tobytes()
    return array.shape, array.dtype, array.strides, array.__array_interface__["data"][0]

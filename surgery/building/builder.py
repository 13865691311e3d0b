"""Making a graph, node by node: names, origins, types and constants in one place."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar
from weakref import ref

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, Origin
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery import ops
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.ir import (
    Array,
    AtMost,
    DataSize,
    Dim,
    DType,
    Graph,
    Node,
    Op,
    OpenSize,
    Range,
    Recurrence,
    Shape,
    Size,
    Value,
    bodies,
    fixed,
    walk,
)
from prototrt.surgery.ir.lengths import SEGMENTS, Segments
from prototrt.surgery.ir.uniform_constants import MOST_WRITTEN_OUT, concatenate, is_broadcast

_Made = TypeVar("_Made", bound=Value)


class Builder:
    """Collects nodes. Every node gets the origin of the layer that is being expanded.

    A node that is not in the prototxt is called ``__LAYER_HINT``, and never takes one of the
    names that are ``reserved`` for the user's blobs, or one of the user's ``layers``. ``body()``
    returns a builder for a Scan's body. Both draw from the same names.
    """

    def __init__(self, reserved: Iterable[str] = (), layers: Iterable[str] = ()) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.depth = 0
        """How many bodies this one is in."""
        self.outside: dict[Value, Value] = {}
        """What the values of ``from_outside`` stand for."""
        self.latest: Value | None = None
        """What the last step wrote; None if it needed no node, or was named."""
        # By value: which node writes it, and which read it, as places in the list.
        self._writers: dict[Value, int] = {}
        self._readers: dict[Value, list[int]] = {}
        self._listed: set[Value] = set()  # those of recurrences and counts
        self._segments: list[Segments] = []
        self.recurrences: list[Recurrence] = []
        self.exposed: list[Recurrence] = []
        self.counts: dict[str, Value] = {}
        """Values that hold how many elements count along axes of a size ``AtMost``, by the name of their output."""
        self.symbols: dict[str, Range] = {}
        self.warnings: list[str] = []
        self._warned: set[str] = set()  # about layers
        self.origin = Origin("", 0, "", "")
        self._layers = frozenset(layers)
        self._names = Names(reserved)
        self._node_names = Names()
        self._myself = ref(self)

    def body(self) -> Builder:
        """A builder for the body of a Scan in the layer at hand."""
        inner = Builder()
        inner.origin, inner._names, inner._node_names = self.origin, self._names, self._node_names
        inner._layers, inner.depth = self._layers, self.depth + 1
        inner.warnings, inner._warned = self.warnings, self._warned
        return inner

    def _value(
        self, name: str, dtype: DType, shape: Shape, data: Array | None = None, *, is_surgical: bool = True
    ) -> Expression:
        return Expression(name, dtype, shape, data, is_surgical, builder=self._myself)

    def from_outside(self, value: Value) -> Expression:
        """A value from outside of this body, whose formulas add their nodes here."""
        here = self._value(value.name, value.dtype, value.shape, value.data, is_surgical=value.is_surgical)
        self.outside[here] = value
        return here

    def input(self, name: str, shape: Shape, dtype: DType = DType.FLOAT32) -> Expression:
        """A new input of the graph, under the name that the user gave it."""
        value = self._value(name, dtype, shape, is_surgical=False)
        self.inputs.append(value)
        return value

    def state_input(self, name: str, shape: Shape) -> Expression:
        """A new input of the graph for state that a caller carries from call to call."""
        return self.input(self._names.free(name), shape)

    def body_input(self, hint: str, shape: Shape, dtype: DType = DType.FLOAT32) -> Expression:
        """A new input of a Scan's body, named after the layer."""
        value = self._value(self.fresh(hint), dtype, shape)
        self.inputs.append(value)
        return value

    def constant(self, array: Array, hint: str = "constant") -> Expression:
        """A value known now. The array is kept, not copied."""
        array = np.asarray(array)
        return self._value(self.fresh(hint), DType.of(array.dtype), array.shape, array)

    def stacked(self, arrays: Sequence[Array], hint: str) -> Expression:
        """Rows of several arrays: a constant, or a Concat where they are many and repeat a few numbers."""
        rows = sum(map(len, arrays))
        if rows <= MOST_WRITTEN_OUT or not all(map(is_broadcast, arrays)):
            return self.constant(concatenate(arrays), hint)
        return self.add(ops.Concat(0), *(self.constant(array, hint) for array in arrays), hint=hint)

    def counted_numbers(
        self, size: Size, hint: str, *, first: Size = 0, step: Size = 1, dtype: DType = DType.INT32
    ) -> Expression:
        """``first``, ``first + step``, ...: (``size``,). A constant, unless one of the sizes varies."""
        if isinstance(size, int) and isinstance(first, int) and isinstance(step, int):
            return self.constant((first + step * np.arange(size)).astype(dtype.numpy), hint)
        return self.cast(self.add(ops.Count(size, first, step), hint=hint), dtype)

    def scalar(self, number: float | OpenSize, rank: int, dtype: DType = DType.FLOAT32) -> Expression:
        """A number, or a size that varies, that broadcasts against any shape of this rank."""
        if isinstance(number, OpenSize):
            size = self.counted_numbers(1, "size", first=number, dtype=dtype)
            return self.reshape(size, (1,) * rank)
        return self.constant(np.full((1,) * rank, number, dtype.numpy), "scalar")

    def add(self, op: Op, *inputs: Value, hint: str | None = None) -> Expression:
        """Add a node with one output and return that output."""
        (output,) = self.add_all(op, *inputs, hint=hint)
        return output

    def add_all(self, op: Op, *inputs: Value, hint: str | None = None) -> list[Expression]:
        """Add a node and return all its outputs. Shape errors get the layer's origin."""
        for position in op.constants:
            assert inputs[position].is_constant, f"input {position} of {op} must be constant"
        try:
            shapes = op.shape(*(value.shape for value in inputs))
        except ConversionError as error:
            error.origin = error.origin or self.origin
            raise
        dtypes = op.dtypes(*(value.dtype for value in inputs))
        name = self.fresh(hint or _snake(type(op).__name__))
        outputs = [
            self._value(name if index == 0 else f"{name}:{index}", dtype, shape)
            for index, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True))
        ]
        place = len(self.nodes)
        self.nodes.append(Node(name, op, inputs, tuple(outputs), self.origin, is_surgical=True))
        self._writers.update(dict.fromkeys(outputs, place))
        for value in inputs:
            self._readers.setdefault(value, []).append(place)
        self.latest = outputs[0]
        return outputs

    def rename_last(self, value: _Made, hint: str) -> _Made:
        """Name the node that was added last after another hint. Nothing has read its ``value`` yet."""
        node = self.nodes[-1]
        assert node.outputs == (value,), f"{value.name} is not new"
        assert value not in self._readers, f"{value.name} was read under this name"
        self._names.take_back(value.name)
        renamed = replace(value, name=self.fresh(hint))
        self.nodes[-1] = replace(node, name=renamed.name, outputs=(renamed,))
        self._writers[renamed], self.latest = self._writers.pop(value), None
        return renamed

    def writer(self, value: Value) -> Node | None:
        """The node that writes the value; None for inputs and constants."""
        place = self._writers.get(value)
        return None if place is None else self.nodes[place]

    def expect_segments(self, lengths: Value, size: Dim) -> None:
        """Say that a value holds the lengths of segments, which add up to the size of an axis.

        Constants are checked at once: raises ``ShapeError``. Sessions check inputs before anything runs. Lengths
        that the net itself computes are not checked.
        """
        while (node := self.writer(lengths)) is not None and isinstance(
            node.op, (ops.Cast, ops.Identity, ops.Reshape)
        ):
            lengths = node.inputs[0]
        if lengths.data is not None and isinstance(size, int):
            SEGMENTS.refuse_outside(lengths.data, size)
        elif lengths in self.inputs:
            self._segments.append(Segments(lengths.name, size, self.origin))

    def reshape(self, x: _Made, shape: Shape, hint: str | None = None) -> _Made | Expression:
        """``x`` in another shape, or ``x`` itself. A size that varies is copied from ``x`` if ``x`` has it."""
        if x.shape == shape:
            return x
        target = tuple(dim if isinstance(dim, int) else _copy_size(x, dim) for dim in shape)
        if x.data is None:
            return self.add(ops.Reshape(target), x, hint=hint)
        (sizes,) = ops.Reshape(target).shape(x.shape)
        return replace(
            x, shape=sizes, data=x.data.reshape([fixed(dim, "a constant's size") for dim in sizes])
        )

    def aligned(self, x: _Made, rank: int, axis: int | None = None) -> _Made | Expression:
        """``x`` with ones around its shape, so that it broadcasts against ``rank`` axes.

        Its first axis meets axis ``axis``; by default its last one meets the last.
        """
        first = rank - len(x.shape) if axis is None else axis
        return self.reshape(x, (*(1,) * first, *x.shape, *(1,) * (rank - first - len(x.shape))))

    def product(
        self, x: Value, weights: Value, *, transpose: bool = False, hint: str | None = None
    ) -> Expression:
        """``x W^T`` over the last axis of x, for weights W (outputs, inputs) as Caffe stores them.

        ``transpose`` takes weights (inputs, outputs): ``x W``.
        """
        rows = self.aligned(weights, len(x.shape))
        return self.add(ops.MatMul(transpose_b=not transpose), x, rows, hint=hint)

    def gathered(self, table: Value, index: Value, axis: int) -> Expression:
        """The elements that the index picks along an axis. The axes of the index replace that axis."""
        others, count = [other for other in range(len(table.shape)) if other != axis], len(index.shape)
        rows = self.add(ops.Transpose((axis, *others)), table, hint="rows")
        picked = self.add(ops.Gather(), rows, index, hint="picked")
        # The axes of the index come first, but they belong where the axis was.
        before, behind = range(count, count + axis), range(count + axis, len(picked.shape))
        return self.add(ops.Transpose((*before, *range(count), *behind)), picked)

    def scaled(self, x: _Made, factor: float) -> _Made | Expression:
        """``x * factor``, or ``x`` itself."""
        return x if factor == 1 else self.add(ops.MULTIPLY, x, self.scalar(factor, len(x.shape)))

    def shifted(self, x: _Made, summand: float) -> _Made | Expression:
        """``x + summand``, or ``x`` itself."""
        return x if summand == 0 else self.add(ops.ADD, x, self.scalar(summand, len(x.shape)))

    def broadcast(self, x: _Made, shape: tuple[Size, ...], hint: str | None = None) -> _Made | Expression:
        """``x`` repeated to this shape along axes where it has one element. A constant, unless a size varies."""
        sizes = tuple(dim for dim in shape if isinstance(dim, int))
        if x.data is not None and len(sizes) == len(shape):
            return replace(x, shape=shape, data=np.broadcast_to(x.data, sizes))
        repeated: _Made | Expression = x
        for axis, dim in enumerate(shape):
            if dim != x.shape[axis]:
                repeated = self.add(ops.Tile(axis, dim), repeated, hint=hint)
        return repeated

    def cast(self, x: _Made, dtype: DType) -> _Made | Expression:
        """``x`` in another element type, or ``x`` itself."""
        return x if x.dtype is dtype else self.add(ops.Cast(dtype), x, hint=dtype.value)

    def state(self, name: str, before: Value, after: Value) -> None:
        """State: the caller feeds what ``after`` holds in one call into ``before`` of the next call.

        ``after`` becomes an output of the graph, called ``name``.
        """
        final = replace(after, name=self._names.free(name))
        self._substitute(after, final)
        self.recurrences.append(Recurrence(before, final))
        self._listed |= {before, final}

    def expose_state(self, before: Value, after: Value) -> None:
        """State that is an ordinary input and output of the net. The caller may feed it back.

        It is reported as a recurrence if both become an input and an output of the graph.
        """
        self.exposed.append(Recurrence(before, after, exposed=True))
        self._listed |= {before, after}

    def count(self, name: str, count: Value) -> str:
        """Make a number (1,) an output of the graph, next to what it counts, under this name or a similar one."""
        name = self._names.free(name)
        self.counts[name] = replace(count, name=name)
        self._listed.add(self.counts[name])
        self.write(count, self.counts[name], 0)
        return name

    def counted(self, x: _Made, axis: int, name: str) -> _Made:
        """``x``, but only the first elements along an axis count. The output ``name`` holds their number."""
        size = AtMost(fixed(x.shape[axis], "what is counted"), name)
        marked = replace(x, shape=(*x.shape[:axis], size, *x.shape[axis + 1 :]))
        self.write(x, marked, 0)
        return marked

    def warn(self, text: str) -> None:
        """Warn the user about the current layer. The conversion goes on."""
        line = Worded("{}: {}", self.origin, text) if self.origin.layer else text
        if line not in self._warned:
            self._warned.add(line)
            self.warnings.append(line)

    def named(self, value: Value, name: str, node_name: str, since: int) -> Expression:
        """Give ``value`` a name that the user knows. Its node gets the layer's name.

        ``since`` counts the nodes there were before the layer. A value that no node of
        the layer wrote (its bottom, a constant) is copied by an Identity.
        """
        renamed = self._value(name, value.dtype, value.shape, is_surgical=False)
        self.write(value, renamed, since, node_name)
        return renamed

    def write(self, value: Value, target: Value, since: int, layer: str | None = None) -> None:
        """Make the node that writes ``value``, a node from ``since`` on, write ``target`` instead.

        With ``layer``, a node that surgery added becomes the node of this user's layer and takes its name.
        """
        if self._writers.get(value, -1) < since:
            value = self.add(ops.Identity(), value)
        self._substitute(value, target, layer)

    def overwrite(self, old: Value, new: Value) -> Value:
        """A copy of ``new`` that replaces ``old``: it takes the name, and the state if ``old`` is one.

        Nodes that already read ``old`` still read it.
        """
        places = [index for index, pair in enumerate(self.recurrences) if pair.output is old]
        exposed = [index for index, pair in enumerate(self.exposed) if pair.output is old]
        copy = self.add(ops.Identity(), new)
        if old not in self.inputs:
            before = replace(old, name=self.fresh("overwritten"), is_surgical=True)
            self._substitute(old, before)
            final = replace(copy, name=old.name, is_surgical=old.is_surgical)
            self._substitute(copy, final)
            copy = final
        self._listed.add(copy)
        for index in places:
            self.recurrences[index] = replace(self.recurrences[index], output=copy)
        for index in exposed:
            self.exposed[index] = replace(self.exposed[index], output=copy)
        return copy

    def _substitute(self, old: Value, new: Value, layer: str | None = None) -> None:
        """Put ``new`` in the place of ``old``, which a node writes."""
        place = self._writers[new] = self._writers.pop(old)
        node = self.nodes[place]
        outputs = tuple([new if output is old else output for output in node.outputs])
        name, is_surgical = node.name, node.is_surgical
        if layer and is_surgical:
            name, is_surgical = self._node_names.free(layer), False
        self.nodes[place] = Node(name, node.op, node.inputs, outputs, node.origin, is_surgical)
        if readers := self._readers.pop(old, None):
            self._readers[new] = readers
            for reader in readers:
                self.nodes[reader] = self.nodes[reader].with_replacements({old: new})
        if old in self._listed:
            self._listed.add(new)
            self.recurrences = [pair.with_replacements({old: new}) for pair in self.recurrences]
            self.exposed = [pair.with_replacements({old: new}) for pair in self.exposed]
            self.counts = {name: new if value is old else value for name, value in self.counts.items()}

    def graph(self, name: str, outputs: Sequence[Value]) -> Graph:
        """The graph that was built. Its outputs are these, then their counts, then the states to feed back."""
        fed, returned = set(self.inputs), set(outputs)
        exposed = [pair for pair in self.exposed if pair.input in fed and pair.output in returned]
        return Graph(
            name,
            tuple(self.inputs),
            (*outputs, *self._counts_of(outputs), *(pair.output for pair in self.recurrences)),
            tuple(self.nodes),
            (*self.recurrences, *exposed),
            dict(self.symbols),
            tuple(self.warnings),
            segments=tuple(self._segments),
        )

    def _counts_of(self, outputs: Sequence[Value]) -> list[Value]:
        """The values that hold how many elements of these outputs count, except those that already are outputs."""
        names = {dim.count: None for value in outputs for dim in value.shape if isinstance(dim, AtMost)}
        counts = [self.counts[name] for name in names if name in self.counts]
        return [count for count in counts if count not in outputs]

    def fresh(self, hint: str) -> str:
        """An unused name, for something that is not in the prototxt."""
        name = f"__{self.origin.layer}_{hint}" if self.origin.layer else f"__{hint}"
        return self._names.free(name, self._layers)


def _copy_size(x: Value, dim: OpenSize | DataSize) -> OpenSize | ops.Axis:
    if dim in x.shape:
        return ops.Axis(x.shape.index(dim))
    assert isinstance(dim, OpenSize), "what depends on the data is copied"
    return dim


def names_in(graph: Graph) -> set[str]:
    """The names of all nodes and values, including those in the bodies of Scans."""
    names = {value.name for value in graph.inputs}
    for node in walk(graph):
        names |= {node.name, *(value.name for value in node.outputs)}
        names |= {value.name for body in bodies(node.op) for value in body.inputs}
    return names


@functools.cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()

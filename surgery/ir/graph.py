"""The graph that surgery builds from a net: static single assignment; each value has a type from the start."""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, Origin
from prototrt.caffe_proto.common.records import dataclass, field, fields, replace
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import Surface, worded
from prototrt.surgery.ir.axes import Tie
from prototrt.surgery.ir.dimensions import OpenSize, Range
from prototrt.surgery.ir.layout import Layout
from prototrt.surgery.ir.lengths import Segments
from prototrt.surgery.ir.provenance import LeftOut, Source
from prototrt.surgery.ir.shapes import FLOATS, HALVES, Array, DType, Shape, sizes, symbol_sources

if TYPE_CHECKING:
    from prototrt.surgery.ir.summary import GraphSummary


@dataclass(frozen=True, slots=True)
class Op:
    """A primitive: frozen attributes, a shape rule, and a meaning in NumPy.

    ``constants`` lists the positions of inputs which must be known when the graph is made
    (kernels, biases): backends take them as weights, not as tensors. ``weights`` lists those that
    backends take as weights only if they are known: a kernel of 8 bits is dequantized. The output sizes of a
    ``data_dependent`` primitive depend on its input values: no engine can be built from it.
    ``graphs`` names the attributes that are graphs: bodies, which passes and checks enter.
    """

    constants: ClassVar[tuple[int, ...]] = ()
    weights: ClassVar[tuple[int, ...]] = ()
    data_dependent: ClassVar[bool] = False
    graphs: ClassVar[tuple[str, ...]] = ()

    def shape(self, *inputs: Any) -> list[Shape]:
        """Shapes of the outputs for these shapes of the inputs; raises ``ShapeError``."""
        raise AssertionError(f"{type(self).__name__} has no shape rule")

    def dtypes(self, *inputs: DType) -> list[DType]:
        """Element types of the outputs; one output of the first input's type unless overridden."""
        return [inputs[0]]

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        """What is wrong with these inputs although the rules for shapes and types accept them.

        By default: they mix two floating-point types, and no backend supports that.
        """
        read = {value.dtype for value in inputs}
        if len(read) < 2:
            return []
        mixed = [dtype.value for dtype in FLOATS if dtype in read]
        return [f"it reads {' and '.join(mixed)}"] if len(mixed) > 1 else []

    def evaluate(self, *inputs: Any) -> list[Array]:
        """What the primitive means, in plain NumPy."""
        raise AssertionError(f"{type(self).__name__} has no meaning")

    def at(self, sizes: Mapping[str, int]) -> Op:
        """This primitive with numbers for the open sizes among its attributes, and in its bodies."""
        attributes = {item.name: getattr(self, item.name) for item in fields(self)}
        numbers = {name: _at_sizes(attribute, sizes) for name, attribute in attributes.items()}
        changed = {
            name: attribute for name, attribute in numbers.items() if attribute is not attributes[name]
        }
        return replace(self, **changed) if changed else self

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        """The axes of operands that count the same, as the streams of an input and those of an output.

        Operands in bodies are among them. An axis that is in no tie counts nothing that another operand counts.
        """
        raise AssertionError(f"{type(self).__name__} does not say which axes count the same")

    def mixes(self, rank: int) -> Collection[int]:
        """The tied axes along which elements depend on other places than their own, for a first input of this rank."""
        raise AssertionError(
            f"{type(self).__name__} does not say along which axes elements depend on each other"
        )

    def renumbered(self, places: Sequence[int]) -> Op | None:
        """This primitive for inputs whose axis ``places[i]`` is axis i here, as in its outputs; None if there is none.

        Axes that are in none of the places come first, and every element of them is computed alike.
        """
        return None

    def multiply_adds(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        """Multiplications on a matrix unit. Element-wise operations are not counted."""
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Written by one node, given to the graph, or constant; read by any number of nodes.

    ``data`` is the array of a constant: a view onto the mapped weights file until a pass has to change it. A
    constant belongs to no graph: the body of a Scan reads it directly.
    ``is_surgical``: the value is not a blob of the user's net; a rule or a pass made it.
    """

    name: str
    dtype: DType
    shape: Shape
    data: Array | None = field(default=None, repr=False)
    is_surgical: bool = False

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def array(self) -> Array:
        """The array of a value that is known to be constant."""
        assert self.data is not None, f"{self} is computed"
        return self.data

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.value}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        """NumPy would write out a constant that repeats one number, and stores it once."""
        from prototrt.surgery.ir.uniform_constants import unbroadcast  # it uses the names of this module

        data = None if self.data is None else unbroadcast(self.data)
        return _unpickle, (self.name, self.dtype, self.shape, data, self.is_surgical)


def _unpickle(name: str, dtype: DType, shape: Shape, data: Array | None, is_surgical: bool) -> Value:
    whole = None if data is None else np.broadcast_to(data, [int(dim) for dim in shape])
    return Value(name, dtype, shape, whole, is_surgical)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One primitive at work. Its op is a frozen dataclass, never a string and a loose dict.

    ``is_surgical``: the node is not a layer of the user's net; a rule or a pass made it. Its name begins
    with ``__``, but a user's layer may have such a name as well.
    """

    name: str
    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    origin: Origin
    is_surgical: bool = False

    def __repr__(self) -> str:
        return f"<Node {self.name}: {describe(self.op)}>"

    @property
    def hint(self) -> str:
        """The part of the name after the layer. A pass uses it to name the nodes that replace this one."""
        return self.name.removeprefix(f"__{self.origin.layer}_") if self.is_surgical else self.name

    def evaluate(self, *inputs: Array) -> list[Array]:
        """Compute the op's NumPy meaning. Errors carry the layer's origin.

        Types of 16 bits are computed in float32 and rounded at the end, as matrix units do.
        """
        try:
            results = self.op.evaluate(*map(_widen, inputs))
        except ConversionError as error:
            error.origin = error.origin or self.origin
            raise
        return [_round(result, value) for result, value in zip(results, self.outputs, strict=True)]

    def at(self, sizes: Mapping[str, int]) -> Node:
        """This node with numbers for the open sizes of its primitive; itself if it has none."""
        op = self.op.at(sizes)
        return self if op is self.op else replace(self, op=op)

    def with_replacements(self, stands_for: Mapping[Value, Value]) -> Node:
        """This node, reading the replacements of its inputs; itself if none is replaced."""
        if stands_for.keys().isdisjoint(self.inputs):
            return self
        return replace(self, inputs=tuple(stands_for.get(value, value) for value in self.inputs))


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """State that a caller feeds back: what ``output`` held goes into ``input`` of the next call.

    ``exposed`` state is a blob of the net itself: an ordinary input and output, which may be fed back.
    """

    input: Value
    output: Value
    exposed: bool = False

    def with_replacements(self, stands_for: Mapping[Value, Value]) -> Recurrence:
        """This pair over the replacements of its values."""
        before, after = (stands_for.get(value, value) for value in (self.input, self.output))
        return Recurrence(before, after, self.exposed)


@dataclass(frozen=True, slots=True)
class Lag:
    """How late an output of a stream is: result n of one long call is result ``n + delay`` of the stream.

    A piece has so many ``results``. The last ``end`` results of a long call depend on where it ends, which a stream
    does not know.
    """

    results: int
    delay: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamLags:
    """A stream in pieces of ``steps`` steps, and the lags of the outputs that have results of steps, by name."""

    steps: int
    lags: Mapping[str, Lag]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order between inputs and outputs.

    ``outputs`` end with the outputs of the ``recurrences`` that are not exposed. ``net_inputs`` are the names of the
    inputs of the net, also those that no output needs. ``segments`` are the inputs that hold
    the lengths of segments. ``learned`` are the blobs of the layers that have weights, by the layer's name. ``stream``
    is for graphs whose calls take a piece of a stream.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    recurrences: tuple[Recurrence, ...] = ()
    symbols: Mapping[str, Range] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    net_inputs: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    segments: tuple[Segments, ...] = ()
    learned: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    stream: StreamLags | None = None

    @property
    def unread_inputs(self) -> tuple[str, ...]:
        """The inputs of the net that the graph does not read."""
        read = {value.name for value in self.inputs}
        return tuple(name for name in self.net_inputs if name not in read)

    def __repr__(self) -> str:
        def shapes(values: Sequence[Value], states: Sequence[Value]) -> str:
            shown = [f"{value.name} {sizes(value.shape)}" for value in values if value not in states]
            return ", ".join(shown) or "none"

        pairs = f", {len(self.recurrences)} recurrent pairs" if self.recurrences else ""
        inputs, outputs = shapes(self.inputs, self.state_inputs), shapes(self.outputs, self.state_outputs)
        name = self.name or "(no name)"
        return f"<Graph {name}: {len(self.nodes)} nodes, inputs {inputs}, outputs {outputs}{pairs}>"

    def summary(self) -> GraphSummary:
        """One row for each node, for a notebook, for pandas (``frame()``), or in ``rows``."""
        from prototrt.surgery.ir.summary import summary  # it uses the names of this module

        return summary(self)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def with_nodes(self, nodes: Iterable[Node], stands_for: Mapping[Value, Value] | None = None) -> Graph:
        """This graph with other nodes, itself if they are its own; ``stands_for`` replaces outputs and recurrences."""
        new, all_nodes = stands_for or {}, tuple(nodes)
        if all_nodes == self.nodes and not new:
            return self
        return replace(
            self,
            nodes=all_nodes,
            outputs=tuple(new.get(value, value) for value in self.outputs),
            recurrences=tuple(pair.with_replacements(new) for pair in self.recurrences),
        )

    def in_words_of(self, surface: Surface) -> Graph:
        """This graph with warnings that spell options as the surface does."""
        left_out = (replace(layer, warning=worded(layer.warning, surface)) for layer in self.left_out)
        warnings = (worded(warning, surface) for warning in self.warnings)
        return replace(self, warnings=tuple(warnings), left_out=tuple(left_out))

    @property
    def state_inputs(self) -> tuple[Value, ...]:
        return tuple(pair.input for pair in self.recurrences)

    @property
    def state_outputs(self) -> tuple[Value, ...]:
        return tuple(pair.output for pair in self.recurrences)

    def writers(self) -> dict[Value, Node]:
        """The node that writes each value; inputs and constants have none."""
        return {value: node for node in self.nodes for value in node.outputs}

    def readers(self) -> dict[Value, list[Node]]:
        """The readers of each value. The graph's outputs do not count as readers."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node)
        return readers

    def evaluate(self, *inputs: Array) -> list[Array]:
        """Run every node's NumPy meaning; arrays in the order of ``inputs`` and ``outputs``."""
        held = dict(zip(self.inputs, inputs, strict=True))
        nodes = self.at(self.sizes(held)).nodes if self.symbols else self.nodes
        last_reader = {value: node for node in nodes for value in node.inputs}
        for node in nodes:
            results = node.evaluate(*(read(value, held) for value in node.inputs))
            held.update(zip(node.outputs, results, strict=True))
            for value in node.inputs:
                if last_reader[value] is node and value not in self.outputs:
                    held.pop(value, None)
        return [read(value, held) for value in self.outputs]

    def at(self, sizes: Mapping[str, int]) -> Graph:
        """This graph with numbers for the open sizes among the attributes of its nodes; itself if there are none."""
        return self.with_nodes(node.at(sizes) for node in self.nodes)

    def sizes(self, held: Mapping[Value, Array]) -> dict[str, int]:
        """The sizes of the symbols for these arrays of the inputs."""
        return {
            name: source.solve(held[source.input].shape[source.axis])
            for name, source in symbol_sources(self.inputs).items()
        }

    def verify(self, sound: set[Hashable] | None = None) -> None:
        """Check the invariants that every pass must keep: see ``surgery/ir/verification.py``.

        Raises ``InvalidGraphError``. What is in ``sound`` was checked before; it learns what is checked now.
        """
        from prototrt.surgery.ir.verification import verify  # it uses the names of this module

        verify(self, sound)

    def text(self) -> str:
        """The graph as text: one line per node, bodies of Scans indented. Deterministic."""
        return "\n".join(map(visible_line, self._lines())) + "\n"

    def _lines(self, indent: str = "") -> Iterator[str]:
        yield f"{indent}graph {self.name or '(no name)'}({', '.join(map(str, self.inputs))})"
        for node in self.nodes:
            written = ", ".join(map(str, node.outputs))
            read = ", ".join(f"const {value}" if value.is_constant else value.name for value in node.inputs)
            yield f"{indent}  {written} = {describe(node.op)}({read})"
            for body in bodies(node.op):
                yield from body._lines(indent + "    ")
        yield f"{indent}  return {', '.join(value.name for value in self.outputs)}"
        for pair in self.recurrences:
            yield f"{indent}  recurrence {pair.output.name} -> {pair.input.name}"


_NAMES_OF_HALVES = [dtype.value for dtype in HALVES]


def _widen(array: Array) -> Array:
    is_half = array.itemsize == 2 and array.dtype.name in _NAMES_OF_HALVES  # NumPy takes long to name a type
    return array.astype(np.float32) if is_half else array


def _round(array: Array, value: Value) -> Array:
    return array.astype(value.dtype.numpy) if value.dtype in HALVES else array


def _at_sizes(attribute: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute of a primitive with numbers for its open sizes; itself if it has none."""
    if isinstance(attribute, OpenSize | Graph):
        return attribute.at(sizes)
    if isinstance(attribute, tuple) and any(isinstance(item, OpenSize) for item in attribute):
        return tuple(_at_sizes(item, sizes) for item in attribute)
    return attribute


def symbols_in(op: Op) -> frozenset[str]:
    """The symbols of the open sizes among an op's attributes."""
    attributes = [getattr(op, item.name) for item in fields(op)]
    sizes = [
        size
        for attribute in attributes
        for size in (attribute if isinstance(attribute, tuple) else (attribute,))
    ]
    return frozenset(symbol for size in sizes if isinstance(size, OpenSize) for symbol in size.symbols)


def read(value: Value, held: Mapping[Value, Array]) -> Array:
    """The array of a value: its own data if it is constant, otherwise the computed one."""
    return value.data if value.data is not None else held[value]


def takes_array(node: Node, position: int) -> bool:
    """Whether backends take this input of a node as an array rather than a tensor."""
    is_weights = position in node.op.weights and node.inputs[position].is_constant
    return is_weights or position in node.op.constants


def bodies(op: Op) -> list[Graph]:
    """The graphs inside an op: a Scan has one, other primitives have none."""
    return [getattr(op, name) for name in op.graphs]


def describe(op: Op) -> str:
    """An op with the attributes that change what it computes, as in ``LeakyReLU[slope=0.1]``."""
    shown = []
    for item in fields(op):
        attribute = getattr(op, item.name)
        if isinstance(attribute, enum.Enum):
            attribute = attribute.name
        if item.repr and not isinstance(attribute, Graph):
            shown.append(f"{item.name}={attribute}")
    return f"{type(op).__name__}[{', '.join(shown)}]" if shown else type(op).__name__


def walk(graph: Graph) -> Iterator[Node]:
    """All nodes. The nodes in the body of a Scan follow the Scan."""
    for node in graph.nodes:
        yield node
        for body in bodies(node.op):
            yield from walk(body)


def wiring(graph: Graph) -> list[object]:
    """What a graph computes, independent of names: the ops and how they are connected."""
    numbers: dict[Value, object] = {value: index for index, value in enumerate(graph.inputs)}
    lines: list[object] = []
    for node in graph.nodes:
        read = [numbers.get(value, ("const", value.dtype, value.shape)) for value in node.inputs]
        lines.append((node.op, read))
        numbers.update({value: (len(lines), place) for place, value in enumerate(node.outputs)})
    return [*lines, [numbers.get(value) for value in graph.outputs]]

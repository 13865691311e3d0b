"""The steps of a recurrence as one kernel of Triton, which PyTorch brings for a GPU.

A loop of PyTorch launches several kernels for each step. Here one kernel does all steps. Each of its programs computes
some of the H units, of all streams, and holds their rows of the recurrent weights in registers. Before a product it
waits for what other programs write: mostly the states of the step before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.backends.torch.expressions import Application, expression, is_scalar, number
from prototrt.converter.backends.torch.names import PythonNames, identifier
from prototrt.surgery.ir import DType, Node, Op, Value
from prototrt.surgery.ops import Binary, BinaryKind, LeakyReLU, MatMul, Scan, Select, Sigmoid, Slice, TanH

_TEMPLATES: Mapping[type[Op], str] = {
    Sigmoid: "tl.sigmoid({0})",
    TanH: "2 * tl.sigmoid(2 * {0}) - 1",
    Select: "tl.where({0}, {1}, {2})",
    LeakyReLU: "tl.where({0} < 0, {0} * {slope}, {0})",
}
_ARITHMETIC = (BinaryKind.ADD, BinaryKind.SUBTRACT, BinaryKind.MULTIPLY, BinaryKind.DIVIDE)
_NAMES = "steps streams width lanes columns units step stream row before unit column rows block"
_NAMES += " is_stream is_unit is_column is_block"


@dataclass(frozen=True, slots=True)
class StepKernel:
    """A kernel, and what its caller passes to it beside the sequences and states of the Scan.

    ``gates``: rows of recurrent weights for each unit. ``exchanged``: arrays beside the states by which programs
    exchange values of a step. ``constants`` are read in this order.
    """

    name: str
    gates: int
    exchanged: int
    constants: Sequence[Value]


@dataclass(frozen=True, slots=True)
class StepKernels:
    """The kernels of a file, with names of its register. Equal ones are written once."""

    names: PythonNames
    _written: dict[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        return [text.replace(_NAME, name) for text, name in self._written.items()]

    def kernel(self, node: Node, op: Scan, hint: Callable[[Value], str]) -> StepKernel | None:
        """The kernel for a Scan; None where states are not (N, H), or a step does what the kernel cannot.

        ``hint`` names a value without the name of its layer.
        """
        text = _KernelText(node, op, hint)
        try:
            source = text.source()
        except _NoKernelError:
            return None
        if source not in self._written:
            self._written[source] = self.names.new(f"{identifier(node.origin.type)}_steps")
        return StepKernel(self._written[source], text.gates, len(text.exchanged), [*text.constants])


_NAME = "\0"
"""Where the name stands in a source."""


class _NoKernelError(Exception):
    """The kernel cannot compute this step."""


class _KernelText:
    """Writes the body of a Scan for a kernel.

    A value (N, G H) is G vectors (N, H), one for each gate: of the units of a program, or wide, of all H units.
    Products alone read wide vectors. What no product made, each program computes wide. The rest is exchanged.
    """

    def __init__(self, node: Node, op: Scan, hint: Callable[[Value], str]) -> None:
        self.op, self._hint = op, hint
        self._outside, self._inside = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
        self._results = op.named_outputs(op.body.outputs)
        self._writers = {value: inner for inner in op.body.nodes for value in inner.outputs}
        self._names = PythonNames(_NAMES.split())
        self._vectors: dict[tuple[Value, int, bool], str] = {}
        self._lines: dict[str, list[str]] = {
            part: [] for part in ("before", "step", "first", "later", "made")
        }
        self._kept: dict[str, Value] = {}
        self.constants: dict[Value, str] = {}
        self.exchanged: dict[Value, str] = {}
        self.gates = 0

    def source(self) -> str:
        """The text of the kernel. Raises ``_NoKernelError``."""
        self._check()
        outside, inside = self._outside, self._inside
        read = zip(
            (*inside.sequences, *inside.invariants), (*outside.sequences, *outside.invariants), strict=True
        )
        self._read = {inner: self._new(outer) for inner, outer in read}
        self._arrays = {
            before: self._names.new(f"{self._hint(after)}_steps")
            for before, after in zip(inside.states, self._results.states, strict=True)
        }
        self._initial = {
            before: self._new(value) for before, value in zip(inside.states, outside.states, strict=True)
        }
        stores = [
            _store(array, self.vector(value))
            for array, value in zip(self._arrays.values(), self._results.states, strict=True)
        ]
        after = dict(zip(inside.states, self._results.states, strict=True))
        stores += [f"{name} = {self.vector(after[value])}" for name, value in self._kept.items()]
        if not self.gates:
            raise _NoKernelError
        arrays = [self._read, self.constants, self._initial, self._arrays, self.exchanged]
        lines = self._lines
        return _TEXT.format(
            name=_NAME,
            arguments=", ".join(name for names in arrays for name in names.values()),
            before=_indent(1, lines["before"]),
            place="(steps - 1 - step)" if self.op.reverse else "step",
            step=_indent(2, lines["step"]),
            first=_indent(3, lines["first"]),
            sign="+" if self.op.reverse else "-",
            later=_indent(3, lines["later"]),
            made=_indent(2, [*lines["made"], *stores]),
        )

    def _check(self) -> None:
        """Raise ``_NoKernelError`` for states and types that a kernel does not have."""
        shapes = {value.shape for value in self._inside.states}
        dtypes = {value.dtype for side in (self._inside, self._results) for value in side}
        has_states = {*self._results.stacked} <= {*self._results.states}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or not isinstance(shape[1], int):
            raise _NoKernelError
        if self.op.over_places or not has_states or not dtypes <= {DType.FLOAT32, DType.BOOL}:
            raise _NoKernelError
        self._hidden = shape[1]

    def _new(self, value: Value) -> str:
        return self._names.new(self._hint(value))

    def _gates(self, value: Value) -> int:
        """How many vectors a value is; 0 for one element of each row, which all units read."""
        *rows, last = value.shape
        streams = 1 if value.is_constant else self._inside.states[0].shape[0]
        if rows != [streams] or not isinstance(last, int) or (last % self._hidden and last != 1):
            raise _NoKernelError
        return last // self._hidden

    def vector(self, value: Value, gate: int = 0, *, wide: bool = False) -> str:
        """The name of one vector of a value."""
        if value.is_constant and is_scalar(value):
            return number(value.array.reshape(-1)[0].item())
        count = self._gates(value)
        if wide and count > 1:
            raise _NoKernelError
        key = value, gate if count else 0, wide and count > 0
        if key not in self._vectors:
            self._vectors[key] = self._expression(*key)
        return self._vectors[key]

    def _expression(self, value: Value, gate: int, wide: bool) -> str:
        if value in self._arrays:
            return self._state(value, wide)
        if value in self._read:
            place = "row" if value in self._inside.sequences else "stream"
            return self._loaded("step", self._read[value], value, gate, place, wide)
        if value.is_constant:
            return self._loaded("before", self._constant(value), value, gate, "0", wide)
        node = self._writers[value]
        if wide and self._is_of_products(value):
            return self._all_of(value)
        if isinstance(node.op, MatMul):
            return self._product(node, gate)
        if isinstance(node.op, Slice):
            return self._part(node, node.op, gate)
        return self._elementwise(node, gate, wide)

    def _is_of_products(self, value: Value) -> bool:
        """Whether other programs know some of its units alone."""
        node = self._writers.get(value)
        return node is not None and (
            isinstance(node.op, MatMul | Slice) or any(map(self._is_of_products, node.inputs))
        )

    def _all_of(self, value: Value) -> str:
        """Exchange a vector: each program stores its units, and loads all."""
        own = self.vector(value)
        array, name = self._names.new(f"{own}_steps"), self._names.new(f"{own}_all")
        self.exchanged[value] = array
        self._lines["made"] += [_store(array, own), f"{name} = {_load_written(array, 'row')}"]
        return name

    def _named(self, name: str, value: Value, gate: int) -> str:
        return self._names.new(f"{name}_{gate}" if self._gates(value) > 1 else name)

    def _constant(self, value: Value) -> str:
        if value not in self.constants:
            self.constants[value] = self._new(value)
        return self.constants[value]

    def _loaded(self, part: str, array: str, value: Value, gate: int, place: str, wide: bool) -> str:
        """Load a part of a row of an array (..., G H)."""
        count, name = self._gates(value), self._named(f"{array}_row", value, gate)
        index, mask = _INDICES[wide]
        row = place if count == 1 else f"({place} * {count} + {gate})"
        of_rows = "" if value.is_constant else "is_stream & "
        load = (
            f"{array} + {row} * width + {index}, {of_rows}{mask}, 0"
            if count
            else f"{array} + {place}, is_stream, 0"
        )
        self._lines[part].append(f"{name} = tl.load({load})")
        return name

    def _state(self, value: Value, wide: bool) -> str:
        """A state before a step: what a program has computed itself it keeps in registers."""
        array, (index, mask) = self._arrays[value], _INDICES[wide]
        name = self._names.new(f"{array.removesuffix('_steps')}_before")
        load = f"{name} = tl.load({self._initial[value]} + stream * width + {index}, is_stream & {mask}, 0)"
        if wide:
            self._lines["first"].append(load)
            self._lines["later"].append(f"{name} = {_load_written(array, 'before')}")
        else:
            self._lines["before"].append(load)
            self._kept[name] = value
        return name

    def _product(self, node: Node, gate: int) -> str:
        (x, weights), (y,) = node.inputs, node.outputs
        is_plain = isinstance(node.op, MatMul) and node.op.transpose_b and weights.is_constant
        if not is_plain or weights.array.size != self._gates(y) * self._hidden**2:
            raise _NoKernelError
        read, array = self.vector(x, wide=True), self._constant(weights)
        rows, name = self._named(f"{array}_rows", y, gate), self._named(self._hint(y), y, gate)
        load = f"tl.load({array} + {gate} * width * width + block, is_block, 0)"
        self._lines["before"].append(f"{rows} = {load}")
        self._lines["made"].append(f"{name} = products({rows}, {read}, lanes)")
        self.gates += 1
        return name

    def _part(self, node: Node, op: Slice, gate: int) -> str:
        if op.axis != 1 or not isinstance(op.start, int) or op.start % self._hidden or op.size % self._hidden:
            raise _NoKernelError
        return self.vector(node.inputs[0], op.start // self._hidden + gate)

    def _elementwise(self, node: Node, gate: int, wide: bool) -> str:
        row = _TEMPLATES.get(type(node.op))
        if row is None and not (isinstance(node.op, Binary) and node.op.kind in _ARITHMETIC):
            raise _NoKernelError
        texts = [self.vector(value, gate, wide=wide) for value in node.inputs]
        slope = number(node.op.slope) if isinstance(node.op, LeakyReLU) else ""
        name = self._named(self._hint(node.outputs[0]), node.outputs[0], gate)
        made = (
            row.format(*texts, slope=slope) if row else expression.get(Binary)(Application(node, texts, str))
        )
        self._lines["made"].append(f"{name} = {made}")
        return name


_INDICES = {False: ("unit", "is_unit"), True: ("column", "is_column")}
"""Where the elements of a vector are, and which of them there are: by whether it is wide."""


def _store(array: str, vector: str) -> str:
    return f"tl.store({array} + row * width + unit, {vector}, is_stream & is_unit)"


def _load_written(array: str, row: str) -> str:
    return f"load_written({array} + {row} * width + column, is_stream & is_column, 0)"


def _indent(depth: int, lines: Sequence[str]) -> str:
    return "\n".join(" " * 4 * depth + line for line in lines)


_TEXT = """\
@triton.jit
def {name}(
    {arguments}, steps, streams,
    width: tl.constexpr, lanes: tl.constexpr, columns: tl.constexpr, units: tl.constexpr
):
    rows = tl.program_id(0) * units + tl.arange(0, units)[:, None]
    stream, column = tl.arange(0, lanes)[:, None], tl.arange(0, columns)[None, :]
    unit = tl.program_id(0) * units + tl.arange(0, units)[None, :]
    is_stream, is_unit, is_column = stream < streams, unit < width, column < width
    block, is_block = rows * width + column, (rows < width) & is_column
{before}
    for step in range(steps):
        row = {place} * streams + stream
{step}
        if step == 0:
{first}
        else:
            before = row {sign} streams
{later}
{made}"""
LOAD_WRITTEN = """\
UNWRITTEN = tl.constexpr(0x7FA5A5A5)

@triton.jit
def is_unwritten(places, mask):
    bits = tl.load(places, mask, 0, volatile=True).to(tl.int32, bitcast=True)
    return tl.max(tl.max((bits == UNWRITTEN).to(tl.int32), 1), 0)

@triton.jit
def load_written(places, mask, other):
    waits = is_unwritten(places, mask)
    while waits > 0:
        waits = is_unwritten(places, mask)
    # Several threads hold a place, and one of them looked at it.
    return tl.load(places, mask, other, volatile=True)

@triton.jit
def products(rows, read, lanes: tl.constexpr):
    if lanes == 1:
        return tl.sum(rows * read, 1)[None, :]
    return tl.sum(rows[None, :, :] * read[:, None, :], 2)"""
"""Loads states that other programs write. Until then their places hold a NaN that no computation gives."""

"""The steps of a recurrence as one kernel of Triton, which PyTorch brings for a GPU.

A loop of PyTorch launches several kernels for each step. Here one kernel does all steps. Each of its programs computes
some of the H units, and holds their rows of the recurrent weights in registers. Before a step it waits for the states
that other programs write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.backends.torch.expressions import Application, expression, is_scalar, number
from prototrt.converter.backends.torch.names import PythonNames, identifier
from prototrt.surgery.ir import DType, Node, Op, Value
from prototrt.surgery.ops import Binary, BinaryKind, MatMul, Scan, Select, Sigmoid, Slice, TanH

_TEMPLATES: Mapping[type[Op], str] = {
    Sigmoid: "tl.sigmoid({0})",
    TanH: "2 * tl.sigmoid(2 * {0}) - 1",
    Select: "tl.where({0}, {1}, {2})",
}
_ARITHMETIC = (BinaryKind.ADD, BinaryKind.SUBTRACT, BinaryKind.MULTIPLY, BinaryKind.DIVIDE)
_NAMES = "steps streams width columns units step n row before unit column block is_unit is_column is_block"


@dataclass(frozen=True, slots=True)
class StepKernel:
    """A kernel, and what its caller passes to it beside the sequences and states of the Scan.

    ``gates``: rows of recurrent weights for each unit. ``invariants`` and ``constants`` are read in this order.
    """

    name: str
    gates: int
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
        return StepKernel(self._written[source], text.gates, [*text.constants])


_NAME = "\0"
"""Where the name stands in a source."""


class _NoKernelError(Exception):
    """The kernel cannot compute this step."""


class _KernelText:
    """Writes the body of a Scan for a kernel.

    A value (N, G H) is G vectors, one for each gate: of the units of a program, or wide, of all H units. Products alone
    read wide vectors, which are states, sequences, and what elementwise primitives make of them.
    """

    def __init__(self, node: Node, op: Scan, hint: Callable[[Value], str]) -> None:
        self.op, self._hint = op, hint
        self._outside, self._inside = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
        self._results = op.named_outputs(op.body.outputs)
        self._writers = {value: inner for inner in op.body.nodes for value in inner.outputs}
        self._names = PythonNames(_NAMES.split())
        self._vectors: dict[tuple[Value, int, bool], str] = {}
        self._lines: dict[str, list[str]] = {
            part: [] for part in ("weights", "step", "first", "later", "made")
        }
        self.constants: dict[Value, str] = {}
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
            f"tl.store({array} + row * width + unit, {self.vector(value)}, is_unit)"
            for array, value in zip(self._arrays.values(), self._results.states, strict=True)
        ]
        if not self.gates:
            raise _NoKernelError
        arrays = [self._read, self.constants, self._initial, self._arrays]
        lines = self._lines
        return _TEXT.format(
            name=_NAME,
            arguments=", ".join(name for names in arrays for name in names.values()),
            weights=_indent(1, lines["weights"]),
            place="(steps - 1 - step)" if self.op.reverse else "step",
            step=_indent(3, lines["step"]),
            first=_indent(4, lines["first"]),
            sign="+" if self.op.reverse else "-",
            later=_indent(4, lines["later"]),
            made=_indent(3, [*lines["made"], *stores]),
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
            place = "row" if value in self._inside.sequences else "n"
            return self._loaded("step", self._read[value], value, gate, place, wide)
        if value.is_constant:
            return self._loaded("weights", self._constant(value), value, gate, "0", wide)
        node = self._writers[value]
        if wide and isinstance(node.op, MatMul | Slice):
            raise _NoKernelError
        if isinstance(node.op, MatMul):
            return self._product(node, gate)
        if isinstance(node.op, Slice):
            return self._part(node, node.op, gate)
        return self._elementwise(node, gate, wide)

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
        load = f"{array} + {row} * width + {index}, {mask}, 0" if count else f"{array} + {place}"
        self._lines[part].append(f"{name} = tl.load({load})")
        return name

    def _state(self, value: Value, wide: bool) -> str:
        """Load a state: before the first step, and as a program has written it."""
        array, initial = self._arrays[value], self._initial[value]
        name, (index, mask) = self._names.new(f"{array.removesuffix('_steps')}_before"), _INDICES[wide]
        self._lines["first"].append(f"{name} = tl.load({initial} + n * width + {index}, {mask}, 0)")
        later, function = self._lines["later"], "load_written" if wide else "tl.load"
        # What a program has written itself is loaded before it waits for the others.
        place = len(later) if wide else 0
        later.insert(place, f"{name} = {function}({array} + before * width + {index}, {mask}, 0)")
        return name

    def _product(self, node: Node, gate: int) -> str:
        (x, weights), (y,) = node.inputs, node.outputs
        is_plain = isinstance(node.op, MatMul) and node.op.transpose_b and weights.is_constant
        if not is_plain or weights.array.size != self._gates(y) * self._hidden**2:
            raise _NoKernelError
        read, array = self.vector(x, wide=True), self._constant(weights)
        rows, name = self._named(f"{array}_rows", y, gate), self._named(self._hint(y), y, gate)
        load = f"tl.load({array} + {gate} * width * width + block, is_block, 0)"
        self._lines["weights"].append(f"{rows} = {load}")
        self._lines["made"].append(f"{name} = tl.sum({rows} * {read}, 1)")
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
        name = self._named(self._hint(node.outputs[0]), node.outputs[0], gate)
        made = row.format(*texts) if row else expression.get(Binary)(Application(node, texts, str))
        self._lines["made"].append(f"{name} = {made}")
        return name


_INDICES = {False: ("unit", "is_unit"), True: ("column", "is_column")}
"""Where the elements of a vector are, and which of them there are: by whether it is wide."""


def _indent(depth: int, lines: Sequence[str]) -> str:
    return "\n".join(" " * 4 * depth + line for line in lines)


_TEXT = """\
@triton.jit
def {name}(
    {arguments}, steps, streams,
    width: tl.constexpr, columns: tl.constexpr, units: tl.constexpr
):
    unit = tl.program_id(0) * units + tl.arange(0, units)
    column = tl.arange(0, columns)
    block = unit[:, None] * width + column
    is_unit, is_column = unit < width, column < width
    is_block = is_unit[:, None] & is_column
{weights}
    for step in range(steps):
        for n in range(streams):
            row = {place} * streams + n
{step}
            if step == 0:
{first}
            else:
                before = row {sign} streams
{later}
{made}
            tl.debug_barrier()"""
LOAD_WRITTEN = """\
UNWRITTEN = tl.constexpr(0x7FA5A5A5)

@triton.jit
def is_unwritten(places, mask):
    bits = tl.load(places, mask, 0, volatile=True).to(tl.int32, bitcast=True)
    return tl.max((bits == UNWRITTEN).to(tl.int32), 0)

@triton.jit
def load_written(places, mask, other):
    waits = is_unwritten(places, mask)
    while waits > 0:
        waits = is_unwritten(places, mask)
    # Several threads hold a place, and one of them looked at it.
    return tl.load(places, mask, other, volatile=True)"""
"""Loads states that other programs write. Until then their places hold a NaN that no computation gives."""

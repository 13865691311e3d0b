"""One expression of PyTorch for each primitive.

A row takes an ``Application`` of a primitive, with the texts of its inputs, and returns the expression. Scan and While
are statements: see ``statements.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass, fields
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery import ops
from prototrt.surgery.ir import Dim, DType, Node, Op, OpenSize, Value
from prototrt.surgery.ir.registry import Registry

TORCH_TYPES = {
    DType.FLOAT32: "torch.float32",
    DType.INT32: "torch.int32",
    DType.BOOL: "torch.bool",
}
_SCALAR = re.compile(r"_scalar(_\d+)?$")
MOST_WINDOW_AXES = 3
"""Axes of an image that PyTorch's convolutions and poolings read."""


@dataclass(frozen=True, slots=True)
class Application:
    """A primitive whose inputs have the texts ``inputs``. ``sizes`` writes a size that may vary."""

    node: Node
    inputs: Sequence[str]
    size: Callable[[Dim], str]

    @property
    def op(self) -> Any:
        return self.node.op

    @property
    def atoms(self) -> list[str]:
        """The inputs, in parentheses where an operator or a dot may follow."""
        return [atom(text) for text in self.inputs]

    def sizes(self, dims: Sequence[Dim]) -> str:
        """Sizes as a tuple."""
        return in_tuple([self.size(dim) for dim in dims])

    @property
    def rank(self) -> int:
        return len(self.node.inputs[0].shape)


Row: TypeAlias = Callable[[Application], str]
expression: Registry[type[Op], Row] = Registry("PyTorch expression")


def is_number(text: str) -> bool:
    """Whether the text of an input is a number, and not the name of a tensor."""
    return re.match(r"-?(\d|torch\.(inf|nan))", text) is not None


def is_scalar(value: Value) -> bool:
    """Whether a constant is a number that a rule wrote, and no weight."""
    return value.data is not None and value.data.size == 1 and _SCALAR.search(value.name) is not None


def atom(text: str) -> str:
    """The text, in parentheses if it is a sum or the like."""
    depth = 0
    for character in text:
        depth += character in "([{"
        depth -= character in ")]}"
        if depth == 0 and character == " ":
            return f"({text})"
    return f"({text})" if text.startswith(("-", "~")) else text


def in_tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def pads_of(before: Sequence[int], after: Sequence[int]) -> str:
    """Padding as ``functional.pad`` reads it: the last axis first."""
    pairs = [f"{b}, {a}" for b, a in zip(reversed(before), reversed(after), strict=True)]
    while len(pairs) > 1 and pairs[-1] == "0, 0":
        pairs.pop()
    return f"({', '.join(pairs)})"


def number(value: float) -> str:
    """The shortest text that reads as this float32, or as this whole number."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    single = np.float32(value)
    if not np.isfinite(single):
        return "torch.nan" if np.isnan(single) else "torch.inf" if single > 0 else "-torch.inf"
    largest = np.finfo(np.float32).max
    if abs(single) == largest:  # its shortest text is above it
        return repr(float(single))
    return repr(float(str(single)))


def _add_templates(*templates: tuple[type[Op], str]) -> None:
    """Rows whose text has the inputs as ``{0}``, ``{1}``, as operands ``{a}``, ``{b}``, and attributes by name."""
    for op, template in templates:
        expression(op)(functools.partial(_fill, template))


def _fill(template: str, call: Application) -> str:
    attributes = {item.name: getattr(call.op, item.name) for item in fields(call.op)}
    texts = {name: number(each) if isinstance(each, float) else each for name, each in attributes.items()}
    return template.format(*call.inputs, **texts, **dict(zip("ab", call.atoms, strict=False)))


_add_templates(
    (ops.Sigmoid, "torch.sigmoid({0})"),
    (ops.TanH, "torch.tanh({0})"),
    (ops.Softsign, "functional.softsign({0})"),
    (ops.ELU, "functional.elu({0}, {alpha})"),
    (ops.HardSigmoid, "({a} * {alpha} + {beta}).clamp(0, 1)"),
    (ops.PReLU, "torch.where({a} > 0, {0}, {b} * {a})"),
    (ops.Identity, "{0}"),
    (ops.Power, "torch.pow({0}, {exponent})"),
    (ops.LRN, "functional.local_response_norm({0}, {size}, {alpha}, {beta}, {k})"),
    (ops.Softmax, "torch.softmax({0}, {axis})"),
    (ops.Transpose, "{a}.permute{order}"),
    (ops.Reverse, "{a}.flip({axis})"),
    (ops.ReverseSequence, "reverse_sequence({0}, {1})"),
    (ops.Select, "torch.where({0}, {1}, {2})"),
    (ops.Gather, "{a}[{b}.long()]"),
    (ops.Compress, "{a}[{b} != 0]"),
    (ops.NonMaxSuppression, "suppressed({0}, {1}, {threshold})"),
    (ops.TopK, "largest({0}, {axis}, {count}, first_of_equals={first_of_equals})"),
)


@expression(ops.LeakyReLU)
def _leaky_relu(call: Application) -> str:
    (x,) = call.inputs
    return f"functional.leaky_relu({x}, {number(call.op.slope)})" if call.op.slope else f"torch.relu({x})"


@expression(ops.Clip)
def _clip(call: Application) -> str:
    low, high = number(call.op.low), number(call.op.high)
    if call.op.low <= call.op.high:
        return f"{call.atoms[0]}.clamp({low}, {high})"
    return f"{call.atoms[0]}.clamp(max={high}).clamp(min={low})"


@expression(ops.Affine)
def _affine(call: Application) -> str:
    x, scale, shift = call.atoms
    ones = ", 1" * (call.rank - 2)
    return f"{x} * {scale}.view(-1{ones}) + {shift}.view(-1{ones})"


@expression(ops.Convolution)
def _convolution(call: Application) -> str:
    return _convolve(call, "conv", "")


@expression(ops.Deconvolution)
def _deconvolution(call: Application) -> str:
    return _convolve(call, "conv_transpose", "0, ")


def _convolve(call: Application, name: str, output_padding: str) -> str:
    """PyTorch has no convolution over no axis: it becomes one over an axis of size 1."""
    op, (x, kernel, bias) = call.op, call.atoms
    axes = len(op.stride)
    if axes == 0:
        tail = f"{op.group}, 1" if output_padding else f"1, {op.group}"
        arguments = f"{x}.unsqueeze(2), {kernel}.unsqueeze(2), {bias}, 1, 0, {output_padding}{tail}"
        return f"functional.{name}1d({arguments}).squeeze(2)"
    refuse_many_axes(call.node, axes)
    tail = f"{op.group}, {op.dilation}" if output_padding else f"{op.dilation}, {op.group}"
    arguments = f"{call.inputs[0]}, {kernel}, {bias}, {op.stride}, {op.pad}, {output_padding}{tail}"
    return f"functional.{name}{axes}d({arguments})"


def refuse_many_axes(node: Node, axes: int) -> None:
    """Raise ``UnsupportedLayerError`` for an image of more axes than PyTorch's functions read."""
    if axes > MOST_WINDOW_AXES:
        raise UnsupportedLayerError(
            f"has windows over {axes} axes, and PyTorch's functions have up to {MOST_WINDOW_AXES}",
            origin=node.origin,
            fix=Worded("end the net before the layer with {}", Option("outputs", ["BLOB"])),
        )


@expression(ops.Patches)
def _patches(call: Application) -> str:
    op = call.op
    return f"patches({call.inputs[0]}, {op.window}, {op.stride}, {pads_of(op.pad, op.pad)}, {op.dilation})"


@expression(ops.MaxPool)
def _max_pool(call: Application) -> str:
    op, x = call.op, call.inputs[0]
    axes = len(op.window)
    refuse_many_axes(call.node, axes)
    if any((*op.before, *op.after)):
        x = f"functional.pad({x}, {pads_of(op.before, op.after)}, value=-torch.inf)"
    return f"functional.max_pool{axes}d({x}, {op.window}, {op.stride})"


def _pool(function: str) -> Row:
    def row(call: Application) -> str:
        op = call.op
        refuse_many_axes(call.node, len(op.window))
        return f"{function}({call.inputs[0]}, {op.window}, {op.stride}, {pads_of(op.before, op.after)})"

    return row


expression(ops.AveragePool)(_pool("average_pool"))
expression(ops.StochasticPool)(_pool("stochastic_pool"))
expression(ops.MaxPoolIndex)(_pool("max_pool_index"))


@expression(ops.Count)
def _count(call: Application) -> str:
    op = call.op
    first, end, step = (call.size(each) for each in (op.first, op.first + op.size * op.step, op.step))
    return f"torch.arange({first}, {end}, {step}, dtype=torch.int32, device=device)"


_OPERATORS = {
    ops.BinaryKind.ADD: "+",
    ops.BinaryKind.SUBTRACT: "-",
    ops.BinaryKind.MULTIPLY: "*",
    ops.BinaryKind.DIVIDE: "/",
    ops.BinaryKind.GREATER: ">",
    ops.BinaryKind.EQUAL: "==",
    ops.BinaryKind.AND: "&",
    ops.BinaryKind.OR: "|",
}
_MIRRORED = {ops.BinaryKind.GREATER: "<", ops.BinaryKind.EQUAL: "=="}
"""For a number that stands first, which reads better behind."""


@expression(ops.Binary)
def _binary(call: Application) -> str:
    kind, (a, b) = call.op.kind, call.atoms
    if kind in _OPERATORS:
        if kind is ops.BinaryKind.DIVIDE and call.node.inputs[0].dtype is DType.INT32:
            return f'torch.div({call.inputs[0]}, {call.inputs[1]}, rounding_mode="trunc")'
        if kind in _MIRRORED and is_number(call.inputs[0]):
            return f"{b} {_MIRRORED[kind]} {a}"
        return f"{a} {_OPERATORS[kind]} {b}"
    if is_number(call.inputs[0]) or is_number(call.inputs[1]):
        x, bound = (b, call.inputs[0]) if is_number(call.inputs[0]) else (a, call.inputs[1])
        return f"{x}.clamp({'min' if kind is ops.BinaryKind.MAXIMUM else 'max'}={bound})"
    return f"torch.{kind.value}({call.inputs[0]}, {call.inputs[1]})"


@expression(ops.Unary)
def _unary(call: Application) -> str:
    kind = call.op.kind
    if kind in (ops.UnaryKind.NOT, ops.UnaryKind.NEGATIVE):
        return f"{'~' if kind is ops.UnaryKind.NOT else '-'}{call.atoms[0]}"
    return f"torch.{'abs' if kind is ops.UnaryKind.ABS else kind.value}({call.inputs[0]})"


@expression(ops.Cast)
def _cast(call: Application) -> str:
    if call.node.inputs[0].dtype is call.op.to:
        return call.inputs[0]
    methods = {DType.FLOAT32: "float", DType.INT32: "int", DType.BOOL: "bool"}
    return f"{call.atoms[0]}.{methods[call.op.to]}()"


@expression(ops.MatMul)
def _mat_mul(call: Application) -> str:
    a, b = call.atoms
    *stacks, _, _ = call.node.inputs[1].shape
    if call.node.inputs[1].is_constant and all(size == 1 for size in stacks):
        # PyTorch multiplies all rows by one matrix at once, and by a stack of matrices one after another.
        matrix = f"{b}[{', '.join('0' for _ in stacks)}]" if stacks else b
        return f"{a} @ {matrix}{'.T' * call.op.transpose_b}"
    return f"{a} @ {b}{'.transpose(-1, -2)' * call.op.transpose_b}"


@expression(ops.Reduce)
def _reduce(call: Application) -> str:
    op, x = call.op, call.node.inputs[0]
    name = {ops.ReduceKind.MAX: "amax", ops.ReduceKind.MIN: "amin"}.get(op.kind, op.kind.value)
    keep = ", keepdim=True" if op.keep else ""
    kind = ", dtype=torch.int32" if op.kind is ops.ReduceKind.SUM and x.dtype is DType.INT32 else ""
    return f"{call.atoms[0]}.{name}({in_tuple([*map(str, op.axes)])}{keep}{kind})"


@expression(ops.Resize)
def _resize(call: Application) -> str:
    size = call.sizes((call.op.height, call.op.width))
    return f'functional.interpolate({call.inputs[0]}, {size}, mode="bilinear", align_corners=True)'


@expression(ops.Scatter)
def _scatter(call: Application) -> str:
    x, index = call.atoms
    zeros = f"{x}.new_zeros(*{x}.shape[:-1], {call.size(call.op.size)})"
    return f"{zeros}.scatter(-1, {index}.long(), {call.inputs[0]})"


@expression(ops.Reshape)
def _reshape(call: Application) -> str:
    """A first axis that stays is ``-1``, so that a batch of another size fits."""
    x = call.node.inputs[0].shape
    target = [x[dim.index] if isinstance(dim, ops.Axis) else dim for dim in call.op.target]
    if not target:
        return f"{call.atoms[0]}.reshape(())"
    kept = 0
    while kept < min(len(x), len(target)) - 1 and x[kept] == target[kept]:
        kept += 1
    if 0 < kept == len(target) - 1 < len(x) - 1:
        return f"{call.atoms[0]}.flatten({kept})"
    sizes = [call.size(dim) for dim in target]
    if kept and 0 not in target:
        sizes[0] = "-1"
    return f"{call.atoms[0]}.reshape({', '.join(sizes)})"


@expression(ops.Slice)
def _slice(call: Application) -> str:
    op = call.op
    return f"{call.atoms[0]}.narrow({op.axis}, {call.size(op.start)}, {call.size(op.size)})"


@expression(ops.Concat)
def _concat(call: Application) -> str:
    return f"torch.cat({in_tuple(call.inputs)}, {call.op.axis})"


@expression(ops.Tile)
def _tile(call: Application) -> str:
    copies = ["1"] * call.rank
    copies[call.op.axis] = call.size(call.op.copies)
    return f"torch.tile({call.inputs[0]}, {in_tuple(copies)})"


@expression(ops.Plugin)
def _plugin(call: Application) -> str:
    raise UnsupportedLayerError(
        f"the plugin {call.op.name} computes it, and PyTorch has no such plugin",
        origin=call.node.origin,
        fix=Worded(
            "give a rule for it with {}, or end the net before it with {}",
            Option("rules", "FILE.py"),
            Option("outputs", ["BLOB"]),
        ),
    )


@expression(ops.Pad)
def _pad(call: Application) -> str:
    value = f", value={number(call.op.value)}" if call.op.value else ""
    return f"functional.pad({call.inputs[0]}, {pads_of(call.op.before, call.op.after)}{value})"


def size_text(dim: Dim, names: Callable[[str], str]) -> str:
    """A size as an expression over its symbols, which ``names`` gives names of Python."""
    if not isinstance(dim, OpenSize):
        return str(dim)
    words = sorted(map(re.escape, dim.symbols), key=len, reverse=True)
    text = re.sub(rf"(?<!\w)({'|'.join(words)})(?!\w)", lambda match: names(match[0]), str(dim))
    return re.sub(r"(?<=[\w)]) ?(//|[+*-]) ?", r" \1 ", text)


NOT_WRITTEN = (ops.Quantize, ops.Dequantize)
"""Primitives without a row: a net of 8 bits is refused."""

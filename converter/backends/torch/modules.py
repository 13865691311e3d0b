"""Layers that are one module of torch.nn: which primitives they are, its arguments, and its arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.backends.torch.expressions import number
from prototrt.surgery import ops
from prototrt.surgery.ir import Array, DType, Node, Op, Value


@dataclass(frozen=True, slots=True)
class LayerModule:
    """A module: how it is made, what it reads, and its arrays by their names in it.

    ``reads`` is the text that it reads, with ``{}`` for the value.
    """

    made: str
    x: Value
    reads: str = "{}"
    arrays: Mapping[str, Array] = field(default_factory=dict)


Row: TypeAlias = Callable[[Sequence[Node]], LayerModule | None]
_ROWS: dict[tuple[type[Op], ...], Row] = {}


def module_of(nodes: Sequence[Node]) -> LayerModule | None:
    """The module that equals the nodes of a layer, of which only the last one is read elsewhere."""
    row = _ROWS.get(tuple(type(node.op) for node in nodes))
    is_chain = all(before.outputs[0] in after.inputs for before, after in itertools.pairwise(nodes))
    return row(nodes) if row is not None and is_chain else None


def _equals(*kinds: type[Op]) -> Callable[[Row], Row]:
    """Register a row for a layer of these primitives, each of which reads the one before it."""

    def add(row: Row) -> Row:
        _ROWS[kinds] = row
        return row

    return add


def _short(sizes: Sequence[int]) -> int | tuple[int, ...]:
    """One number where all axes have the same."""
    return sizes[0] if len({*sizes}) == 1 else tuple(sizes)


def _arguments(*fixed: object, **others: tuple[object, object]) -> str:
    """Arguments for a call; those that equal their default, which stands second, are left out."""
    named = [f"{name}={value}" for name, (value, default) in others.items() if value != default]
    return ", ".join([*map(str, fixed), *named])


@_equals(ops.Convolution)
@_equals(ops.Deconvolution)
def _convolution(nodes: Sequence[Node]) -> LayerModule | None:
    op: Any = nodes[0].op
    x, kernel, bias = nodes[0].inputs
    if kernel.data is None or len(op.stride) not in (1, 2, 3):
        return None
    channels = x.shape[1]
    has_bias = bool(bias.array.any()) or not bias.name.endswith("no_bias")
    arguments = _arguments(
        channels,
        bias.shape[0],
        _short(kernel.data.shape[2:]),
        stride=(_short(op.stride), 1),
        padding=(_short(op.pad), 0),
        dilation=(_short(op.dilation), 1),
        groups=(op.group, 1),
        bias=(has_bias, True),
    )
    arrays = {"weight": kernel.data} | ({"bias": bias.array} if has_bias else {})
    name = "Conv" if isinstance(op, ops.Convolution) else "ConvTranspose"
    return LayerModule(f"nn.{name}{len(op.stride)}d({arguments})", x, arrays=arrays)


@_equals(ops.MatMul)
@_equals(ops.MatMul, type(ops.ADD))
@_equals(ops.Reshape, ops.MatMul)
@_equals(ops.Reshape, ops.MatMul, type(ops.ADD))
def _linear(nodes: Sequence[Node]) -> LayerModule | None:
    """A Linear, behind a flatten if Caffe's InnerProduct flattens."""
    nodes, reads, x = [*nodes], "{}", nodes[0].inputs[0]
    if isinstance(nodes[0].op, ops.Reshape):
        shape, rows = x.shape, nodes[0].outputs[0].shape
        axis = len(rows) - 1
        if axis == 0 or rows[:-1] != shape[:axis] or len(rows) >= len(shape):
            return None
        nodes, reads = nodes[1:], f"{{}}.flatten({axis})"
    product, weights = nodes[0], nodes[0].inputs[1]
    if product.op != ops.MatMul(transpose_b=True) or weights.data is None:
        return None
    outputs, inputs = weights.data.shape[-2:]
    arrays: dict[str, Array] = {"weight": weights.data.reshape(-1, inputs)}
    if weights.data.size != outputs * inputs:
        return None
    if len(nodes) == 2:
        bias = nodes[1].inputs[1]
        if (
            nodes[1].op != ops.ADD
            or bias.data is None
            or bias.data.shape[-1] != outputs
            or bias.data.size != outputs
        ):
            return None
        arrays["bias"] = bias.data.reshape(-1)
    return LayerModule(
        f"nn.Linear({_arguments(inputs, outputs, bias=(len(nodes) == 2, True))})", x, reads, arrays
    )


@_equals(ops.Gather)
@_equals(ops.Cast, ops.Gather)
def _embedding(nodes: Sequence[Node]) -> LayerModule | None:
    table, _ = nodes[-1].inputs
    ids = nodes[0].inputs[0] if len(nodes) == 2 else nodes[0].inputs[1]
    if table.data is None or table.dtype is not DType.FLOAT32 or len(table.shape) != 2 or ids.is_constant:
        return None
    return LayerModule(f"nn.Embedding{table.data.shape}", ids, "{}.long()", {"weight": table.data})


@_equals(ops.Affine)
def _affine(nodes: Sequence[Node]) -> LayerModule:
    x, scale, shift = nodes[0].inputs
    return LayerModule(f"Scale({x.shape[1]})", x, arrays={"weight": scale.array, "bias": shift.array})


def batch_norm(nodes: Sequence[Node], blobs: Sequence[Value]) -> LayerModule | None:
    """A BatchNorm with the mean and the variance that are the first blobs of the layer."""
    op, x = nodes[0].op, nodes[0].inputs[0]
    if (
        len(nodes) > 1
        or not isinstance(op, ops.Affine)
        or op.epsilon is None
        or len(x.shape) not in (2, 3, 4, 5)
    ):
        return None
    mean, variance = (blob.array for blob in blobs[:2])
    if not (variance > -op.epsilon).all() or not np.isfinite([mean, variance]).all():
        return None  # Caffe goes on with numbers that PyTorch never has
    arguments = _arguments(x.shape[1], eps=(number(op.epsilon), "1e-05"), affine=(False, True))
    statistics = {"running_mean": mean, "running_var": variance, "num_batches_tracked": np.array(0, np.int64)}
    return LayerModule(f"nn.BatchNorm{max(1, len(x.shape) - 2)}d({arguments})", x, arrays=statistics)


@_equals(ops.PReLU)
def _prelu(nodes: Sequence[Node]) -> LayerModule | None:
    x, slope = nodes[0].inputs
    if slope.data is None or slope.data.size not in (1, *slope.data.shape[1:2]):
        return None
    return LayerModule(f"nn.PReLU({slope.data.size})", x, arrays={"weight": slope.data.reshape(-1)})


@_equals(ops.LeakyReLU)
@_equals(ops.ELU)
@_equals(ops.LRN)
@_equals(ops.Sigmoid)
@_equals(ops.Softmax)
@_equals(ops.Softsign)
@_equals(ops.TanH)
def _function(nodes: Sequence[Node]) -> LayerModule:
    op: Any = nodes[0].op
    made: dict[type[Op], Callable[[], str]] = {
        ops.LeakyReLU: lambda: f"LeakyReLU({number(op.slope)})" if op.slope else "ReLU()",
        ops.ELU: lambda: f"ELU({'' if op.alpha == 1 else number(op.alpha)})",
        ops.LRN: lambda: (
            f"LocalResponseNorm({op.size}, {number(op.alpha)}, {number(op.beta)}, {number(op.k)})"
        ),
        ops.Sigmoid: lambda: "Sigmoid()",
        ops.Softmax: lambda: f"Softmax(dim={op.axis})",
        ops.Softsign: lambda: "Softsign()",
        ops.TanH: lambda: "Tanh()",
    }
    return LayerModule(f"nn.{made[type(op)]()}", nodes[0].inputs[0])


@_equals(ops.MaxPool)
@_equals(ops.AveragePool)
@_equals(ops.Pad, ops.AveragePool)
def _pool_module(nodes: Sequence[Node]) -> LayerModule | None:
    """Caffe's last windows may reach beyond the image, as PyTorch's with ``ceil_mode``."""
    op: Any = nodes[-1].op
    x, y = nodes[0].inputs[0], nodes[-1].outputs[0]
    axes = len(op.window)
    pads = op.before
    if isinstance(nodes[0].op, ops.Pad):
        pad = nodes[0].op
        if pad.value or any(pad.before[:2] + pad.after[:2]) or any(op.before):
            return None
        pads = pad.before[2:]
    elif isinstance(op, ops.AveragePool) and any(pads):
        return None
    is_half = all(0 <= pad <= size // 2 for pad, size in zip(pads, op.window, strict=True))
    ceils = [
        ceil for ceil in (False, True) if _windows(x, op.window, op.stride, pads, ceil) == list(y.shape[2:])
    ]
    if axes not in (1, 2, 3) or not is_half or not ceils:
        return None
    # A mean divides by the elements of the padded image in a window: PyTorch's does so as well.
    arguments = _arguments(
        _short(op.window), _short(op.stride), padding=(_short(pads), 0), ceil_mode=(ceils[0], False)
    )
    return LayerModule(f"nn.{'Max' if isinstance(op, ops.MaxPool) else 'Avg'}Pool{axes}d({arguments})", x)


def _windows(
    x: Value, window: Sequence[int], stride: Sequence[int], pads: Sequence[int], ceil: bool
) -> list[int] | None:
    """How many windows PyTorch lays over each axis; None where a size varies."""
    counts = []
    for axis, (size, step, pad) in enumerate(zip(window, stride, pads, strict=True)):
        length = x.shape[2 + axis]
        if not isinstance(length, int) or length + 2 * pad < size:
            return None  # PyTorch refuses a window that is larger than the image
        count = (length + 2 * pad - size + (step - 1) * ceil) // step + 1
        counts.append(count - (ceil and (count - 1) * step >= length + pad))
    return counts

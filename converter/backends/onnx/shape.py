"""Lowerings of what moves elements without changing them."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.api import element_type
from prototrt.converter.backends.onnx.elementwise import chosen_integer
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Dim, Size
from prototrt.surgery.ops import (
    Axis,
    BinaryKind,
    Concat,
    Pad,
    Reshape,
    Reverse,
    ReverseSequence,
    Slice,
    Tile,
    Transpose,
)

_END = (1 << 63) - 1
"""What a Slice takes for the end of an axis."""


@lowers(Reshape)
def reshape(model: OnnxModel, op: Reshape, x: Tensor) -> list[str]:
    sizes: list[Dim] = [x.shape[dim.index] if isinstance(dim, Axis) else dim for dim in op.target]
    fixed_sizes = [size for size in sizes if isinstance(size, int)]
    if len(fixed_sizes) == len(sizes):
        return [model.add("Reshape", x, model.integers(*fixed_sizes))]
    return [
        model.add("Reshape", x, model.add("Concat", *(_size(model, x, dim) for dim in op.target), axis=0))
    ]


def _size(model: OnnxModel, x: Tensor, dim: Size | Axis) -> str:
    return model.sizes(x, [dim.index]) if isinstance(dim, Axis) else model.size(dim)


@lowers(Transpose)
def transpose(model: OnnxModel, op: Transpose, x: Tensor) -> list[str]:
    return [model.add("Transpose", x, perm=op.order)]


@lowers(Slice)
def slice_(model: OnnxModel, op: Slice, x: Tensor) -> list[str]:
    start, end, axis = model.size(op.start), model.size(op.start + op.size), model.integers(op.axis)
    return [model.add("Slice", x, start, end, axis)]


@lowers(Tile)
def tile(model: OnnxModel, op: Tile, x: Tensor) -> list[str]:
    copies = [op.copies if axis == op.axis else 1 for axis in range(x.rank)]
    return [model.add("Tile", x, model.size_vector(copies))]


@lowers(Pad)
def pad(model: OnnxModel, op: Pad, x: Tensor) -> list[str]:
    # onnxruntime 1.22 leaves garbage where a Pad cuts off every element and adds others: cut after adding.
    counts = [*op.before, *op.after]
    added, cut = [max(count, 0) for count in counts], [max(-count, 0) for count in counts]
    result = x.name
    if any(added) or not any(cut):
        result = model.add("Pad", result, model.integers(*added), model.scalar(op.value, x.dtype))
    if any(cut):
        axes = [axis for axis in range(x.rank) if cut[axis] or cut[axis + x.rank]]
        starts = [cut[axis] for axis in axes]
        ends = [-cut[axis + x.rank] or _END for axis in axes]
        result = model.add("Slice", result, *(model.integers(*each) for each in (starts, ends, axes)))
    return [result]


@lowers(Concat)
def concat(model: OnnxModel, op: Concat, *inputs: Tensor) -> list[str]:
    return [model.add("Concat", *inputs, axis=op.axis)]


@lowers(Reverse)
def reverse(model: OnnxModel, op: Reverse, x: Tensor) -> list[str]:
    return [reverse_axis(model, x, op.axis)]


@lowers(ReverseSequence)
def reverse_sequence(model: OnnxModel, op: ReverseSequence, x: Tensor, lengths: Tensor) -> list[str]:
    # onnxruntime up to 1.23 writes nothing where a length is 0. One element reversed is the same.
    counts = model.add("Cast", lengths, to=element_type(np.dtype(np.int64)))
    counts = chosen_integer(model, BinaryKind.MAXIMUM, counts, model.integers(1))
    return [model.add("ReverseSequence", x, counts, time_axis=0, batch_axis=1)]


def reverse_axis(model: OnnxModel, x: Tensor, axis: int) -> str:
    """The elements of one axis from the last to the first."""
    last, before_first, backwards = model.integers(-1), model.integers(-(1 << 31)), model.integers(-1)
    return model.add("Slice", x, last, before_first, model.integers(axis), backwards)

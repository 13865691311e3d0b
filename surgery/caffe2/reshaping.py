"""Operators that reshape a blob, or return its shape."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import GIVE_SHAPES_AND_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.target_shapes import reshaped
from prototrt.surgery.caffe2.operator_rule import integers, merge_sizes, misfit, operator_rule, sizes_of
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import Tile


@operator_rule("Reshape")
def reshape(build: Builder, operator: Operator, x: Value, shape: Value | None = None) -> list[Value]:
    """Another shape: 0 copies the size at the same place, one -1 takes the rest.

    Becomes: Reshape.
    Outputs: the result, and the shape before.
    """
    sizes = sizes_of(build, operator, "shape", 1, shape)
    y = build.reshape(x, reshaped(x.shape, 0, len(x.shape), sizes))
    return [y, integers(build, x.shape)] if all(isinstance(dim, int) for dim in x.shape) else [y]


@operator_rule("Flatten", "FlattenToVec")
def flatten(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Two axes: those before ``axis``, and those from it on. FlattenToVec merges all axes into one.

    Becomes: Reshape.
    """
    if operator.type == "FlattenToVec":
        return [build.reshape(x, (merge_sizes(x.shape),))]
    axis = operator.arguments.integer("axis", 1)
    if not 0 <= axis <= len(x.shape):
        raise NetError(
            f"axis is {axis}, but the input has {len(x.shape)} axes: {x.shape}", fix=MEND_ARGUMENTS
        )
    return [build.reshape(x, (merge_sizes(x.shape[:axis]), merge_sizes(x.shape[axis:])))]


@operator_rule("Squeeze")
def squeeze(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Removes the axes ``dims``, which have size 1.

    Becomes: Reshape.
    """
    dims = operator.arguments.integers("dims")
    if any(not 0 <= axis < len(x.shape) or x.shape[axis] != 1 for axis in dims):
        raise ShapeError(
            f"dims are {list(dims)}, expected axes of size 1 of an input of shape {x.shape}",
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    return [build.reshape(x, tuple(dim for axis, dim in enumerate(x.shape) if axis not in dims))]


@operator_rule("ExpandDims")
def expand_dims(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Inserts axes of size 1 at the positions ``dims`` of the result.

    Becomes: Reshape.
    """
    dims = sorted(set(operator.arguments.integers("dims")))
    rank = len(x.shape) + len(dims)
    if any(not 0 <= axis < rank for axis in dims):
        raise NetError(f"dims are {dims}, expected places from 0 to {rank - 1}", fix=MEND_ARGUMENTS)
    rest = iter(x.shape)
    return [build.reshape(x, tuple(1 if axis in dims else next(rest) for axis in range(rank)))]


@operator_rule("Shape")
def shape_operator(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The sizes of the input, or of its ``axes``.

    Becomes: a constant.
    """
    axes = operator.arguments.integers("axes") or range(len(x.shape))
    if not set(axes) <= set(range(len(x.shape))):
        raise NetError(
            f"axes are {list(axes)}, expected axes from 0 to {len(x.shape) - 1}", fix=MEND_ARGUMENTS
        )
    return [integers(build, [fixed(x.shape[axis], f"axis {axis}") for axis in axes])]


@operator_rule("Size")
def size_operator(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """How many elements the input has.

    Becomes: a constant.
    """
    count = fixed(merge_sizes(x.shape), "the number of elements")
    return [build.constant(np.array(count, np.int32), "size")]


@operator_rule("ResizeLike")
def resize_like(build: Builder, operator: Operator, x: Value, like: Value) -> list[Value]:
    """The elements of x in the shape of another input.

    Becomes: Reshape.
    """
    return [build.reshape(x, like.shape)]


@operator_rule("PrependDim")
def prepend_dim(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Splits the first axis into two, the first of size ``dim_size``.

    Becomes: Reshape.
    """
    size, total = operator.arguments.integer("dim_size", 0), fixed(x.shape[0] if x.shape else 0, "axis 0")
    if size < 1 or total % size:
        raise ShapeError(
            f"dim_size is {size}, which does not divide axis 0 of {x.shape}",
            fix="state parts that fit, or feed another size",
        )
    return [build.reshape(x, (size, total // size, *x.shape[1:]))]


@operator_rule("MergeDim")
def merge_dim(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Merges the first two axes.

    Becomes: Reshape.
    """
    if len(x.shape) < 2:
        raise misfit(operator, 0, x, "two axes or more")
    return [build.reshape(x, (merge_sizes(x.shape[:2]), *x.shape[2:]))]


@operator_rule("Expand")
def expand(build: Builder, operator: Operator, x: Value, shape: Value) -> list[Value]:
    """Broadcasts x to a shape as in NumPy. Where the shape has ones, x keeps its sizes.

    Becomes: Reshape, Tile.
    """
    sizes = sizes_of(build, operator, "shape", 1, shape)
    x = build.aligned(x, max(len(x.shape), len(sizes)))
    for axis, size in enumerate(sizes, len(x.shape) - len(sizes)):
        if x.shape[axis] == 1 and size > 1:
            x = build.add(Tile(axis, size), x)
        elif size not in (1, x.shape[axis]):
            raise ShapeError(f"{x.shape} cannot be stretched to {tuple(sizes)}", fix="state sizes that fit")
    return [x]

"""Matrix products and lookup."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import (
    axis_of,
    expect_whole_numbers,
    merge_sizes,
    misfit,
    operator_rule,
)
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import Gather, MatMul, Transpose


@operator_rule("FC", "FCTransposed")
def fully_connected(build: Builder, operator: Operator, x: Value, weights: Value, bias: Value) -> list[Value]:
    """``x W^T + b`` over everything from ``axis`` on; ``x W + b`` for FCTransposed.

    Becomes: MatMul, Add.
    Inputs: x (..., K...), weights (outputs, K) after flattening at ``axis_w``, bias (outputs,).
    """
    axis, axis_w = axis_of(operator, x.shape, 1), axis_of(operator, weights.shape, 1, "axis_w")
    inputs = merge_sizes(x.shape[axis:])
    rows = build.reshape(weights, (merge_sizes(weights.shape[:axis_w]), merge_sizes(weights.shape[axis_w:])))
    is_transposed = operator.type == "FCTransposed"
    outputs, columns = rows.shape[::-1] if is_transposed else rows.shape
    if columns != inputs:
        because = f'"{operator.bottom_blob(0)}" has the shape {x.shape}, flattened from axis {axis} on'
        raise misfit(operator, 1, weights, f"{inputs} columns", because)
    if bias.shape != (outputs,):
        raise misfit(operator, 2, bias, f"({outputs},)")
    flat = build.reshape(x, (*x.shape[:axis], inputs) if axis else (1, inputs), hint="rows")
    y = build.product(flat, rows, transpose=is_transposed)
    y = (y + build.aligned(bias, len(y.shape))).named("biased")
    return [build.reshape(y, (*x.shape[:axis], outputs))]


@operator_rule("MatMul")
def matmul(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """``a b`` of two matrices. Blobs with more axes are flattened at ``axis_a`` and ``axis_b``.

    Becomes: Transpose, MatMul.
    """
    axis_a, axis_b = axis_of(operator, a.shape, 1, "axis_a"), axis_of(operator, b.shape, 1, "axis_b")
    matrices = [
        build.reshape(value, (merge_sizes(value.shape[:axis]), merge_sizes(value.shape[axis:])))
        for value, axis in ((a, axis_a), (b, axis_b))
    ]
    return [_product(build, operator, *matrices)]


@operator_rule("BatchMatMul")
def batch_matmul(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """``a b`` for each element of the leading axes, which broadcast as in NumPy with ``broadcast``.

    Becomes: Transpose, MatMul.
    An ``a`` of one axis is a row, a ``b`` of one axis is a column; that axis is dropped from the result.
    """
    matrices = [
        build.reshape(value, (*value.shape, 1) if index else (1, *value.shape))
        if len(value.shape) == 1
        else value
        for index, value in enumerate((a, b))
    ]
    leading = [matrix.shape[:-2] for matrix in matrices]
    if leading[0] != leading[1] and not operator.arguments.flag("broadcast"):
        raise ShapeError(
            f"shapes are {a.shape} and {b.shape}, which differ before the last two axes",
            fix="set broadcast to 1",
        )
    rank = max(len(matrix.shape) for matrix in matrices)
    y = _product(build, operator, *(build.aligned(matrix, rank) for matrix in matrices))
    dropped = [axis for axis, value in ((rank - 2, a), (rank - 1, b)) if len(value.shape) == 1]
    return [build.reshape(y, tuple(dim for axis, dim in enumerate(y.shape) if axis not in dropped))]


def _product(build: Builder, operator: Operator, a: Value, b: Value) -> Value:
    if operator.arguments.flag("trans_a"):
        rank = len(a.shape)
        a = build.add(Transpose((*range(rank - 2), rank - 1, rank - 2)), a, hint="transposed")
    return build.add(MatMul(transpose_b=operator.arguments.flag("trans_b")), a, b)


@operator_rule("Gather", "BatchGather")
def gather(build: Builder, operator: Operator, table: Value, index: Value) -> list[Value]:
    """The elements at the indices along ``axis`` (by default 0; 1 in BatchGather).

    Becomes: Gather; Transpose around it where the axis is not the first.
    Inputs: table, and indices of any shape, whose axes replace the axis.
    """
    expect_whole_numbers(operator, index, 1)
    axis = axis_of(operator, table.shape, 1 if operator.type == "BatchGather" else 0)
    if axis == 0:
        return [build.add(Gather(), table, _wrap(build, table, index))]
    return [build.gathered(table, index, axis)]


def _wrap(build: Builder, table: Value, index: Value) -> Value:
    """Constant indices, with negative ones counted from the front."""
    if index.data is None or index.data.min(initial=0) >= 0:
        return index
    rows = fixed(table.shape[0], "axis 0")
    return build.constant(np.where(index.data < 0, index.data + rows, index.data), "index")

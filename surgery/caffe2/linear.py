"""Matrix products and lookup."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import ShapeError
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.operator_rule import axis_of, expect_axes, flattened, operator_rule
from prototrt.surgery.ir import Value
from prototrt.surgery.ops import ADD, Gather, MatMul, Transpose


@operator_rule("FC", "FCTransposed")
def fully_connected(build: Builder, operator: Operator, x: Value, weights: Value, bias: Value) -> list[Value]:
    """``x W^T + b`` over everything from ``axis`` on; ``x W + b`` for FCTransposed.

    Becomes: MatMul, Add.
    Inputs: x (..., K...), weights (outputs, K) after flattening at ``axis_w``, bias (outputs,).
    """
    axis, axis_w = axis_of(operator, x.shape, 1), axis_of(operator, weights.shape, 1, "axis_w")
    inputs = flattened(x.shape[axis:])
    rows = build.reshape(weights, (flattened(weights.shape[:axis_w]), flattened(weights.shape[axis_w:])))
    is_transposed = operator.type == "FCTransposed"
    outputs, columns = rows.shape[::-1] if is_transposed else rows.shape
    if columns != inputs:
        raise ShapeError(
            f"shape is {weights.shape}, expected {inputs} columns",
            blob=f'input "{operator.bottom_blob(1)}"',
            because=f'"{operator.bottom_blob(0)}" has the shape {x.shape}, flattened from axis {axis} on',
        )
    if flattened(bias.shape) != outputs:
        raise ShapeError(
            f"shape is {bias.shape}, expected ({outputs},)", blob=f'input "{operator.bottom_blob(2)}"'
        )
    flat = build.reshape(x, (*x.shape[:axis], inputs) if axis else (1, inputs), hint="rows")
    y = build.product(flat, rows, transpose=is_transposed)
    y = build.add(ADD, y, build.aligned(build.reshape(bias, (outputs,)), len(y.shape)), hint="biased")
    return [build.reshape(y, (*x.shape[:axis], outputs))]


@operator_rule("MatMul")
def matmul(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """``a b`` of two matrices, which ``axis_a`` and ``axis_b`` make of more axes.

    Becomes: Transpose, MatMul.
    """
    axis_a, axis_b = axis_of(operator, a.shape, 1, "axis_a"), axis_of(operator, b.shape, 1, "axis_b")
    matrices = [
        build.reshape(value, (flattened(value.shape[:axis]), flattened(value.shape[axis:])))
        for value, axis in ((a, axis_a), (b, axis_b))
    ]
    return [_product(build, operator, *matrices)]


@operator_rule("BatchMatMul")
def batch_matmul(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """``a b`` for each element of the leading axes, which stretch as in NumPy.

    Becomes: Transpose, MatMul.
    """
    if min(len(a.shape), len(b.shape)) < 2:
        raise ShapeError(f"shapes are {a.shape} and {b.shape}, expected two axes or more")
    rank = max(len(a.shape), len(b.shape))
    return [_product(build, operator, build.aligned(a, rank), build.aligned(b, rank))]


def _product(build: Builder, operator: Operator, a: Value, b: Value) -> Value:
    if operator.arguments.flag("trans_a"):
        rank = len(a.shape)
        a = build.add(Transpose((*range(rank - 2), rank - 1, rank - 2)), a, hint="transposed")
    return build.add(MatMul(transpose_b=operator.arguments.flag("trans_b")), a, b)


@operator_rule("Gather")
def gather(build: Builder, operator: Operator, table: Value, index: Value) -> list[Value]:
    """Rows of a table, picked by whole numbers.

    Becomes: Gather.
    """
    axis = axis_of(operator, table.shape, 0)
    if axis:
        expect_axes(operator, table, 1, "one axis, since axis is not 0")
    return [build.add(Gather(), table, index)]

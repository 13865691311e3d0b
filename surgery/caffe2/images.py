"""Images in another size."""

from __future__ import annotations

import math

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_SHAPES_AND_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.caffe2.linear import gathered
from prototrt.surgery.caffe2.operator_rule import expect_axes, known, operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import pads_of
from prototrt.surgery.ir import Array, Value, fixed
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ops import ADD, MULTIPLY, SUBTRACT, MatMul, Pad

LONGEST = 1 << 20
LARGEST_MATRIX = 1 << 20


@operator_rule("ResizeNearest")
def resize_nearest(build: Builder, operator: Operator, x: Value, scales: Value | None = None) -> list[Value]:
    """Every element of the result is the element at its place divided by the scale, rounded down.

    Becomes: Transpose, Gather, one an axis.
    Inputs: x (N, C, H, W), and (height scale, width scale) where they are no arguments.
    """
    for axis, scale in enumerate(_scales(build, operator, x, scales), 2):
        size = fixed(x.shape[axis], f"axis {axis}")
        # Caffe2 divides in 32 bits, too.
        index = (np.arange(_grown(size, scale), dtype=np.float32) / scale).astype(np.int32)
        x = gathered(build, x, build.constant(np.minimum(index, size - 1), "nearest"), axis)
    return [x]


@operator_rule("UpsampleBilinear")
def upsample_bilinear(
    build: Builder, operator: Operator, x: Value, scales: Value | None = None
) -> list[Value]:
    """Between the elements of the input stand their weighted means; the corners stay corners.

    Becomes: MatMul, one an axis; Transpose, Gather, Subtract, Multiply, Add for large images.
    Inputs: x (N, C, H, W), and (height scale, width scale) where they are no arguments.
    """
    of_rows, of_columns = _scales(build, operator, x, scales)
    return [_stretched(build, _stretched(build, x, 3, of_columns), 2, of_rows)]


def _stretched(build: Builder, x: Value, axis: int, scale: np.float32) -> Value:
    """Means of neighbours along height or width: as a product, or where its matrix is large, picked and added."""
    size = fixed(x.shape[axis], f"axis {axis}")
    first, second, share = _neighbours(size, _grown(size, scale))
    if len(first) * size <= LARGEST_MATRIX:
        matrix = _matrix(size, first, second, share)
        if axis == 3:
            return build.product(x, build.constant(matrix, "columns"), hint="wide")
        return build.add(MatMul(), build.aligned(build.constant(matrix, "rows"), 4), x)
    before, after = (gathered(build, x, build.constant(index, "place"), axis) for index in (first, second))
    factor = build.aligned(build.constant(share.astype(np.float32), "share"), 4, axis)
    step = build.add(MULTIPLY, build.add(SUBTRACT, after, before), factor, hint="step")
    return build.add(ADD, before, step, hint="between")


def _scales(
    build: Builder, operator: Operator, x: Value, scales: Value | None
) -> tuple[np.float32, np.float32]:
    """The scales of height and width."""
    refuse_order(operator)
    expect_axes(operator, x, 4, "(N, C, H, W)")
    found = [operator.arguments.number(f"{name}_scale", 1.0) for name in ("height", "width")]
    if scales is not None:
        array = known(build, operator, 1, scales).reshape(-1)
        if array.size != 2:
            raise ShapeError(
                f"shape is {scales.shape}, expected (2,)",
                blob=f'input "{operator.bottom_blob(1)}"',
                fix=GIVE_SHAPES_AND_INIT_NET,
            )
        found = array.tolist()
    if not all(0 < scale < math.inf for scale in found):
        raise NetError(f"the scales are {found}, expected more than 0", fix="state scales above 0")
    return np.float32(found[0]), np.float32(found[1])


def _grown(size: int, scale: np.float32) -> int:
    grown = int(np.float32(size) * scale)
    if grown < 1:
        raise ShapeError(
            f"a size of {size} times {scale:g} is less than 1", fix="use a larger scale, or a larger input"
        )
    _refuse_length(grown)
    return grown


def _refuse_length(size: int) -> None:
    if size > LONGEST:
        raise ShapeError(
            f"an axis becomes {size} elements long, expected at most {LONGEST}", fix="use a smaller size"
        )


def _neighbours(size: int, out: int) -> tuple[Array, Array, Array]:
    """Between which elements of the input (size,) those of the result (out,) lie, and how near to the second."""
    place = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
    first = np.minimum(place.astype(np.int32), size - 1)
    return first, np.minimum(first + 1, size - 1), place - first


def _matrix(size: int, first: Array, second: Array, share: Array) -> Array:
    """What each element of the result takes from each of the input: (out, size)."""
    weights = np.zeros((len(first), size), np.float32)
    np.add.at(weights, (np.arange(len(first)), first), 1 - share)
    np.add.at(weights, (np.arange(len(first)), second), share)
    return weights


@operator_rule("PadImage")
def pad_image(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Rows and columns around images: ``value``, or with ``mode`` edge the last ones repeated, or with
    reflect those inside mirrored.

    Becomes: Pad; Transpose, Gather for edge and reflect.
    """
    refuse_order(operator)
    expect_axes(operator, x, 4, "(N, C, H, W)")
    before, after = pads_of(build, operator, 2)
    mode = operator.arguments.text("mode", "constant")
    if mode == "constant":
        value = operator.arguments.number("value", 0.0)
        return [build.add(Pad((0, 0, *before), (0, 0, *after), value), x)]
    if mode not in ("edge", "reflect"):
        raise UnsupportedLayerError(
            f'mode is "{mode}", expected constant, edge or reflect',
            fix=CUT_BEFORE,
        )
    for axis, ends in enumerate(zip(before, after, strict=True), 2):
        size = fixed(x.shape[axis], f"axis {axis}")
        if mode == "reflect" and max(ends) >= size:
            raise ShapeError(
                f"axis {axis} has {size} elements, of which {max(ends)} cannot be mirrored",
                fix="use a smaller pad or a larger input",
            )
        _refuse_length(size + sum(ends))
        index = np.pad(np.arange(size, dtype=np.int32), ends, mode=mode)  # type: ignore[call-overload]
        x = gathered(build, x, build.constant(index, mode), axis) if any(ends) else x
    return [x]

"""Operators that resize images."""

from __future__ import annotations

import math

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_SHAPES_AND_INIT_NET
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.caffe2.operator_rule import expect_axes, known, operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import pads_of
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.layers.resampling import refuse_length, stretched
from prototrt.surgery.ops import Pad


@operator_rule("ResizeNearest")
def resize_nearest(build: Builder, operator: Operator, x: Value, scales: Value | None = None) -> list[Value]:
    """Resizes by the nearest element: ``y[i] = x[floor(i / scale)]`` along height and width.

    Becomes: Transpose, Gather, one per axis.
    Inputs: x (N, C, H, W), and (height scale, width scale) unless they are arguments.
    """
    for axis, scale in enumerate(_scales(build, operator, x, scales), 2):
        size = fixed(x.shape[axis], f"axis {axis}")
        # Caffe2 also divides in 32 bits.
        index = (np.arange(_grown(size, scale), dtype=np.float32) / scale).astype(np.int32)
        x = build.gathered(x, build.constant(np.minimum(index, size - 1), "nearest"), axis)
    return [x]


@operator_rule("UpsampleBilinear")
def upsample_bilinear(
    build: Builder, operator: Operator, x: Value, scales: Value | None = None
) -> list[Value]:
    """Resizes by linear interpolation, with aligned corners.

    Becomes: MatMul, one per axis; Transpose, Gather, Subtract, Multiply, Add for large images.
    Inputs: x (N, C, H, W), and (height scale, width scale) unless they are arguments.
    """
    of_rows, of_columns = _scales(build, operator, x, scales)
    for axis, scale in ((3, of_columns), (2, of_rows)):
        x = stretched(build, x, axis, _grown(fixed(x.shape[axis], f"axis {axis}"), scale))
    return [x]


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
        raise NetError(
            f"the scales are {found}, expected more than 0",
            fix="set height_scale and width_scale to positive numbers",
        )
    return np.float32(found[0]), np.float32(found[1])


def _grown(size: int, scale: np.float32) -> int:
    grown = int(np.float32(size) * scale)
    if grown < 1:
        raise ShapeError(
            f"a size of {size} times {scale:g} is less than 1", fix="use a larger scale, or a larger input"
        )
    refuse_length(grown)
    return grown


@operator_rule("PadImage")
def pad_image(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Pads images with ``value``; with ``mode`` edge, with the outermost rows and columns; with reflect, with
    the mirrored ones inside.

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
        refuse_length(size + sum(ends))
        index = np.pad(np.arange(size, dtype=np.int32), ends, mode=mode)  # type: ignore[call-overload]  # one of three words
        x = build.gathered(x, build.constant(index, mode), axis) if any(ends) else x
    return [x]

"""Operators that resize images."""

from __future__ import annotations

import math

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import (
    constant_array,
    expect_axes,
    misfit,
    operator_rule,
    refuse_order,
)
from prototrt.surgery.caffe2.windows import pads_of
from prototrt.surgery.images.resizing import refuse_length, repeated, with_aligned_corners
from prototrt.surgery.ir import DType, OpenSize, Size, computable, range_of
from prototrt.surgery.ir.range_words import one_size
from prototrt.surgery.ops import Clip, Pad
from prototrt.surgery.ops.windows import larger_smallest, sizes_of


@operator_rule("ResizeNearest")
def resize_nearest(build: Builder, operator: Operator, x: Value, scales: Value | None = None) -> list[Value]:
    """Resizes by the nearest element: ``y[i] = x[floor(i / scale)]`` along height and width.

    Becomes: Transpose, Gather, one per axis. Over sizes that vary also arithmetic on places; Reshape, Tile where the
    scales are whole numbers.
    Inputs: x (N, C, H, W), and (height scale, width scale) unless they are arguments.
    """
    factors = _scales(build, operator, x, scales)
    is_open = any(isinstance(size, OpenSize) for size in x.shape[2:])
    if is_open and all(scale.is_integer() for scale in factors):
        for size, scale in zip(x.shape[2:], factors, strict=True):
            _scale_size(computable(size, "a size of the image"), scale)
        return [repeated(build, x, (int(factors[0]), int(factors[1])))]
    for axis, scale in enumerate(factors, 2):
        size = computable(x.shape[axis], f"axis {axis}")
        out = _scale_size(size, scale)
        if isinstance(size, int) and isinstance(out, int):
            # Caffe2 also divides in 32 bits.
            index = (np.arange(out, dtype=np.float32) / scale).astype(np.int32)
            nearest = build.constant(np.minimum(index, size - 1), "nearest")
        else:
            places = build.counted_numbers(out, "places", dtype=DType.FLOAT32)
            nearest = (places / float(scale)).cast(DType.INT32).at_most(size - 1)
        x = build.gathered(x, nearest, axis)
    return [x]


@operator_rule("UpsampleBilinear")
def upsample_bilinear(
    build: Builder, operator: Operator, x: Value, scales: Value | None = None
) -> list[Value]:
    """Resizes by linear interpolation, with aligned corners.

    Becomes: MatMul, one per axis; Transpose, Gather, Subtract, Multiply, Add for large images; Resize over sizes that
    vary.
    Inputs: x (N, C, H, W), and (height scale, width scale) unless they are arguments.
    """
    of_rows, of_columns = _scales(build, operator, x, scales)
    height, width = computable(x.shape[2], "axis 2"), computable(x.shape[3], "axis 3")
    return [with_aligned_corners(build, x, (_scale_size(height, of_rows), _scale_size(width, of_columns)))]


@operator_rule("UpsampleNearest")
def upsample_nearest(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """Repeats each element ``scale`` times along height and width, by default twice.

    Becomes: Reshape, Tile.
    Inputs: x (N, C, H, W) or (C, H, W).
    Source: pytorch ``modules/detectron/upsample_nearest_op.h``.
    """
    scale = operator.arguments.integer("scale", 2)
    if scale < 1:
        raise NetError(f"scale is {scale}, expected at least 1", fix=MEND_ARGUMENTS)
    if len(x.shape) == 3:
        whole = upsample(build, build.reshape(x, (1, *x.shape)), scale)
        return [build.reshape(whole, whole.shape[1:])]
    expect_axes(operator, x, 4, "(N, C, H, W)")
    return [upsample(build, x, scale)]


def upsample(build: Builder, x: Value, scale: int) -> Value:
    """Every element of x (N, C, H, W) as often as the scale says."""
    for size in x.shape[2:]:
        refuse_length(range_of(computable(size, "a size of the image") * scale).max)
    return repeated(build, x, (scale, scale))


def _scales(
    build: Builder, operator: Operator, x: Value, scales: Value | None
) -> tuple[np.float32, np.float32]:
    """The scales of height and width."""
    refuse_order(operator)
    expect_axes(operator, x, 4, "(N, C, H, W)")
    factors = [operator.arguments.number(f"{name}_scale", 1.0) for name in ("height", "width")]
    if scales is not None:
        array = constant_array(build, operator, 1, scales).reshape(-1)
        if array.size != 2:
            raise misfit(operator, 1, scales, "(2,)")
        factors = array.tolist()
    if not all(0 < scale < math.inf for scale in factors):
        raise NetError(
            f"the scales are {factors}, expected more than 0",
            fix="set height_scale and width_scale to positive numbers",
        )
    return np.float32(factors[0]), np.float32(factors[1])


EXACT_IN_FLOAT32 = 1 << 24
"""Whole numbers up to this one are exact in 32 bits, and so are sums and quotients by powers of two."""


def _scale_size(size: Size, scale: np.float32) -> Size:
    """The size times the scale, rounded down."""
    grown: Size
    if isinstance(size, int):
        refuse_length(size * float(scale))
        grown = int(np.float32(size) * scale)
    else:
        grown = _scale_open_size(size, *scale.item().as_integer_ratio())
    span = range_of(grown)
    if span.min < 1:
        raise ShapeError(
            f"a size of {range_of(size).min} times {scale:g} is less than 1",
            fix=larger_smallest(size, "use a larger scale, or a larger input"),
        )
    refuse_length(span.max)
    return grown


def _scale_open_size(size: OpenSize, numerator: int, denominator: int) -> Size:
    """The size times a scale, which is this fraction in 32 bits."""
    if size.range.max * numerator > EXACT_IN_FLOAT32:
        raise ShapeError(
            f"the scale is {numerator / denominator:g}, but the size {size} varies",
            because="Caffe2 rounds the product in 32 bits, which is known only for fractions such as 1.5 or 0.25",
            fix=Worded("use such a scale, or {}", one_size(size.symbols)),
        )
    return size * numerator // denominator


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
        raise UnsupportedLayerError(f'mode is "{mode}", expected constant, edge or reflect', fix=CUT_BEFORE)
    for axis, ends in enumerate(zip(before, after, strict=True), 2):
        if any(ends):
            x = build.gathered(x, _padded_places(build, x, axis, ends, mode), axis)
    return [x]


def _padded_places(build: Builder, x: Value, axis: int, ends: tuple[int, int], mode: str) -> Value:
    """Which element of an axis each element of the padded axis is."""
    size = computable(x.shape[axis], f"axis {axis}")
    span = range_of(size)
    if mode == "reflect" and max(ends) >= span.min:
        raise ShapeError(
            f"axis {axis} has {sizes_of(size)} elements, expected more than {max(ends)}, which are mirrored",
            fix=larger_smallest(size, "use a smaller pad or a larger input"),
        )
    refuse_length(span.max + sum(ends))
    if isinstance(size, int):
        index = np.pad(np.arange(size, dtype=np.int32), ends, mode=mode)  # type: ignore[call-overload]  # one of two words
        return build.constant(index, mode)
    places = build.counted_numbers(size + sum(ends), "places", first=-ends[0])
    if mode == "reflect":  # what is before the first element, then what is after the last one
        places = places.at_least(places * -1)
        places = places.at_most(places * -1 + (size - 1) * 2)
    return places.at_least(0).at_most(size - 1)


@operator_rule("PackedInt8BGRANHWCToNCHWCStylizerPreprocess")
def planes_of_bytes(build: Builder, operator: Operator, x: Value, mean: Value) -> list[Value]:
    """Pictures of 8 bits, BGRA, as three planes less the mean. The random noise that Caffe2 adds is left out.

    Becomes: Slice, Transpose, Subtract.
    Inputs: x (N, H, W, 4), 0 to 255 in float32, and mean (3,).
    Source: pytorch ``caffe2/operators/stylizer_ops.cc``.
    """
    if len(x.shape) != 4 or x.shape[3] != 4:
        raise misfit(operator, 0, x, "(N, H, W, 4)")
    deviation = operator.arguments.number("noise_std", 10.0)
    if deviation:
        build.warn(f"the random noise of Caffe2 (noise_std {deviation:g}) is left out")
    return [x.slice(3, 0, 3).transpose(0, 3, 1, 2) - _mean_of_channels(operator, mean)]


@operator_rule("BRGNCHWCToPackedInt8BGRAStylizerDeprocess")
def bytes_of_planes(build: Builder, operator: Operator, x: Value, mean: Value) -> list[Value]:
    """Three planes plus the mean as pictures of 8 bits, BGRA: whole numbers from 0 to 255 in float32, alpha 255.

    Becomes: Add, Clip, Floor, Pad, Transpose.
    Inputs: x (N, 3, H, W), and mean (3,).
    Source: pytorch ``caffe2/operators/stylizer_ops.cc``.
    """
    if len(x.shape) != 4 or x.shape[1] != 3:
        raise misfit(operator, 0, x, "(N, 3, H, W)")
    pixels = (x + _mean_of_channels(operator, mean)).apply(Clip(0, 255)).floor()
    return [pixels.apply(Pad((0, 0, 0, 0), (0, 1, 0, 0), 255)).transpose(0, 2, 3, 1)]


def _mean_of_channels(operator: Operator, mean: Value) -> Value:
    if mean.shape != (3,):
        raise misfit(operator, 1, mean, "(3,)")
    return mean.reshape(1, 3, 1, 1)

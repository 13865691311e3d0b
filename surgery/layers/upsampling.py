"""Layers that enlarge images by copies, or undo a pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    expect_axes,
    layer_rule,
    misfit,
)
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.images.resizing import Pair, fixed_sizes, mixed, refuse_length, repeated
from prototrt.surgery.images.usual_sizes import Sizes, meant_size
from prototrt.surgery.ir import Array, DType, OpenSize, computable, fixed, open_count, range_of, symbols_of
from prototrt.surgery.ops import Cast, Concat, Pad, Scatter


@layer_rule("Upsample")
def upsample(build: LayerBuilder, layer: Layer, x: Value, mask: Value | None = None) -> list[Value]:
    """With one bottom ``scale`` copies of each pixel, of MobileNet-YOLO; with a mask Pooling undone, of SegNet.

    Becomes: Reshape, Tile; with a mask Cast, Scatter.
    MobileNet-YOLO: ``y[h, w] = x[h // scale, w // scale]``.
    SegNet, ENet: each element goes where the mask says, all else is 0. The size is ``upsample_h`` and
    ``upsample_w``, or that of the bottom times ``scale``, ``scale_h``, ``scale_w`` (2 where none is stated); minus 1
    with ``pad_out_h``, ``pad_out_w``. Where two elements meet, the later one stays; an engine may keep the other one.
    Bottoms: x (N, C, H, W), optionally a mask of the same shape, as a MAX Pooling gives it. Tops: (N, C, h, w).
    Source: eric612/MobileNet-YOLO and alexgkendall/caffe-segnet ``src/caffe/layers/upsample_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    if mask is None:
        return [_repeated(build, layer, x)]
    return [unpooled(build, layer, x, mask, _size_for_mask(build, layer, x))]


def _repeated(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """Every element ``scale`` times along height and width."""
    fields = [field.name for field, _ in layer.param.ListFields() if field.name != "scale"]
    if fields:
        raise NetError(
            f"states {fields[0]}, but has no mask",
            because=f"{fields[0]} belongs to the Upsample of SegNet, which has two bottoms: x and a mask",
            fix="give it the second top of the Pooling as second bottom, or state scale alone",
        )
    scale = int(layer.param.scale) if layer.param.HasField("scale") else 1
    if scale < 1:
        raise NetError(f"scale is {scale}, expected at least 1", fix="set scale in upsample_param")
    return repeated(build, x, (scale, scale))


@layer_rule("DeephiResize")
def deephi_resize(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Resizing as OpenCV does it, BILINEAR or by the NEAREST element. From Xilinx's Caffe.

    Becomes: MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; for NEAREST Gather, one
    per axis; over sizes that vary Reshape, Tile.
    The size is ``new_height`` and ``new_width``, or the bottom's times ``scale_h`` and ``scale_w``, without a fraction.
    BILINEAR: element i stands at ``(i + 0.5) * size / new size - 0.5``, and what lies outside is the border.
    NEAREST: it is the element ``floor(i * size / new size)``. Where sizes vary, only NEAREST with whole scales works.
    Bottoms: (N, C, H, W). Tops: (N, C, h, w).
    Source: Xilinx/Vitis-AI, caffe-xilinx ``src/caffe/layers/deephi_resize_layer.cpp``; opencv
    ``modules/imgproc/src/resize.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    scales = _pair_of_fields(param, "scale_h", "scale_w")
    if any(isinstance(size, OpenSize) for size in x.shape[2:]):
        return [_repeated_by_whole(build, param, x, scales)]
    height, width = fixed_sizes(x.shape[2:])
    new_size = _pair_of_fields(param, "new_height", "new_width")
    if (new_size is None) == (scales is None):
        raise NetError(
            "states no size" if new_size is None else "states both a size and scales",
            fix="state scale_h and scale_w in deephi_resize_param, or new_height and new_width",
        )
    factors = scales or (1, 1)
    out = [int(size) for size in new_size or (height * factors[0], width * factors[1])]
    if min(out) < 1:
        raise NetError(f"the top would be {out[0]} x {out[1]}", fix="state a larger size, or larger scales")
    refuse_length(max(out))
    for axis, size, new in ((3, width, out[1]), (2, height, out[0])):
        if param.resize_type == param.NEAREST:
            index = np.floor(np.arange(new) * (size / new)).astype(np.int32)
            place = build.constant(np.minimum(index, size - 1), "place")
            x = build.gathered(x, place, axis) if new != size else x
        elif new != size:
            x = mixed(build, x, axis, *_between_middles(size, new))
    return [x]


def _between_middles(size: int, new: int) -> tuple[Array, Array, Array]:
    """The elements around each place (new,) of an axis, and the share of the second, where middles are compared."""
    places = ((np.arange(new) + 0.5) * (size / new) - 0.5).astype(np.float32).clip(0, size - 1)
    first = np.floor(places).astype(np.int32)
    return first, np.minimum(first + 1, size - 1), places - first


def _repeated_by_whole(
    build: LayerBuilder, param: Any, x: Value, scales: tuple[float, float] | None
) -> Value:
    """x (N, C, H, W), of sizes that vary, with each element as often as the scales say."""
    is_nearest = param.resize_type == param.NEAREST
    if scales is None or not is_nearest or not all(scale >= 1 and scale.is_integer() for scale in scales):
        raise ShapeError(
            f"sizes vary: {x.shape}",
            because="over such sizes only NEAREST with whole scale_h and scale_w is supported",
            fix=Worded("state one size of the input in {}", Option("shapes")),
        )
    return repeated(build, x, (int(scales[0]), int(scales[1])))


def _pair_of_fields(param: Any, height: str, width: str) -> tuple[float, float] | None:
    """Both fields as numbers, or None where both are absent. Raises ``NetError`` for one alone."""
    names = [name for name in (height, width) if param.HasField(name)]
    if len(names) == 1:
        raise NetError(f"states {names[0]} alone", fix=f"state both {height} and {width}")
    return (float(getattr(param, height)), float(getattr(param, width))) if names else None


@python_rule("resize.resize_to_same_size")
def repeated_and_joined(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Maps enlarged by copies to the size of the first, and joined along the channels. From MEnet.

    Becomes: Reshape, Tile, Pad, Concat.
    A pixel is copied as often as its map fits into the first one as a whole; what remains on the right and below is 0.
    Bottoms: (N, C, H, W), and others with H and W up to those. Tops: (N, all channels, H, W).
    Source: scutDACIM/MEnet ``layers/resize.py``.
    """
    maps = []
    for index, one in enumerate((x, *others)):
        expect_axes(layer, index, one, "(N, C, H, W)")
        target, sizes = ([fixed(each.shape[axis], f"axis {axis}") for axis in (2, 3)] for each in (x, one))
        scales = target[0] // sizes[0], target[1] // sizes[1]
        if min(scales) < 1:
            because = f'the first bottom, "{layer.bottom_blob(0)}", has {target[0]} x {target[1]} pixels'
            raise misfit(layer, index, one, "a smaller map", "give the largest map first", because)
        rest = [whole - size * scale for whole, size, scale in zip(target, sizes, scales, strict=True)]
        large = one if scales == (1, 1) else repeated(build, one, scales)
        maps.append(build.add(Pad((0, 0, 0, 0), (0, 0, *rest)), large) if any(rest) else large)
    return [build.add(Concat(1), *maps)]


def _size_for_mask(build: LayerBuilder, layer: Layer, x: Value) -> Sizes:
    """The size of SegNet's top.

    Source: alexgkendall/caffe-segnet ``upsample_layer.cpp``, ``LayerSetUp`` and ``Reshape``.
    """
    param = layer.param
    if param.HasField("upsample_h") and param.HasField("upsample_w"):
        mask_size, fix = (
            (int(param.upsample_h), int(param.upsample_w)),
            "remove both, so that the size doubles",
        )
        return _pooled_size(build, x, mask_size, "upsample_h and upsample_w", fix)
    scales, pads = _scales_for_mask(param), (param.pad_out_h, param.pad_out_w)
    if any(pad and scale != 2 for pad, scale in zip(pads, scales, strict=True)):
        raise NetError(
            f"the scale is {scales}, but pad_out_h and pad_out_w work only with 2",
            fix="remove them, or state upsample_h and upsample_w",
        )
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    return sizes[0] * scales[0] - pads[0], sizes[1] * scales[1] - pads[1]


def _scales_for_mask(param: Any) -> tuple[int, int]:
    """How many times higher and wider SegNet's top is: twice, unless that is stated. Raises ``NetError``."""
    sides = [name for name in ("scale_h", "scale_w") if param.HasField(name)]
    if param.HasField("scale") and sides:
        raise NetError(
            f"states both scale and {' and '.join(sides)}",
            fix="remove scale if height and width differ, else the others",
        )
    if len(sides) == 1:
        raise NetError(f"states {sides[0]} alone", fix="state both scale_h and scale_w, or scale for both")
    both = int(param.scale) if param.HasField("scale") else 2
    scales = (int(param.scale_h), int(param.scale_w)) if sides else (both, both)
    if min(scales) < 2:
        raise NetError(f"the scale is {scales}, expected more than 1", fix="remove scale to use 2")
    return scales


def _pooled_size(build: LayerBuilder, x: Value, size: Pair, fields: str, fix: str) -> Sizes:
    """The size of the image that was pooled: the places that a mask holds are places in it."""
    meant = meant_size(build, *size)
    varying = dict.fromkeys(name for dim in x.shape[2:] for name in symbols_of(dim))
    if varying and meant == size:
        raise ShapeError(
            f"states {fields}, but {' and '.join(varying)} {'vary' if len(varying) > 1 else 'varies'}",
            because=f"no image in the net before this layer usually has {size[0]} x {size[1]} pixels",
            fix=Worded("{}, and give the input sizes such as 32*H in {}", fix, Option("shapes")),
        )
    return meant


def unpooled(build: LayerBuilder, layer: Layer, x: Value, mask: Value, size: Sizes) -> Value:
    """Each element of x (N, C, H, W) at the place in its plane that the mask holds, zeros elsewhere."""
    if mask.shape != x.shape:
        because = f'it says where each element of "{layer.bottom_blob(0)}" belongs'
        fix = "give it the second top of the Pooling that made an image of this size"
        raise misfit(layer, 1, mask, x.shape, fix, because)
    if min(range_of(side).min for side in size) < 1:
        raise NetError(
            f"the top would be {size[0]} x {size[1]}, expected at least 1 x 1", fix="state a larger size"
        )
    places = open_count(size)
    flat = (*x.shape[:2], open_count(x.shape[2:], "the height or the width"))
    index = build.add(Cast(DType.INT32), build.reshape(mask, flat), hint="places")
    y = build.add(Scatter(places), build.reshape(x, flat), index)
    return build.reshape(y, (*x.shape[:2], *size))


def _filled_by_windows(param: Any, x: Value) -> Sizes:
    """The size of an image that the windows of a Pooling fill, one for each place of x (N, C, H, W)."""
    kernels = _of_both_sides(param, "kernel", "kernel_size")
    strides, pads = _of_both_sides(param, "stride", "stride"), _of_both_sides(param, "pad", "pad")
    if min(kernels) < 1 or min(strides) < 1:
        raise NetError(
            "states neither its size nor a window",
            fix="set unpool_size in unpooling_param, or kernel_size and stride as the Pooling has them",
        )
    height, width = (
        (computable(places, name) - 1) * stride + kernel - 2 * pad
        for places, name, kernel, stride, pad in zip(
            x.shape[2:], ("the height", "the width"), kernels, strides, pads, strict=True
        )
    )
    return height, width


def _of_both_sides(param: Any, name: str, both: str) -> Pair:
    """A field of height and of width, or of both."""
    sides = [f"{name}_{side}" if param.HasField(f"{name}_{side}") else both for side in ("h", "w")]
    return int(getattr(param, sides[0])), int(getattr(param, sides[1]))


@layer_rule("Unpooling")
def unpooling(build: LayerBuilder, layer: Layer, x: Value, mask: Value | None = None) -> list[Value]:
    """Undoes a MAX Pooling: each element goes where the mask says, the rest is 0. From DeconvNet.

    Becomes: Cast, Scatter.
    The size is ``unpool_size``, or ``unpool_h`` and ``unpool_w``; where none is stated, that of the image which the
    window of the Pooling fills: ``(H - 1) * stride + kernel - 2 * pad``.
    Bottoms: x (N, C, H, W), a mask of the same shape, as a MAX Pooling gives it. Tops: (N, C, h, w).
    Source: HyeonwooNoh/caffe ``src/caffe/layers/unpooling_layer.cpp``; the files of that name in forks that compute
    the size, such as ArcherFMY/caffe-sal-ensemble.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    if mask is None or param.unpool != param.MAX:
        raise UnsupportedLayerError(
            "works without a mask" if mask is None else "spreads each element over a window",
            because="only MAX with a mask is supported",
            fix=CUT_BEFORE_LAYER,
        )
    sides = [name for name in ("unpool_h", "unpool_w") if param.HasField(name)]
    if len(sides) == (2 if param.HasField("unpool_size") else 1) or (sides and param.HasField("unpool_size")):
        raise NetError(
            f"states {' and '.join(sides)}{' and unpool_size' if param.HasField('unpool_size') else ' alone'}",
            fix="state both unpool_h and unpool_w, or unpool_size for both",
        )
    if not sides and not param.HasField("unpool_size"):
        return [unpooled(build, layer, x, mask, _filled_by_windows(param, x))]
    size = (int(param.unpool_h), int(param.unpool_w)) if sides else (int(param.unpool_size),) * 2
    fix = "use the type Upsample, which doubles the size"
    meant = _pooled_size(build, x, size, " and ".join(sides) or "unpool_size", fix)
    return [unpooled(build, layer, x, mask, meant)]

"""Layers that enlarge images by copies, or undo a pooling."""

from __future__ import annotations

from typing import Any

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
    positive_sizes,
)
from prototrt.surgery.images.resizing import Pair, Sizes, meant_size, repeated
from prototrt.surgery.ir import DType, computable, open_count, range_of, symbols_of
from prototrt.surgery.ops import Cast, Scatter


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
        return [_repeat(build, layer, x)]
    return [unpool(build, layer, x, mask, _size_for_mask(build, layer, x))]


def _repeat(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """Every element ``scale`` times along height and width."""
    fields = [field.name for field, _ in layer.param.ListFields() if field.name != "scale"]
    if fields:
        raise NetError(
            f"states {fields[0]}, but has no mask",
            because=f"{fields[0]} belongs to the Upsample of SegNet, which has two bottoms: x and a mask",
            fix="give it the second top of the Pooling as second bottom, or state scale alone",
        )
    has_scale = layer.param.HasField("scale")
    scale = positive_sizes(layer.param, "scale", fix="set scale in upsample_param")[0] if has_scale else 1
    return repeated(build, x, (scale, scale))


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


def unpool(build: LayerBuilder, layer: Layer, x: Value, mask: Value, size: Sizes) -> Value:
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


def _size_of_windows(param: Any, x: Value) -> Sizes:
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
        return [unpool(build, layer, x, mask, _size_of_windows(param, x))]
    size = (int(param.unpool_h), int(param.unpool_w)) if sides else (int(param.unpool_size),) * 2
    fix = "use the type Upsample, which doubles the size"
    meant = _pooled_size(build, x, size, " and ".join(sides) or "unpool_size", fix)
    return [unpool(build, layer, x, mask, meant)]

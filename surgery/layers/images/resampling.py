"""Layers that resize images by interpolation."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, field_if_set, layer_rule
from prototrt.surgery.images.resizing import Sizes, meant_size, size_of_bottom, with_aligned_corners
from prototrt.surgery.ir import computable, range_of
from prototrt.surgery.ops import Pad
from prototrt.surgery.ops.windows import larger_smallest, ranges_text


@layer_rule("Interp")
def interp(build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None) -> list[Value]:
    """Bilinear resizing with aligned corners. From PSPNet, DeepLab and yjxiong.

    Becomes: Pad, MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; Resize over sizes
    that vary.
    ``pad_beg`` and ``pad_end``, 0 or less, first cut off rows and columns. The size is that of the second bottom,
    if there is one and ``use_blob_size`` is not false; else the first that fits: ``shrink_factor`` alone,
    ``zoom_factor`` alone, ``height`` and ``width``, both factors, the image first shrunk. Where sizes vary, a stated
    height and width may be the usual size of a blob.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count. Tops: (N, C, h, w).
    Source: hszhao/PSPNet ``src/caffe/layers/interp_layer.cpp``, ``src/caffe/util/interp.cpp``; for ``use_blob_size``
    ermig1979/Synet ``src/Synet/Converters/Deprecated/Caffe.h``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    cuts = -int(param.pad_beg), -int(param.pad_end)
    if min(cuts) < 0:
        raise NetError(
            f"pad_beg is {param.pad_beg} and pad_end {param.pad_end}, expected 0 or less",
            because="they crop; the layer does not pad",
            fix="add a layer that pads before this one",
        )
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    rest = sizes[0] - sum(cuts), sizes[1] - sum(cuts)
    for size, left in zip(sizes, rest, strict=True):
        if range_of(left).min < 1:
            raise ShapeError(
                f"pad_beg {param.pad_beg} and pad_end {param.pad_end} leave nothing of {sizes[0]} x {sizes[1]} pixels",
                because=ranges_text(size),
                fix=larger_smallest(size, "cut off less"),
            )
    if any(cuts):
        x = build.add(Pad((0, 0, -cuts[0], -cuts[0]), (0, 0, -cuts[1], -cuts[1])), x, hint="cropped")
    like = _bottom_that_counts(layer, like)
    out = size_of_bottom(layer, like) if like is not None else _size_of_interp(build, layer, rest)
    return [with_aligned_corners(build, x, out)]


def _bottom_that_counts(layer: Layer, like: Value | None) -> Value | None:
    """The second bottom, unless the file says that it does not count. Raises ``NetError``."""
    uses = field_if_set(layer.param, "use_blob_size")
    if uses and like is None:
        raise NetError(
            "use_blob_size is true, but there is one bottom", fix="add the blob whose size is meant"
        )
    return like if uses is None or uses else None


@layer_rule("BilinearInterpolation")
def bilinear_interpolation(
    build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None
) -> list[Value]:
    """Bilinear resizing with aligned corners, ``interpolation_factor`` times or to the size of a second bottom.

    Becomes: MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; Resize over sizes that
    vary.
    From forks for the binarization of documents.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count. Tops: (N, C, h, w).
    Source: the forks' ``src/caffe/layers/bilinear_interpolation_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    if like is not None:
        return [with_aligned_corners(build, x, size_of_bottom(layer, like))]
    factor = field_if_set(layer.param, "interpolation_factor")
    if factor is None or factor < 1:
        raise NetError(
            "states no size" if factor is None else f"interpolation_factor is {factor}, expected at least 1",
            fix="set interpolation_factor in bilinear_interpolation_param, or add a second bottom",
        )
    height, width = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    return [with_aligned_corners(build, x, (height * factor, width * factor))]


def _size_of_interp(build: LayerBuilder, layer: Layer, size: Sizes) -> Sizes:
    """The size that the fields ask for, of an image of this size."""
    param = layer.param
    factors = {name: field_if_set(param, name) for name in ("shrink_factor", "zoom_factor")}
    below = [f"{name} is {factor}" for name, factor in factors.items() if factor is not None and factor < 1]
    if below:
        raise NetError(f"{below[0]}, expected at least 1", fix="use a factor of 1 or more")
    shrink, zoom = factors.values()
    has_size = param.HasField("height") and param.HasField("width")
    if has_size and (shrink is None) == (zoom is None):
        if min(param.height, param.width) < 1:
            raise NetError(
                f"height is {param.height} and width {param.width}, expected at least 1",
                fix="set both to 1 or more",
            )
        return meant_size(build, int(param.height), int(param.width))
    if shrink is None and zoom is None:
        raise NetError(
            "states no size", fix="set height and width, zoom_factor or shrink_factor in interp_param"
        )
    height, width = ((side - 1) // (shrink or 1) * (zoom or 1) + 1 for side in size)
    return height, width

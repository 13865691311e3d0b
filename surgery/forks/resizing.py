"""Maps resized as OpenCV does it, from Xilinx's Caffe, from the corner, and by copies, from MEnet."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    NetError,
    OpenSize,
    Option,
    ShapeError,
    Value,
    Worded,
    expect_axes,
    fixed,
    fixed_sizes,
    layer_rule,
    means_of_two,
    misfit,
    ops,
    python_rule,
    refuse_length,
    repeated,
)


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
        return [_repeat_by_factors(build, param, x, scales)]
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
            x = means_of_two(build, x, axis, ((np.arange(new) + 0.5) * (size / new) - 0.5).astype(np.float32))
    return [x]


@layer_rule("Resize")
def resize(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Resizing from the corner: element i stands at ``i * size / new size``. From forks with ``is_pyramid_test``.

    Becomes: Pad; MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; for NEAREST Gather,
    one per axis.
    The size is ``height`` and ``width``; with ``is_pyramid_test`` the bottom's times ``out_height_scale`` and
    ``out_width_scale``, without a fraction; without any of these the bottom's times ``resize_ratio``.
    BILINEAR: a mean of the elements around that place; those beyond the last one count as 0. NEAREST: the element
    before ``i / resize_ratio``. Without a ``type`` it is NEAREST if there is a ``resize_ratio``, which only one fork
    has, with that default.
    Bottoms: (N, C, H, W). Tops: (N, C, h, w).
    Source: zhjwustc/cvpr18_rnn_deblur_matcaffe ``src/caffe/layers/resize_layer.cpp``, ``src/caffe/util/util_img.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    sizes = fixed_sizes(x.shape[2:])
    ratio = float(param.resize_ratio) if param.HasField("resize_ratio") else None
    out = _resized_sizes(param, sizes, ratio)
    is_nearest = param.type == param.NEAREST if param.HasField("type") else ratio is not None
    if is_nearest and out != _times(sizes, (ratio or 1, ratio or 1)):
        raise NetError("NEAREST reads by resize_ratio, which makes another size", fix="state type: BILINEAR")
    if not is_nearest:
        x = x.apply(ops.Pad((0, 0, 0, 0), (0, 0, 1, 1)))
    for axis, size, new in ((3, sizes[1], out[1]), (2, sizes[0], out[0])):
        number = np.arange(new, dtype=np.float32)
        if is_nearest:
            place = (number / np.float32(ratio or 1)).astype(np.int32).clip(0, size - 1)
            x = build.gathered(x, build.constant(place, "place"), axis)
        else:
            x = means_of_two(build, x, axis, number * (np.float32(size) / np.float32(new)))
    return [x]


def _resized_sizes(param: Any, sizes: tuple[int, int], ratio: float | None) -> tuple[int, int]:
    """Height and width of the top. Raises ``NetError``."""
    if param.is_pyramid_test:
        out = _times(sizes, _pair_of_fields(param, "out_height_scale", "out_width_scale"))
    elif size := _pair_of_fields(param, "height", "width"):
        out = int(size[0]), int(size[1])
    else:
        out = _times(sizes, None if ratio is None else (ratio, ratio))
    if min(out) < 1:
        raise NetError(f"the top would be {out[0]} x {out[1]}", fix="state a larger size, or larger scales")
    refuse_length(max(out))
    return out


def _times(sizes: tuple[int, int], scales: tuple[float, float] | None) -> tuple[int, int]:
    if scales is None:
        raise NetError(
            "states no size",
            fix="state height and width, or is_pyramid_test with out_height_scale and out_width_scale",
        )
    for size, scale in zip(sizes, scales, strict=True):
        refuse_length(size * scale)
    return int(np.float32(sizes[0] * scales[0])), int(np.float32(sizes[1] * scales[1]))


def _repeat_by_factors(
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
def repeat_and_concat(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
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
        maps.append(build.add(ops.Pad((0, 0, 0, 0), (0, 0, *rest)), large) if any(rest) else large)
    return [build.add(ops.Concat(1), *maps)]


@layer_rule("NNInterp")
def nearest_from_corner(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Resizing by the element at or before each place. From HydraPlus-Net.

    Becomes: Gather, one per axis.
    Bottoms: (N, C, H, W). Tops: (N, C, h, w): ``height`` and ``width``, or as Interp with ``zoom_factor`` or
    ``shrink_factor``.
    Source: xh-liu/HydraPlus-Net ``layers/nninterp_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    for axis, size in zip((2, 3), _sizes_of_nninterp(layer, x), strict=True):
        length = fixed(x.shape[axis], f"axis {axis}")
        step = np.float32(length) / np.float32(size)
        places = np.minimum((np.arange(size, dtype=np.float32) * step).astype(np.int32), length - 1)
        x = build.gathered(x, build.constant(places.astype(np.int32), "places"), axis)
    return [x]


def _sizes_of_nninterp(layer: Layer, x: Value) -> list[int]:
    param = layer.param
    ways = [name for name in ("zoom_factor", "shrink_factor") if param.HasField(name)]
    ways += ["height"] if param.HasField("height") and param.HasField("width") else []
    if len(ways) != 1 or getattr(param, ways[0]) < 1 or (ways == ["height"] and param.width < 1):
        raise NetError(
            f"nninterp_param states {' and '.join(ways) or 'no size'}, expected one way to a size of 1 or more",
            fix="state height and width, or zoom_factor, or shrink_factor",
        )
    sides = [fixed(x.shape[axis], f"axis {axis}") for axis in (2, 3)]
    if ways == ["height"]:
        return [int(param.height), int(param.width)]
    if ways == ["zoom_factor"]:
        return [side + (side - 1) * (param.zoom_factor - 1) for side in sides]
    return [(side - 1) // param.shrink_factor + 1 for side in sides]

"""Blocks of space that become items or channels, and back. From Synopsys' fork and tianchenwang."""

from __future__ import annotations

from itertools import chain
from math import prod

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    NetError,
    Size,
    Value,
    blocks_of_channels,
    computable,
    expect_axes,
    fixed,
    layer_rule,
    ops,
)


@layer_rule("SpaceToBatchND")
def space_to_batch(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Places in blocks of ``block_shape`` become items, after zeros of ``paddings`` around the axes.

    Becomes: Pad, Reshape, Transpose.
    From Synopsys' fork. The blocks are of the axes after the first; an item of the top is a place in a block, then an
    item of the bottom.
    Source: synopsys-caffe ``src/caffe/layers/space_to_batch_nd_layer.cpp``.
    """
    blocks, before, after = _blocks(layer, x, "paddings")
    rest = len(x.shape) - len(blocks) - 1
    padded = x
    if any(before + after):
        padded = build.add(ops.Pad((0, *before, *(0,) * rest), (0, *after, *(0,) * rest)), x, hint="padded")
    sizes = [fixed(size, "a size of a block") for size in padded.shape[1 : 1 + len(blocks)]]
    for axis, (size, block) in enumerate(zip(sizes, blocks, strict=True), 1):
        if size % block:
            raise NetError(
                f"axis {axis} has {size} elements with its paddings, which blocks of {block} do not divide",
                fix="change paddings or block_shape",
            )
    split = chain.from_iterable((size // block, block) for size, block in zip(sizes, blocks, strict=True))
    items, others = padded.shape[0], padded.shape[1 + len(blocks) :]
    parts = padded.reshape(items, *split, *others)
    inner, outer = range(2, 2 * len(blocks) + 1, 2), range(1, 2 * len(blocks), 2)
    moved = parts.transpose(*inner, 0, *outer, *range(2 * len(blocks) + 1, len(parts.shape)))
    count: Size = computable(items, "the batch") * prod(blocks)
    kept = [size // block for size, block in zip(sizes, blocks, strict=True)]
    return [moved.reshape(count, *kept, *others)]


@layer_rule("BatchToSpaceND")
def batch_to_space(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Items become places in blocks of ``block_shape``; then ``crops`` are cut off the axes.

    Becomes: Reshape, Transpose, Pad.
    From Synopsys' fork; it undoes SpaceToBatchND.
    Source: synopsys-caffe ``src/caffe/layers/batch_to_space_nd_layer.cpp``.
    """
    blocks, before, after = _blocks(layer, x, "crops")
    items = computable(x.shape[0], "the batch")
    if isinstance(items, int) and items % prod(blocks):
        raise NetError(
            f"the batch is {items}, which blocks of {prod(blocks)} places do not divide",
            fix="change block_shape",
        )
    count, others = items // prod(blocks), x.shape[1 + len(blocks) :]
    sizes = [fixed(size, "a size of a block") for size in x.shape[1 : 1 + len(blocks)]]
    parts = x.reshape(*blocks, count, *sizes, *others)
    pairs = chain.from_iterable((len(blocks) + 1 + axis, axis) for axis in range(len(blocks)))
    moved = parts.transpose(len(blocks), *pairs, *range(2 * len(blocks) + 1, len(parts.shape)))
    whole = moved.reshape(count, *(size * block for size, block in zip(sizes, blocks, strict=True)), *others)
    if not any(before + after):
        return [whole]
    cut = [tuple(-size for size in sizes) for sizes in (before, after)]
    nothing = (0,) * len(others)
    return [build.add(ops.Pad((0, *cut[0], *nothing), (0, *cut[1], *nothing)), whole)]


@layer_rule("DepthToSpace")
def depth_to_space_of_tensorflow(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Channels become places in blocks of ``block_size`` pixels. From Synopsys' fork.

    Becomes: Reshape, Transpose.
    Of a channel, ``data_format`` NHWC, NCHW and DCR read the place in the block first, CRD the new channel.
    Bottoms: (N, H, W, C), the default, else (N, C, H, W). Tops: with block_size^2 times fewer channels.
    Source: synopsys-caffe ``src/caffe/layers/depth_to_space_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, H, W, C) or (N, C, H, W)", 4)
    side, form = int(layer.param.block_size), layer.param.data_format
    if form not in ("NHWC", "NCHW", "DCR", "CRD"):
        raise NetError(f"data_format is {form}, expected NHWC, NCHW, DCR or CRD", fix="remove it for NHWC")
    axis = 3 if form == "NHWC" else 1
    channels = fixed(x.shape[axis], f"axis {axis} (channels)")
    if side < 1 or channels % (side * side):
        raise NetError(
            f"block_size is {side}, but the bottom has {channels} channels",
            fix="use a number whose square divides the channels",
        )
    if form == "CRD":
        return [blocks_of_channels(x, side)]
    image = x if axis == 1 else x.transpose(0, 3, 1, 2)
    items, _, *plane = image.shape
    rows, columns = (computable(size, "a side of the image") for size in plane)
    kept = channels // (side * side)
    parts = image.reshape(items, side, side, kept, rows, columns).transpose(0, 3, 4, 1, 5, 2)
    y = parts.reshape(items, kept, rows * side, columns * side)
    return [y if axis == 1 else y.transpose(0, 2, 3, 1)]


@layer_rule("Tiling")
def tiling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Channels become places in tiles of ``tile_dim`` pixels, the new channel first. From tianchenwang.

    Becomes: Reshape, Transpose.
    Bottoms: (N, C, H, W). Tops: (N, C / tile_dim^2, H tile_dim, W tile_dim).
    Source: tianchenwang/caffe ``src/caffe/layers/tiling_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    side, channels = int(layer.param.tile_dim), fixed(x.shape[1], "axis 1 (channels)")
    if side < 1 or channels % (side * side):
        raise NetError(
            f"tile_dim is {side}, but the bottom has {channels} channels",
            fix="use a number whose square divides the channels",
        )
    return [blocks_of_channels(x, side)]


def _blocks(layer: Layer, x: Value, ends: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The sides of a block, and what stands before and after each axis. Raises ``NetError``."""
    blocks, around = tuple(layer.param.block_shape), tuple(getattr(layer.param, ends))
    if not 0 < len(blocks) < len(x.shape) or min(blocks) < 1 or len(around) != 2 * len(blocks):
        raise NetError(
            f"block_shape has {len(blocks)} sizes and {ends} {len(around)}, for a bottom of the shape {x.shape}",
            fix=f"state a block_shape of 1 or more for each axis from the second on, and two {ends} for each",
        )
    return blocks, around[::2], around[1::2]

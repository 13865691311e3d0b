"""Sizes that a net states for its usual image, in a graph for images of any size."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import OpenSize, Size, computable, range_of

Sizes = tuple[Size, Size]


def meant_size(build: LayerBuilder, height: int, width: int) -> Sizes:
    """What a stated size means: that of the blobs (N, C, H, W) so far which vary and usually are as large.

    PSPNet stretches what it has pooled to 60 x 60, the size of the map that it pools, for one size of the image. The
    stated size itself where no blobs vary so, or several do in different ways.
    """
    candidates = {sizes for sizes in _varying_sizes(build) if _usual(sizes) == (height, width)}
    if len(candidates) != 1:
        return height, width
    (sizes,) = candidates
    build.warn(
        f"the net states the usual size of an image that varies: {height} x {width} is {sizes[0]} x {sizes[1]}"
    )
    return sizes


def _varying_sizes(build: LayerBuilder) -> set[Sizes]:
    """The heights and widths of all images so far that vary."""
    values = (*build.inputs, *(value for node in build.nodes for value in node.outputs))
    images = {value.shape for value in values if len(value.shape) == 4 and not value.is_surgical}
    return {
        (computable(height), computable(width))
        for _, _, height, width in images
        if isinstance(height, OpenSize) or isinstance(width, OpenSize)
    }


def _usual(sizes: Sizes) -> tuple[int, int]:
    return range_of(sizes[0]).opt, range_of(sizes[1]).opt

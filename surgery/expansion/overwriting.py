"""In-place layers that overwrite elements before they read them."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.layer_types import InPlace, layer_type
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ops.shape import measure


def warn_of_overwriting(
    build: Builder, layer: Layer, bottoms: Sequence[Value], tops: Sequence[Value]
) -> None:
    """Warn of an in-place layer that Caffe computes wrongly: its results differ from ours.

    If the top has another size, Caffe also changes the shape of the bottom before it reads it.
    """
    in_place = layer_type(layer.type).in_place
    if in_place is InPlace.MOVES_FORWARDS or _multiplies(layer):
        return
    names = zip(layer.message.bottom, layer.message.top, bottoms, tops, strict=False)
    shapes = [(bottom.shape, top.shape) for read, written, bottom, top in names if read == written]
    changed = (old != new and measure(old) != measure(new) for old, new in shapes)
    if shapes and (in_place is InPlace.OVERWRITES or any(changed)):
        build.warn(
            "works in place, where Caffe overwrites elements before it reads them: prototrt reads a copy instead"
        )


def _multiplies(layer: Layer) -> bool:
    """Each element of a product, or of LRN within a channel, is read right before it is written."""
    if layer.type == "LRN":
        return bool(layer.param.norm_region == layer.param.WITHIN_CHANNEL)
    return layer.type == "Eltwise" and bool(layer.param.operation == layer.param.PROD)

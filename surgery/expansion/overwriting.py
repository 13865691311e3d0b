"""Layers in place that write over what they still have to read."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ops.shape import measure

_READ_AFTER_WRITING = {
    "BatchReindex",
    "Convolution",
    "Deconvolution",
    "Eltwise",
    "InnerProduct",
    "LRN",
    "Pooling",
    "SPP",
}
"""Layers that write their top before they have read all of their bottom."""

_MOVES_FORWARDS = "Filter"
"""Gives its top another size, but never writes over what it still has to read."""


def warn_of_overwriting(
    build: Builder, layer: Layer, bottoms: Sequence[Value], tops: Sequence[Value]
) -> None:
    """Tell of a layer in place which Caffe computes wrongly: its numbers are not ours.

    A top of another size gives its shape to the bottom, too, which is then read as if it had it.
    """
    if layer.type == _MOVES_FORWARDS or _multiplies(layer):
        return
    names = zip(layer.message.bottom, layer.message.top, bottoms, tops, strict=False)
    shapes = [(bottom.shape, top.shape) for read, written, bottom, top in names if read == written]
    if any(layer.type in _READ_AFTER_WRITING or measure(old) != measure(new) for old, new in shapes):
        build.warn("works in place, where Caffe overwrites what it still has to read: taken as if it did not")


def _multiplies(layer: Layer) -> bool:
    """Each element of a product, or of LRN within a channel, is read right before it is written."""
    if layer.type == "LRN":
        return bool(layer.param.norm_region == layer.param.WITHIN_CHANNEL)
    return layer.type == "Eltwise" and bool(layer.param.operation == layer.param.PROD)

"""Scales as tables that other programs read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError, WeightsError
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.surgery.scales.tables import cache_text, ncnn_text, nvdla_text
from prototrt.surgery.scales.tensor_names import tensors_by_value

_PRODUCTS = ("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "InnerProduct")
"""Layers that ncnn computes in int8."""


def table_text(model: Model, scales: Mapping[str, float], target: str) -> str:
    """The table that the target's suffix asks for: ``.table`` of ncnn, ``.json`` of NVDLA, else TensorRT's cache.

    Raises ``NetError`` where no scale is of a blob that the table can name.
    """
    suffix = Path(target).suffix.lower()
    if suffix == ".table":
        layers = [layer for layer in model.layers if layer.type in _PRODUCTS and layer.bottoms[0] in scales]
        entries = {layer.name: scales[layer.bottoms[0]] for layer in layers}
        text = ncnn_text({layer.name: _largest_weights(layer) for layer in layers}, entries)
    elif suffix == ".json":
        entries = {
            top if layer.type == "Input" else layer.name: scales[top]
            for layer in model.layers
            for top in layer.tops[: None if layer.type == "Input" else 1]
            if top in scales
        }
        text = nvdla_text(entries)
    else:
        tensors = tensors_by_value(model)
        order = [top for layer in model.layers for top in layer.tops]
        entries = {tensors[name]: scales[name] for name in order if name in scales and name in tensors}
        text = cache_text(entries)
    if not entries:
        raise NetError("no blob of the net has a scale", where=model.file, fix="calibrate with data")
    if suffix != ".json":
        _refuse_names(entries, " " if suffix == ".table" else "")
    return text


def _refuse_names(names: Iterable[str], separator: str) -> None:
    for name in names:
        if visible_line(name) != name or (separator and separator in name) or name != name.strip():
            raise NetError(
                f'a line of the table cannot hold the name "{name}"',
                because="it has blanks, line breaks or control characters",
                fix="rename the layer, or export a table whose name ends in .json",
            )


def _largest_weights(layer: Layer) -> list[float]:
    """For each channel of the result; of a convolution in groups, for each group: ncnn has one scale for it."""
    if not layer.blobs:
        raise WeightsError(
            "ncnn's table has the scales of weights, and the layer has none",
            origin=layer.origin,
            fix="give the weights, or export another table",
        )
    weights, count = np.abs(layer.blobs[0].array), layer.param.num_output
    if layer.type == "Convolution" and layer.param.group > 1:
        count = layer.param.group
    elif layer.type == "DepthwiseConvolution" or layer.type == "ConvolutionDepthwise":
        count = weights.shape[0] if weights.ndim else 0
    if not count or not weights.size or weights.size % count:
        raise WeightsError(
            f"the blob has the shape {weights.shape}, which {count} channels or groups do not share",
            origin=layer.origin,
            fix="give the weights that were saved with this net",
        )
    is_turned = layer.type == "InnerProduct" and layer.param.transpose
    rows = weights.reshape(-1, count).T if is_turned else weights.reshape(count, -1)
    return [float(each) for each in rows.max(axis=1)]

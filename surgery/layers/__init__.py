"""One rule per Caffe layer type. A module is a family; to add one, import it here."""

from prototrt.surgery.layers import (
    activation,
    convolution,
    data,
    dense_block,
    detection,
    elementwise,
    inner_product,
    lstm_unit,
    normalization,
    pooling,
    recurrent,
    reduction,
    scale,
    selection,
    sequence,
    shape,
)

__all__ = [
    "activation",
    "convolution",
    "data",
    "dense_block",
    "detection",
    "elementwise",
    "inner_product",
    "lstm_unit",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "scale",
    "selection",
    "sequence",
    "shape",
]

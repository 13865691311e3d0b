"""One rule per operator of Caffe2. A module is a family; to add one, import it here."""

from prototrt.surgery.caffe2 import (
    activation,
    convolution,
    data,
    elementwise,
    linear,
    masks,
    normalization,
    pooling,
    recurrent_network,
    shape,
    stacks,
    units,
)

__all__ = [
    "activation",
    "convolution",
    "data",
    "elementwise",
    "linear",
    "masks",
    "normalization",
    "pooling",
    "recurrent_network",
    "shape",
    "stacks",
    "units",
]

"""Reading Caffe's files: text, weights, and all that older versions wrote. Knows neither shapes nor maths."""

from __future__ import annotations

from prototrt.caffe_proto.errors import (
    BuildError,
    ConversionError,
    NetError,
    Origin,
    Problems,
    ShapeError,
    UnreadableFileError,
    UnsupportedLayerError,
    VerificationError,
    WeightsError,
    raise_all,
)
from prototrt.caffe_proto.loading import load
from prototrt.caffe_proto.model import Layer, Model
from prototrt.caffe_proto.weights import NoWeights, RandomWeights, StoredBlob, Weights

__all__ = [
    "BuildError",
    "ConversionError",
    "Layer",
    "Model",
    "NetError",
    "NoWeights",
    "Origin",
    "Problems",
    "RandomWeights",
    "ShapeError",
    "StoredBlob",
    "UnreadableFileError",
    "UnsupportedLayerError",
    "VerificationError",
    "Weights",
    "WeightsError",
    "load",
    "raise_all",
]

"""Reading Caffe's files: text, weights, and the forms of older versions. Without shapes or computation.

Each name is imported when it is first used: options and messages need neither NumPy nor protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prototrt.caffe_proto.common.errors import (
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

_HOMES = {
    "load": "loading",
    **dict.fromkeys(("Layer", "Model"), "model"),
    **dict.fromkeys(("NoWeights", "RandomWeights", "StoredBlob", "Weights"), "weights"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'common.errors')}"), name)

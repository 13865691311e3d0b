"""Stored weights: files of every form that Caffe wrote, mapped and read in place."""

from prototrt.caffe_proto.weights.interface import (
    LARGEST_COUNT,
    MOST_AXES,
    Array,
    FromFile,
    NoWeights,
    Purpose,
    RandomWeights,
    StoredBlob,
    StoredWeights,
    Weights,
    check_count,
    sha256_of,
)

__all__ = [
    "LARGEST_COUNT",
    "MOST_AXES",
    "Array",
    "FromFile",
    "NoWeights",
    "Purpose",
    "RandomWeights",
    "StoredBlob",
    "StoredWeights",
    "Weights",
    "check_count",
    "sha256_of",
]

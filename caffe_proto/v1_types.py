"""What a type of ``layers``, the form V1, is called in ``layer``: ``INNER_PRODUCT`` is ``InnerProduct``."""

from __future__ import annotations

import re

from prototrt.caffe_proto.schema import enum_name

_UNUSUAL_TYPES = {
    "NONE": "",
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""V1's words for types whose current names do not follow from them. Source: ``UpgradeV1LayerType``."""
_SHORTEST_WORD = 3  # what is shorter is an abbreviation, as in BN
_ABBREVIATIONS = ("CRF",)


def type_of_v1(number: int) -> str:
    """The current name of a V1 type, given by its number in the enum; empty for ``NONE`` and unknown numbers."""
    word = enum_name("V1LayerParameter.LayerType", number) or "NONE"
    return _UNUSUAL_TYPES.get(word, type_of_fork(word))


def type_of_fork(word: str) -> str:
    """The current spelling of a V1 type that a fork added: ``POOLING3D`` becomes ``Pooling3D``."""
    parts = (
        part if len(part) < _SHORTEST_WORD or part in _ABBREVIATIONS else part.capitalize()
        for part in word.split("_")
    )
    return "".join(re.sub(r"(?<=\d)d$", "D", part) for part in parts)

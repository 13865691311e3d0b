"""What the shape of an input may look like, for a user who has to give one."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.model import Layer

_RECURRENT = {"GRU", "LSTM", "LSTMController", "LSTMTopic", "Lstm", "RNN", "VanillaRNN"}
_STEPS = ("TxNxI", "TxN", "NxI")
_IMAGES = "NxCxHxW"
_KEEPING = {
    *("AbsVal", "BNLL", "BatchNorm", "Bias", "Clip", "Concat", "Dropout", "ELU", "Eltwise", "Exp", "Log"),
    *(
        "PReLU",
        "Power",
        "ReLU",
        "ReLU6",
        "Reverse",
        "Scale",
        "Sigmoid",
        "Split",
        "Swish",
        "TanH",
        "Threshold",
    ),
}
"""Layers whose tops have as many axes as their bottoms."""


def shape_option(blob: str, layers: Sequence[Layer]) -> str:
    """The option that gives the shape, with letters for the axes that the readers of the blob want."""
    return f"--shape {blob}:{_axes(blob, layers)}"


def _axes(blob: str, layers: Sequence[Layer]) -> str:
    alike = {blob}
    for layer in layers:
        for index in (index for index, bottom in enumerate(layer.bottoms) if bottom in alike):
            if layer.type in _RECURRENT:
                return _STEPS[min(index, 2)]
            if layer.type == "Embed":
                return "TxN" if _axes(layer.tops[0], layers) == _STEPS[0] else "N"
            if layer.type == "InnerProduct":
                return {1: "NxI", 2: _STEPS[0]}.get(layer.param.axis, _IMAGES)
            if layer.type not in _KEEPING:
                return _IMAGES
            alike.update(layer.tops)
    return _IMAGES

"""The data among the blobs that an init net fills.

PyTorch's mobile exporter writes the image of the export there, beside the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.model import Layer
from prototrt.caffe_proto.weights import StoredBlob

_READS_IDS = ("BatchGather", "Gather")
"""Operators whose first input is a table."""
_STATES = {
    "GRUUnit": slice(0, 1),
    "InferenceLSTM": slice(1, 3),
    "LSTMUnit": slice(0, 2),
    "Recurrent": slice(1, 3),
}
"""The inputs that hold states."""


@dataclass(frozen=True, slots=True)
class _BlobOrigin:
    """The blobs of the init net from which a value comes along the data, and whether it met weights on the way."""

    blobs: tuple[str, ...] = ()
    met_weights: bool = False


def data_of(layer: Layer) -> Sequence[str]:
    """The inputs of an operator without those that hold states."""
    states = {*layer.bottoms[_STATES.get(layer.type, slice(0))]}
    if isinstance(layer, Operator) and layer.recurrence is not None:
        states |= {layer.bottoms[state.initial] for state in layer.recurrence.states}
    return [name for name in layer.bottoms if name not in states]


def held_data(layers: Sequence[Layer], stored: Mapping[str, StoredBlob]) -> list[str]:
    """The data bottoms of the first operators among these, where the init net fills them.

    Weights are read at later places. Where several inputs of an operator are computed, the data are those that
    have met weights before; a bias that is only reshaped has not.
    """
    origins = {name: _BlobOrigin((name,)) for name in stored}
    read: set[str] = set()
    for layer in layers:
        origins |= dict.fromkeys(layer.tops, _blob_origin(layer, origins, stored))
        read.update(layer.bottoms)
    ends = [top for layer in layers for top in layer.tops if top not in read]
    data = dict.fromkeys(name for end in ends for name in origins[end].blobs)
    return [name for name in stored if name in data]


def _blob_origin(
    layer: Layer, origins: Mapping[str, _BlobOrigin], stored: Mapping[str, StoredBlob]
) -> _BlobOrigin:
    names = data_of(layer)
    if layer.type in _READS_IDS:
        names = names[::-1]
    read = [origins.get(name, _BlobOrigin()) for name in names]
    met = [each for each in read if each.met_weights]
    if met:
        return _BlobOrigin(tuple(dict.fromkeys(name for each in met for name in each.blobs)), True)
    weights = [name for name in names[1:] if name in stored and stored[name].array.dtype.kind == "f"]
    candidates = [each for each in read if each.blobs]
    if not candidates:
        return _BlobOrigin(met_weights=bool(weights))
    return _BlobOrigin(_data_among(layer, candidates, stored), bool(weights))


_ELEMENTWISE = ("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum")


def _data_among(
    layer: Layer, candidates: Sequence[_BlobOrigin], stored: Mapping[str, StoredBlob]
) -> tuple[str, ...]:
    """The first input; of operators that take both in any order, the largest."""
    if layer.type not in _ELEMENTWISE:
        return candidates[0].blobs
    return max(candidates, key=lambda each: max(prod(stored[name].shape) for name in each.blobs)).blobs

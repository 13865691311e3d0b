"""The parameters of a model: matrices and biases by name, and the rows of a gate in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.packed import GATES, PackedArray, PackedLayout
from prototrt.caffe_proto.common.errors import ConversionError, WeightsError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.weights import Array, StoredBlob
from prototrt.surgery.layers.recurrent.options import hidden_sizes
from prototrt.surgery.layers.recurrent.packed import is_packed
from prototrt.surgery.layers.recurrent.parameters import NamedBlob
from prototrt.surgery.layers.recurrent.recurrent_types import named_blobs
from prototrt.surgery.recurrent.gates import ORDERS

BlobKey: TypeAlias = tuple[str, int]
"""The layer that holds a blob, and the blob's index; of a Caffe2 net, the blob's name and 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A matrix or bias of a layer, or the rows of one gate of it.

    ``gates`` are those of its rows in their order, none if it has one block. ``part`` is a view of the whole blob.
    """

    layer: Layer
    name: str
    gates: str
    key: BlobKey
    blob: StoredBlob
    part: Callable[[Array], Array]
    shape: tuple[int, ...]
    gate: str | None = None

    @property
    def address(self) -> str:
        """``LAYER/PARAMETER`` or ``LAYER/PARAMETER/GATE``."""
        return "/".join([self.layer.name, self.name, *([self.gate] if self.gate else [])])

    @property
    def array(self) -> Array:
        return self.part(self.blob.array)

    @property
    def is_finest(self) -> bool:
        """Whether no part of it is a parameter, too."""
        return self.gate is not None or not self.gates

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.address,
            "layer": self.layer.name,
            "type": self.layer.type,
            "line": self.layer.origin.line,
            "parameter": self.name,
            "gate": self.gate,
            "shape": list(self.shape),
        }


def parameters_of(model: Model) -> dict[str, Parameter]:
    """All parameters with stored numbers, by address. Blobs of layers that are not recurrent are called 0, 1, ..."""
    of_layer = _of_operator if model.framework == "caffe2" else _of_layer
    return {each.address: each for layer in model.layers for each in of_layer(layer, model)}


def _of_layer(layer: Layer, model: Model) -> Iterator[Parameter]:
    try:
        if is_packed(layer) and layer.type == "LSTM":
            assert layer.blobs is not None
            sizes = hidden_sizes(layer)
            layout = packed_layout(layer, layer.blobs[0], PackedLayout("lstm", 1, sizes[0], len(sizes), 1))
            yield from _packed_parameters(layer, (layer.name, 0), layer.blobs[0], layout)
            return
        named = named_blobs(layer)
    except ConversionError as error:
        error.origin = error.origin or layer.origin
        raise
    names = named or [NamedBlob(str(index), "", "") for index in range(len(layer.blobs or ()))]
    for index, (name, blob) in enumerate(zip(names, layer.blobs or (), strict=True)):
        owner = layer.shared[index] if index < len(layer.shared) else None
        yield from _with_gates(layer, name, owner or (layer.name, index), blob)


def _with_gates(layer: Layer, named: NamedBlob, key: BlobKey, blob: StoredBlob) -> Iterator[Parameter]:
    shape = blob.shape
    if blob.legacy and named.axes and all(size == 1 for size in shape[: -named.axes]):
        shape = shape[-named.axes :]
    yield Parameter(layer, named.name, named.gates, key, blob, lambda array: array.reshape(shape), shape)
    count = len(named.gates)
    if not count or not shape or shape[0] % count:
        return
    rows = (shape[0] // count, *shape[1:])
    for place, gate in enumerate(named.gates):

        def part(array: Array, place: int = place) -> Array:
            block: Array = array.reshape(count, *rows)[place]
            return block

        yield Parameter(layer, named.name, "", key, blob, part, rows, gate)


# ---------------------------------------------------------------- cuDNN's packed blob


_NAMES = {
    ("input", "w"): "W_xc",
    ("recurrent", "w"): "W_hc",
    ("input", "b"): "b_xc",
    ("recurrent", "b"): "b_hc",
}


def _of_operator(layer: Layer, model: Model) -> Iterator[Parameter]:
    """The matrices and biases in the blob of a Recurrent; weights that other operators read, whole."""
    packed = layer.bottoms[3] if layer.type == "Recurrent" and len(layer.bottoms) > 3 else None
    for name in layer.bottoms:
        blob = model.stored.get(name)
        if blob is None:
            continue
        if name == packed:
            yield from _packed_parameters(
                layer, (name, 0), blob, packed_layout(layer, blob, _operator_layout(layer))
            )
        else:
            whole = NamedBlob(name, "", "")
            yield from _with_gates(layer, whole, (name, 0), blob)


def _packed_parameters(
    layer: Layer, key: BlobKey, blob: StoredBlob, layout: PackedLayout
) -> Iterator[Parameter]:
    letters = ORDERS[layout.mode.upper()]["cudnn"]
    groups: dict[str, list[PackedArray]] = {}
    for array in layout.arrays.values():
        level, direction = divmod(array.layer, layout.directions)
        title = _NAMES[array.source, array.parameter[-1]]
        groups.setdefault(f"{title}_l{level}{'_reverse' if direction else ''}", []).append(array)
    for title, arrays in groups.items():
        rows, *rest = arrays[0].shape
        whole = (rows * len(arrays), *rest)
        yield Parameter(layer, title, letters, key, blob, _slice(arrays[0].offset, whole), whole)
        for gate, array in zip(letters, arrays, strict=True):
            view = _slice(array.offset, array.shape)
            yield Parameter(layer, title, "", key, blob, view, array.shape, gate)


def _slice(offset: int, shape: Sequence[int]) -> Callable[[Array], Array]:
    return lambda array: array.reshape(-1)[offset : offset + prod(shape)].reshape(shape)


def _operator_layout(layer: Layer) -> PackedLayout:
    """What a Recurrent states, with one input."""
    arguments = Arguments(layer.message)
    mode, hidden = arguments.text("rnn_mode", ""), arguments.integer("hidden_size", 0)
    layers = arguments.integer("num_layers", 1)
    if mode not in GATES or hidden < 1 or layers < 1:
        raise WeightsError(
            f'rnn_mode is "{mode}", hidden_size {hidden} and num_layers {layers}, expected lstm or gru and at least 1',
            origin=layer.origin,
            fix="export the net again",
        )
    return PackedLayout(mode, 1, hidden, layers, 2 if arguments.flag("bidirectional") else 1)


def packed_layout(layer: Layer, blob: StoredBlob, least: PackedLayout) -> PackedLayout:
    """``least`` with the number of inputs D, which follows from the size of the blob."""
    count = prod(blob.shape)
    inputs, rest = divmod(count - least.size, len(GATES[least.mode]) * least.hidden * least.directions)
    if rest or inputs < 0:
        raise WeightsError(
            f"the packed blob has {count} numbers, which fit no number of inputs",
            origin=layer.origin,
            because=f"H is {least.hidden}, with {least.layers} layers in {least.directions} directions",
            fix="give the weights that were saved with this net",
        )
    return replace(least, inputs=inputs + 1)

"""A recurrent layer's parameters under the names of ``torch.nn.LSTM``, ``GRU`` and ``RNN``, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.common.errors import UnsupportedLayerError, WeightsError
from prototrt.caffe_proto.weights import Array
from prototrt.converter.front.parameters.parts import Parameter
from prototrt.surgery.recurrent.weights import (
    DirectionWeights,
    from_pytorch,
    in_order,
    pytorch_suffixes,
    to_pytorch,
)

FIRST = "weight_ih_l0"
"""A name that every state dict of a recurrent module has."""
PACKED = "b_xc"
"""Begins the name of a bias that only packed blobs have: one of x, beside one of h."""
_CELLS = {
    **dict.fromkeys(("LSTM", "LSTMController", "LSTMNew", "LSTMTopic", "Lstm"), "LSTM"),
    "GRU": "GRU",
    "VanillaRNN": "RNN",
}
_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("W_xc", "W_x"), "x"),
    **dict.fromkeys(("W_hc", "W_h"), "h"),
    **dict.fromkeys(("b_xc", "b_c", "b"), "x_bias"),
    "b_hc": "h_bias",
    "W_proj": "projection",
}
"""The part of ``DirectionWeights`` that a parameter is."""


def cell_of(layer: Layer) -> str | None:
    """``LSTM``, ``GRU`` or ``RNN``; None if PyTorch has no such module."""
    if layer.type == "Recurrent":
        return Arguments(layer.message).text("rnn_mode", "").upper()
    return _CELLS.get(layer.type)


def state_of(layer: Layer, parameters: Iterable[Parameter]) -> dict[str, Array]:
    """The parameters of a layer as PyTorch's module has them. Raises ``UnsupportedLayerError``."""
    cell, directions = _cell(layer), dict[str, dict[str, Parameter]]()
    for each in parameters:
        name, suffix = _split(each.name)
        if name not in _FIELDS:
            raise _refusal(layer, f"has {each.name}")
        directions.setdefault(suffix, {})[_FIELDS[name]] = each
    stack = [_direction(cell, parts) for parts in directions.values()]
    try:
        return to_pytorch(stack, 2 if any("_reverse" in suffix for suffix in directions) else 1)
    except ValueError as error:
        raise WeightsError(
            str(error), origin=layer.origin, fix="give the weights that were saved with this net"
        ) from error


def arrays_of_state(
    layer: Layer, parameters: Iterable[Parameter], state: Mapping[str, Array]
) -> dict[str, Array]:
    """By address, what PyTorch's module has for all parameters of a layer. Raises ``ConversionError``."""
    cell, named = _cell(layer), {each.name: each for each in parameters}
    suffixes = [*dict.fromkeys(_split(name)[1] for name in named)]
    if (count_in_state := len(pytorch_suffixes(state))) != len(suffixes):
        raise WeightsError(
            f"the state dict has {count_in_state} layers and directions, expected {len(suffixes)}",
            origin=layer.origin,
            fix="give the state dict of a module like this layer",
        )
    stack = from_pytorch(state, cell)
    arrays = {}
    for each in named.values():
        name, suffix = _split(each.name)
        if name not in _FIELDS:
            raise _refusal(layer, f"has {each.name}")
        one = stack[suffixes.index(suffix)]
        if any(other.startswith(PACKED) for other in named):
            one = in_order(one, "caffe", "cudnn")
        elif cell != "GRU":
            one = replace(one, x_bias=one.bias)
        array = getattr(one, _FIELDS[name])
        if array is None:
            raise WeightsError(
                f"the state dict has no weight_hr{suffix or '_l0'}, which {each.name} needs",
                origin=layer.origin,
                fix="give the state dict of a module with proj_size",
            )
        arrays[each.address] = array
    return arrays


def _cell(layer: Layer) -> str:
    cell = cell_of(layer)
    if cell is None:
        raise _refusal(layer, "is another cell")
    if cell == "GRU" and layer.type == "GRU" and not layer.param.linear_before_reset:
        raise _refusal(layer, "resets before the product")
    return cell


def _refusal(layer: Layer, why: str) -> UnsupportedLayerError:
    return UnsupportedLayerError(
        f"PyTorch has no module of this kind: the layer {why}",
        origin=layer.origin,
        fix="read or write its parameters under their own names",
    )


def _split(name: str) -> tuple[str, str]:
    """``W_xc`` and ``_l0_reverse``."""
    stem, separator, level = name.rpartition("_l")
    return (stem, separator + level) if separator and level[:1].isdigit() else (name, "")


def _direction(cell: str, parts: Mapping[str, Parameter]) -> DirectionWeights:
    arrays = {field: each.array for field, each in parts.items()}
    arrays.setdefault("h_bias", arrays["x_bias"] * 0)
    one = DirectionWeights(cell, **arrays)
    return in_order(one, "cudnn", "caffe") if parts["x_bias"].name.startswith(PACKED) else one

"""What a ``recurrent_param`` asks for beyond Caffe: read, checked, and refused where it means nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError
from prototrt.surgery.layers.recurrent.activations import activation_named
from prototrt.surgery.ops import Identity
from prototrt.surgery.recurrent.cells import LSTMForm

OURS = 1000
"""Fields from this number on are not Caffe's."""
MOST_LAYERS = 100
EVERYWHERE = frozenset(
    {
        "bidirectional",
        "hidden",
        "input_clip",
        "num_layers",
        "past_end",
        "reverse",
        "sequence_lengths",
    }
)


def refuse_foreign_fields(layer: Layer, allowed: Collection[str]) -> None:
    """Refuse fields of ours that the layer's type has no use for."""
    known = EVERYWHERE | frozenset(allowed)
    for field, _ in layer.param.ListFields():
        if field.number >= OURS and field.name not in known:
            raise NetError(
                f"states {field.name}, which means nothing for a layer of this type",
                fix=f"remove it; understood are {', '.join(sorted(known))}",
            )


def is_caffes(param: Any) -> bool:
    """Whether no field of ours is stated: then Caffe could run the layer, too."""
    return all(field.number < OURS for field, _ in param.ListFields())


def hidden_sizes(param: Any) -> list[int]:
    """How many hidden units each layer of the stack has."""
    if param.num_layers > MOST_LAYERS:
        raise NetError(
            f"num_layers is {param.num_layers}, expected at most {MOST_LAYERS}",
            because="each of them becomes nodes of the graph",
            fix="state fewer, or stack several recurrent layers",
        )
    sizes = [int(size) for size in param.hidden]
    if not sizes:
        sizes = [int(param.num_output)] * int(param.num_layers)
        if param.num_output < 1:
            raise NetError(
                f"num_output is {param.num_output}, expected at least 1",
                fix="set num_output in recurrent_param",
            )
    if len(sizes) == 1:
        sizes *= int(param.num_layers)
    if not sizes or min(sizes) < 1:
        raise NetError(
            f"num_layers is {param.num_layers} and hidden {sizes}, expected sizes of at least 1",
            fix="state hidden once a layer, or one size and num_layers",
        )
    if param.HasField("num_layers") and param.num_layers != len(sizes):
        raise NetError(
            f"hidden is stated {len(sizes)} times, expected {param.num_layers}",
            because="of num_layers",
            fix="state hidden once a layer, or one size and num_layers",
        )
    if param.HasField("num_output") and param.num_output != sizes[-1]:
        raise NetError(
            f"num_output is {param.num_output}, expected {sizes[-1]}",
            because="that is the last hidden size",
            fix="leave num_output out, or make it agree",
        )
    return sizes


def directions(param: Any) -> tuple[bool, ...]:
    """For each direction, whether it runs backwards."""
    if not param.bidirectional:
        return (bool(param.reverse),)
    if param.reverse:
        raise NetError("states both reverse and bidirectional", fix="state one of them")
    return False, True


def lstm_form(param: Any) -> LSTMForm:
    """The equations that an LSTM's fields ask for."""
    if param.coupled_input_forget and param.forget_bias:
        raise NetError(
            "states both forget_bias and coupled_input_forget",
            because="a forget gate of 1 - i has no bias of its own",
            fix="state one of them",
        )
    projection = activation_named(param.projection_activation, "projection_activation")
    if not param.num_proj:
        if not isinstance(projection, Identity):
            raise _in_vain("projection_activation", "num_proj")
        if param.proj_clip:
            raise _in_vain("proj_clip", "num_proj")
    return LSTMForm(
        gate=activation_named(param.gate_activation, "gate_activation"),
        candidate=activation_named(param.candidate_activation, "candidate_activation"),
        cell=activation_named(param.cell_activation, "cell_activation"),
        projection=projection,
        coupled=bool(param.coupled_input_forget),
        cell_clip=clip(param, "cell_clip"),
        projection_clip=clip(param, "proj_clip"),
    )


def holds_past_end(param: Any) -> bool:
    """Whether the top behind a stream's end is the state that it keeps."""
    if param.past_end == param.HOLD and not param.sequence_lengths:
        raise _in_vain("past_end: HOLD", "sequence_lengths")
    return bool(param.past_end == param.HOLD)


def _in_vain(what: str, without: str) -> NetError:
    return NetError(f"states {what} without {without}", fix=f"state {without}, too")


def clip(param: Any, field: str) -> float:
    """A limit; 0 is none."""
    limit = float(getattr(param, field))
    if not limit >= 0:
        raise NetError(
            f"{field} is {limit:g}, expected a limit above 0, or 0 for none", fix=f"set {field} to 0 or more"
        )
    return limit

"""The types of recurrent layers: which options each has, and what it makes of the stored blobs of a direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass, fields, replace
from prototrt.caffe_proto.schema import is_read_by, message_class
from prototrt.caffe_proto.weights import StoredBlob
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Dim
from prototrt.surgery.ir.made_arrays import join_of, sum_of
from prototrt.surgery.ir.uniform_constants import concatenate, scaled
from prototrt.surgery.layers.recurrent.options import (
    OF_ANY_STACK,
    activation,
    directions,
    form_of,
    hidden_sizes,
)
from prototrt.surgery.layers.recurrent.parameters import (
    LSTM_OF_FORKS,
    LSTM_UNIT,
    STATICS,
    NamedBlob,
    StoredDirection,
    gru_blobs,
    lstm_blobs,
    read_blobs,
    rnn_blobs,
    vanilla_rnn_blobs,
)
from prototrt.surgery.recurrent.cells import LSTMCell, LSTMForm, RNNCell, RNNForm
from prototrt.surgery.recurrent.gates import PEEPHOLES, permuted
from prototrt.surgery.recurrent.gru import GRUCell, GRUForm
from prototrt.surgery.recurrent.stacks import DenseReadout, Direction, InputWeights, SideReadout, StateReadout


@dataclass(frozen=True, slots=True)
class DirectionBlobs:
    """The stored blobs of a direction, by the names of the table."""

    build: LayerBuilder
    param: Any
    hidden: int
    named: Mapping[str, Value]

    def inputs(self, letter: str = "c") -> InputWeights:
        """The weights of x and of the static inputs."""
        statics = (self.named.get(f"W_x{letter}_{name}") for name in STATICS)
        matrix, bias = self.named[f"W_x{letter}"], self.named[f"b_{letter}"]
        return InputWeights(matrix, bias, tuple(static for static in statics if static is not None))


@dataclass(frozen=True, slots=True)
class RecurrentType:
    """A type of recurrent layer: how it reads the weights of a direction, and which options it has.

    ``blobs(stored)`` are those of a direction, of which ``read(blobs)`` makes it. ``form`` is that of its cell, whose
    fields are options; ``further`` are options that change the weights. ``statics``: how many static inputs there may
    be. ``resets_input``: cont also multiplies ``W x + b``.
    """

    blobs: Callable[[StoredDirection], Iterator[NamedBlob]]
    read: Callable[[DirectionBlobs], Direction]
    form: type[LSTMForm | GRUForm | RNNForm]
    further: Sequence[str] = ()
    statics: int = 1
    resets_input: bool = False

    @property
    def options(self) -> frozenset[str]:
        """The fields of ours that layers of this type support."""
        return OF_ANY_STACK.union(self.further, (item.name for item in fields(self.form)))


def read_direction(
    build: LayerBuilder, layer: Layer, hidden: int, inputs: int, statics: Sequence[int]
) -> Direction:
    """The next direction of a layer, with ``inputs`` elements of x and static inputs of these sizes."""
    param = layer.param
    stored = StoredDirection(layer, param, hidden, build.blobs_read, len(statics))
    sizes = {"1": 1, "H": hidden, "D": inputs, **dict(zip(STATICS, statics, strict=False))}
    sizes |= {"P": int(param.num_proj) or hidden, "N": int(param.num_nonrecurrent_proj)}
    recurrent_type = RECURRENT_TYPES[layer.type]
    named = read_blobs(build, layer, param, recurrent_type.blobs(stored), sizes)
    return recurrent_type.read(DirectionBlobs(build, param, hidden, named))


def _read_lstm(blobs: DirectionBlobs) -> Direction:
    """The weights of an LSTM: those of x, static inputs, h, peepholes, projections."""
    build, param, hidden = blobs.build, blobs.param, blobs.hidden
    form, weights, matrix = form_of(LSTMForm, param), blobs.inputs(), blobs.named["W_hc"]
    if form.coupled_input_forget:
        statics = tuple(_without_f(build, static, hidden, "W_xc_static") for static in weights.statics)
        of_x = _without_f(build, weights.matrix, hidden, "W_xc")
        weights = InputWeights(of_x, _without_f(build, weights.bias, hidden, "b_c"), statics)
        matrix = _without_f(build, matrix, hidden, "W_hc")
    if param.forget_bias:
        weights = replace(weights, bias=_with_forget_bias(build, weights.bias, hidden, param.forget_bias))
    aside = blobs.named.get("W_nproj")
    peepholes = _peepholes(build, blobs.named.get("peephole"))
    shows_cell = aside is not None
    cell = LSTMCell(matrix, form, peepholes, blobs.named.get("W_proj"), shows_cell_output=shows_cell)
    return Direction(weights, cell, StateReadout() if aside is None else SideReadout(aside))


def _peepholes(build: LayerBuilder, rows: Value | None) -> tuple[Value, ...]:
    if rows is None or rows.data is None:
        return ()
    return tuple(
        build.constant(rows.data[row : row + 1], f"peephole_{gate}")
        for row, gate in enumerate(PEEPHOLES["caffe"])
    )


def _without_f(build: LayerBuilder, stored: Value, hidden: int, what: str) -> Value:
    """The rows of i, o and g; the stored ones if those of f are missing."""
    if len(stored.array) == 3 * hidden:
        return stored
    i, f, rest = np.split(stored.array, [hidden, 2 * hidden])
    build.set_equivalent(stored, concatenate([i, np.broadcast_to(np.float32(0), f.shape), rest]))
    return build.constant(concatenate([i, rest]), what)


def _with_forget_bias(build: LayerBuilder, bias: Value, hidden: int, summand: float) -> Value:
    i, f, rest = np.split(bias.array, [hidden, 2 * hidden])
    return build.stacked([i, scaled(f, summand=summand), rest], "b_c")


def _read_rnn(blobs: DirectionBlobs) -> Direction:
    named, form = blobs.named, form_of(RNNForm, blobs.param)
    readout = DenseReadout(named["W_ho"], named["b_o"], activation(blobs.param, "cell_activation"))
    return Direction(blobs.inputs("h"), RNNCell(named["W_hh"], form), readout)


def _read_vanilla_rnn(blobs: DirectionBlobs) -> Direction:
    return Direction(blobs.inputs(), RNNCell(blobs.named["W_hc"], form_of(RNNForm, blobs.param)))


def _read_gru(blobs: DirectionBlobs) -> Direction:
    if "W_n" in blobs.named:
        return _read_gru_of_synopsys(blobs)
    build, matrix = blobs.build, blobs.named["W_hc"]
    bias = None
    matrices: tuple[Value, ...] = (matrix,)
    if blobs.param.linear_before_reset:
        bias = build.aligned(blobs.named["b_hc"], 2)
    else:
        of_gates, of_n = np.split(matrix.array, [2 * blobs.hidden])
        matrices = build.constant(of_gates, "W_rz"), build.constant(of_n, "W_n")
    return Direction(blobs.inputs(), GRUCell(matrices, bias, form_of(GRUForm, blobs.param)))


def _read_gru_of_synopsys(blobs: DirectionBlobs) -> Direction:
    """Gates z, r, n; W_zr (2H, H) or W_z and W_r, W_n (H, H), and with linear_before_reset the bias of n alone."""
    build, named, weights = blobs.build, blobs.named, blobs.inputs()
    matrix, bias, *statics = (
        build.constant(permuted(value.array, "zrn", "rzn"), "reordered")
        for value in (weights.matrix, weights.bias, *weights.statics)
    )
    of_gates = [named[name].array for name in ("W_zr", "W_z", "W_r") if name in named]
    w_rz, w_n = permuted(concatenate(of_gates), "zr", "rz"), named["W_n"].array
    b_hc: Value | None = None
    matrices: tuple[Value, ...] = (build.constant(w_rz, "W_rz"), build.constant(w_n, "W_n"))
    if blobs.param.linear_before_reset:
        of_rz, b_n = np.zeros(2 * blobs.hidden, np.float32), named["b_n"].array
        b_hc = build.constant(join_of([of_rz, b_n])[None], "b_hc")
        # What is learned of the zeros is a part of the other bias.
        total = sum_of(bias.array, join_of([of_rz, np.broadcast_to(np.float32(0), b_n.shape)]))
        build.set_equivalent(weights.bias, permuted(total, "rzn", "zrn"))
        matrices = (build.constant(concatenate([w_rz, w_n]), "W_hc"),)
    cell = GRUCell(matrices, b_hc, form_of(GRUForm, blobs.param))
    return Direction(InputWeights(matrix, bias, tuple(statics)), cell)


OF_LSTM_WEIGHTS = ("forget_bias", "num_nonrecurrent_proj", "num_proj", "peephole")
RECURRENT_TYPES: Mapping[str, RecurrentType] = {
    "GRU": RecurrentType(gru_blobs, _read_gru, GRUForm, ("linear_before_reset",)),
    "LSTM": RecurrentType(lstm_blobs, _read_lstm, LSTMForm, OF_LSTM_WEIGHTS),
    "LSTMController": RecurrentType(lstm_blobs, _read_lstm, LSTMForm, OF_LSTM_WEIGHTS, resets_input=True),
    "LSTMNew": RecurrentType(lstm_blobs, _read_lstm, LSTMForm, OF_LSTM_WEIGHTS),
    "LSTMTopic": RecurrentType(lstm_blobs, _read_lstm, LSTMForm, OF_LSTM_WEIGHTS, statics=2),
    "RNN": RecurrentType(rnn_blobs, _read_rnn, RNNForm, ("cell_activation",)),
    "VanillaRNN": RecurrentType(vanilla_rnn_blobs, _read_vanilla_rnn, RNNForm),
}
"""By layer type."""
_OTHERS: Mapping[str, Sequence[NamedBlob]] = {"Lstm": LSTM_OF_FORKS, "LstmUnit": tuple(LSTM_UNIT.values())}
"""By layer type: all blobs of a layer that is read in another way."""


def named_blobs(layer: Layer) -> list[NamedBlob]:
    """The blobs of a recurrent layer in their order; none for another type, or if their number is not expected."""
    count = len(layer.blobs or ())
    stacks: Iterator[Sequence[NamedBlob]] = iter([_OTHERS.get(layer.type, ())])
    if layer.type in RECURRENT_TYPES:
        stacks = (_stack(layer, statics) for statics in range(RECURRENT_TYPES[layer.type].statics + 1))
    return next(([*blobs] for blobs in stacks if len(blobs) == count), [])


def _stack(layer: Layer, statics: int) -> list[NamedBlob]:
    """Layer by layer, forward before backward, as in PyTorch's names: ``W_xc_l0``, ``W_xc_l0_reverse``."""
    sizes, ways = hidden_sizes(layer), directions(layer.param)
    named: list[NamedBlob] = []
    for level, hidden in enumerate(sizes):
        for way in range(len(ways)):
            suffix = f"_l{level}{'_reverse' if way else ''}" if len(sizes) * len(ways) > 1 else ""
            stored = StoredDirection(layer, layer.param, hidden, len(named), 0 if level else statics)
            named += [
                replace(blob, name=blob.name + suffix) for blob in RECURRENT_TYPES[layer.type].blobs(stored)
            ]
    return named


_OF_ONE_CELL = {"LSTM": 2, "RNN": 2, "GRU": 1, "VanillaRNN": 1, "Lstm": 1}
"""Of the types with the same blobs the plainest one, and how many bottoms it needs."""


def types_by_blobs(layer: Layer) -> dict[str, int]:
    """The types of which a layer of an unknown type may be, as its stored blobs say; each with num_output."""
    shapes = [_without_old_axes(blob) for blob in layer.blobs or ()]
    hidden = next((shape[-1] for shape in reversed(shapes) if len(shape) > 1), 0)
    return {
        kind: hidden
        for kind, bottoms in _OF_ONE_CELL.items()
        if hidden
        and len(layer.bottoms) >= bottoms
        and _fit(_layer_of_type(layer, kind, hidden), shapes, hidden)
    }


def _without_old_axes(blob: StoredBlob) -> tuple[int, ...]:
    """The shape without the axes of size 1 with which old files fill up to four."""
    return tuple(dropwhile((1).__eq__, blob.shape)) if blob.legacy else blob.shape


def _layer_of_type(layer: Layer, kind: str, hidden: int) -> Layer | None:
    """The layer as one of this type; None if it states parameters that the type does not read, or other sizes."""
    message = message_class("LayerParameter")()
    message.CopyFrom(layer.message)
    meant = replace(layer, type=kind, message=message)
    if not all(is_read_by(kind, field.name) for field, _ in message.ListFields()):
        return None
    if not meant.param.num_output:
        meant.param.num_output = hidden
    return meant if meant.param.num_output == hidden else None


def _fit(meant: Layer | None, shapes: Sequence[tuple[int, ...]], hidden: int) -> bool:
    """Whether these are the shapes of the blobs, with any D and any static inputs."""
    if meant is None or (meant.type in RECURRENT_TYPES and {*hidden_sizes(meant)} != {hidden}):
        return False
    any_size = 0
    letters: dict[str, Dim] = {"1": 1, "H": hidden, **dict.fromkeys(("D", *STATICS), any_size)}
    if meant.type in RECURRENT_TYPES:
        letters |= {"P": meant.param.num_proj or hidden, "N": meant.param.num_nonrecurrent_proj}
    named = named_blobs(meant)
    return bool(named) and all(
        len(shape) == blob.axes
        and all(
            expected in (size, any_size) for size, expected in zip(shape, blob.shape(letters), strict=True)
        )
        for blob, shape in zip(named, shapes, strict=True)
    )

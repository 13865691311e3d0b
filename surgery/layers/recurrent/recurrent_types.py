"""The types of recurrent layers: which options each has, and how it reads the stored blobs of a direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.building.layer_builder import LayerBuilder, field_if_set
from prototrt.surgery.ir import Dim, Value
from prototrt.surgery.ir.uniform_constants import is_repeated, map_elements, stacked
from prototrt.surgery.layers.recurrent.options import OF_ANY_STACK, activation, form_of
from prototrt.surgery.recurrent.cells import LSTMCell, LSTMForm, RNNCell, RNNForm
from prototrt.surgery.recurrent.gates import PEEPHOLES, permuted
from prototrt.surgery.recurrent.gru import GRUCell, GRUForm
from prototrt.surgery.recurrent.stacks import DenseReadout, Direction, InputWeights, SideReadout, StateReadout


class StoredBlobs:
    """Returns the layer's blobs one after the other."""

    def __init__(self, build: LayerBuilder, layer: Layer, param: Any | None = None) -> None:
        self.build, self.layer = build, layer
        self.param = layer.param if param is None else param
        self._next = 0

    def weights(self, shape: tuple[Dim, ...], what: str, kind: Purpose = "weight") -> Value:
        """The next stored blob: a matrix, or a bias."""
        self._next += 1
        filler = field_if_set(self.param, f"{kind}_filler")
        return self.build.parameter(self.layer, shape, what, filler=filler, kind=kind)

    def inputs(self, rows: int, inputs: int, statics: Sequence[int], names: Sequence[str]) -> InputWeights:
        """The weights of x and of the static inputs; ``names`` of W_x, b, and the static ones."""
        matrix = self.weights((rows, inputs), names[0])
        bias = self.weights((rows,), names[1], "bias")
        static = [self.weights((rows, size), name) for size, name in zip(statics, names[2:], strict=False)]
        return InputWeights(matrix, bias, tuple(static))

    def has_rows(self, rows: int) -> bool:
        """Whether the next blob, if it is stored, has this number of rows."""
        blobs = self.layer.blobs
        if blobs is None or self._next >= len(blobs):
            return False
        sizes = [size for size in blobs[self._next].shape if size != 1]
        return bool(sizes) and blobs[self._next].shape[0] == rows

    def rewritten(self, value: Value, array: np.ndarray[Any, np.dtype[Any]], what: str) -> Value:
        """A constant instead of a stored blob."""
        return self.build.constant(array if is_repeated(array) else np.ascontiguousarray(array), what)


@dataclass(frozen=True, slots=True)
class RecurrentType:
    """A type of recurrent layer: how it reads the weights of a direction, and which options it has.

    ``read(blobs, hidden, inputs, sizes of static inputs) -> Direction``. ``form`` is that of its cell, whose
    fields are options; ``further`` are options that change the weights. ``statics``: how many
    static inputs there may be. ``resets_input``: cont also multiplies ``W x + b``.
    """

    read: Callable[[StoredBlobs, int, int, Sequence[int]], Direction]
    form: type[LSTMForm | GRUForm | RNNForm]
    further: Sequence[str] = ()
    statics: int = 1
    resets_input: bool = False

    @property
    def options(self) -> frozenset[str]:
        """The fields of ours that layers of this type support."""
        return OF_ANY_STACK.union(self.further, (item.name for item in fields(self.form)))


NAMES = ("W_xc", "b_c", "W_xc_static", "W_xc_topic")


def _read_lstm(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Direction:
    """The weights of an LSTM: those of x, static inputs, h, peepholes, projections."""
    build, param = blobs.build, blobs.param
    form = form_of(LSTMForm, param)
    weights = blobs.inputs(_rows_of_gates(blobs, form, hidden), inputs, statics, NAMES)
    width = int(param.num_proj) or hidden
    matrix = blobs.weights((_rows_of_gates(blobs, form, hidden), width), "W_hc")
    if form.coupled_input_forget:
        weights = _inputs_without_f(build, weights, hidden)
        matrix = _without_f(build, matrix, hidden, "W_hc")
    if param.forget_bias:
        weights = replace(weights, bias=_with_forget_bias(build, weights.bias, hidden, param.forget_bias))
    rows = blobs.weights((3, hidden), "peephole") if param.peephole else None
    projection = blobs.weights((width, hidden), "W_proj") if param.num_proj else None
    shown = int(param.num_nonrecurrent_proj)
    aside = blobs.weights((shown, hidden), "W_nproj") if shown else None
    cell = LSTMCell(matrix, form, _peepholes(build, rows), projection, shows_cell_output=aside is not None)
    return Direction(weights, cell, StateReadout() if aside is None else SideReadout(aside))


def _peepholes(build: LayerBuilder, rows: Value | None) -> tuple[Value, ...]:
    if rows is None or rows.data is None:
        return ()
    return tuple(
        build.constant(rows.data[row : row + 1], f"peephole_{gate}")
        for row, gate in enumerate(PEEPHOLES["caffe"])
    )


def _rows_of_gates(blobs: StoredBlobs, form: LSTMForm, hidden: int) -> int:
    """How many rows the next blob has. If f is 1 - i, the rows of f are missing or unused."""
    lacks_f = form.coupled_input_forget and not blobs.has_rows(4 * hidden)
    return (3 if lacks_f else 4) * hidden


def _inputs_without_f(build: LayerBuilder, stored: InputWeights, hidden: int) -> InputWeights:
    matrix, bias = (
        _without_f(build, stored.matrix, hidden, "W_xc"),
        _without_f(build, stored.bias, hidden, "b_c"),
    )
    statics = tuple(_without_f(build, static, hidden, "W_xc_static") for static in stored.statics)
    return InputWeights(matrix, bias, statics)


def _without_f(build: LayerBuilder, stored: Value, hidden: int, what: str) -> Value:
    """The rows of i, o and g; the stored ones if those of f are missing."""
    if len(stored.array) == 3 * hidden:
        return stored
    return build.constant(stacked([stored.array[:hidden], stored.array[2 * hidden :]]), what)


def _with_forget_bias(build: LayerBuilder, bias: Value, hidden: int, summand: float) -> Value:
    i, f, rest = np.split(bias.array, [hidden, 2 * hidden])
    parts = [i, map_elements(lambda stored: stored + np.float32(summand), f), rest]
    return build.stacked(parts, "b_c")


def _read_rnn(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Direction:
    param = blobs.param
    weights = blobs.inputs(hidden, inputs, statics, ("W_xh", "b_h", "W_xh_static"))
    cell = RNNCell(blobs.weights((hidden, hidden), "W_hh"), form_of(RNNForm, param))
    w_ho, b_o = blobs.weights((hidden, hidden), "W_ho"), blobs.weights((hidden,), "b_o", "bias")
    return Direction(weights, cell, DenseReadout(w_ho, b_o, activation(param, "cell_activation")))


def _read_vanilla_rnn(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Direction:
    weights = blobs.inputs(hidden, inputs, statics, NAMES)
    return Direction(weights, RNNCell(blobs.weights((hidden, hidden), "W_hc"), form_of(RNNForm, blobs.param)))


def _read_gru(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Direction:
    build, param = blobs.build, blobs.param
    weights = blobs.inputs(3 * hidden, inputs, statics, NAMES)
    pieces = next((count for count in (1, 2) if blobs.has_rows(2 * hidden // count)), 0)
    if pieces:
        return _read_gru_of_synopsys(blobs, hidden, weights, pieces)
    matrix = blobs.weights((3 * hidden, hidden), "W_hc")
    bias = None
    matrices: tuple[Value, ...] = (matrix,)
    if param.linear_before_reset:
        bias = build.aligned(blobs.weights((3 * hidden,), "b_hc", "bias"), 2)
    else:
        of_gates, of_n = np.split(matrix.array, [2 * hidden])
        matrices = build.constant(of_gates, "W_rz"), build.constant(of_n, "W_n")
    return Direction(weights, GRUCell(matrices, bias, form_of(GRUForm, param)))


def _read_gru_of_synopsys(blobs: StoredBlobs, hidden: int, weights: InputWeights, pieces: int) -> Direction:
    """Gates z, r, n; W_zr (2H, H) or W_z and W_r, W_n (H, H), and with linear_before_reset the bias of n alone.

    Source: foss-for-synopsys-dwc-arc-processors/synopsys-caffe ``src/caffe/layers/gru_layer.cpp``, two versions.
    """
    build, param = blobs.build, blobs.param
    matrix, bias, *statics = (
        build.constant(permuted(value.array, "zrn", "rzn"), "reordered")
        for value in (weights.matrix, weights.bias, *weights.statics)
    )
    of_gates = [blobs.weights((2 * hidden // pieces, hidden), "W_zr").array for _ in range(pieces)]
    w_rz = permuted(stacked(of_gates), "zr", "rz")
    w_n = blobs.weights((hidden, hidden), "W_n").array
    b_hc: Value | None = None
    matrices: tuple[Value, ...] = (build.constant(w_rz, "W_rz"), build.constant(w_n, "W_n"))
    if param.linear_before_reset:
        b_n = blobs.weights((hidden,), "b_n", "bias").array
        b_hc = build.constant(np.concatenate([np.zeros(2 * hidden, b_n.dtype), b_n])[None], "b_hc")
        matrices = (build.constant(stacked([w_rz, w_n]), "W_hc"),)
    cell = GRUCell(matrices, b_hc, form_of(GRUForm, param))
    return Direction(InputWeights(matrix, bias, tuple(statics)), cell)


OF_LSTM_WEIGHTS = ("forget_bias", "num_nonrecurrent_proj", "num_proj", "peephole")
RECURRENT_TYPES: Mapping[str, RecurrentType] = {
    "GRU": RecurrentType(_read_gru, GRUForm, ("linear_before_reset",)),
    "LSTM": RecurrentType(_read_lstm, LSTMForm, OF_LSTM_WEIGHTS),
    "LSTMController": RecurrentType(_read_lstm, LSTMForm, OF_LSTM_WEIGHTS, resets_input=True),
    "LSTMNew": RecurrentType(_read_lstm, LSTMForm, OF_LSTM_WEIGHTS),
    "LSTMTopic": RecurrentType(_read_lstm, LSTMForm, OF_LSTM_WEIGHTS, statics=2),
    "RNN": RecurrentType(_read_rnn, RNNForm, ("cell_activation",)),
    "VanillaRNN": RecurrentType(_read_vanilla_rnn, RNNForm),
}
"""By layer type."""

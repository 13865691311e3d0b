"""The recurrent layers of Caffe, and those that could have been."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError
from prototrt.surgery.expansion.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.uniform_constants import map_elements, stacked
from prototrt.surgery.layers.recurrent.activations import activation_named
from prototrt.surgery.layers.recurrent.bottoms import Bottoms, Expected, read_bottoms
from prototrt.surgery.layers.recurrent.options import (
    clip,
    directions,
    hidden_sizes,
    holds_past_end,
    is_caffes,
    lstm_form,
    refuse_foreign_fields,
)
from prototrt.surgery.layers.recurrent.single_step import share_single_step
from prototrt.surgery.layers.recurrent.states import States
from prototrt.surgery.layers.recurrent.stored_blobs import StoredBlobs
from prototrt.surgery.ops import ADD, Concat
from prototrt.surgery.recurrent.cells import LSTMCell, LSTMForm, RNNCell, activated
from prototrt.surgery.recurrent.directions import InputWeights, Layout, Pass, run_passes
from prototrt.surgery.recurrent.gru import GRUCell


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of recurrent layer: its states, the fields it knows, and how it reads the weights of a pass.

    ``read(blobs, hidden, inputs, sizes of static inputs) -> Pass``; ``state_sizes(param, hidden)``.
    """

    states: tuple[str, ...]
    fields: Collection[str]
    read: Callable[[StoredBlobs, int, int, Sequence[int]], Pass]
    statics: int = 1
    gates_input: bool = False


def recurrent(
    build: LayerBuilder, layer: Layer, family: Family, x: Value, cont: Value | None, others: Sequence[Value]
) -> list[Value]:
    """Expand a recurrent layer of any family."""
    param = layer.param
    refuse_foreign_fields(layer, family.fields)
    exposed = family.states if param.expose_hidden else ()
    expected = Expected(family.statics, bool(param.sequence_lengths), exposed)
    sizes, backwards = hidden_sizes(param), directions(param)
    bottoms = read_bottoms(layer, x, cont, others, expected)
    states = _states(build, layer, family, bottoms, [size for size in sizes for _ in backwards])
    layout = Layout(
        backwards,
        adds_up=param.bidirectional == param.SUM,
        holds_past_end=holds_past_end(param),
        input_clip=clip(param, "input_clip"),
        gates_input=family.gates_input,
    )
    blobs = StoredBlobs(build, layer)
    top = run_passes(
        build, bottoms, [_reader(family, blobs, bottoms, size) for size in sizes], layout, states
    )
    return [top, *states.exposed_tops()]


def _reader(family: Family, blobs: StoredBlobs, bottoms: Bottoms, hidden: int) -> Callable[[int, bool], Pass]:
    statics = [bottoms.static_size(place) for place in range(len(bottoms.statics))]
    return lambda inputs, first: family.read(blobs, hidden, inputs, statics if first else [])


def _states(
    build: LayerBuilder, layer: Layer, family: Family, bottoms: Bottoms, hidden: Sequence[int]
) -> States:
    """The states of all passes; ``hidden`` has an entry for each."""
    projected = int(layer.param.num_proj) if "c" in family.states else 0
    sizes = {"h": [projected or size for size in hidden], "c": list(hidden)}
    for index, (name, value) in enumerate(zip(family.states, bottoms.initial, strict=False)):
        if len(set(sizes[name])) > 1:
            raise NetError(
                "states expose_hidden with layers of different sizes",
                because="the states of all layers are one blob",
                fix="give all layers one size, or leave expose_hidden out: states are bindings then",
            )
        bottoms.expect(bottoms.first_state + index, value, (len(hidden), bottoms.streams, sizes[name][0]))
    return States(build, family.states, [sizes[name] for name in family.states], bottoms.x, bottoms.initial)


@layer_rule("LSTM")
def lstm(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Long short-term memory over T steps of N streams.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    Bottoms: x (T, N, ...), cont (T, N), optionally x_static (N, ...), with sequence_lengths
    lengths (N,), and with expose_hidden h_0, c_0 (1, N, H). Tops: h (T, N, H), and with expose_hidden
    h_T, c_T (1, N, H).
    Blobs: W_xc (4H, D), b_c (4H,), [W_xc_static (4H, S)], W_hc (4H, H), [peephole (3, H)],
    [W_proj (P, H)], [W_nproj (Q, H)], a direction, a layer; gates i, f, o, g.
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``lstm_layer.cpp``; docs/recurrent.md.
    """
    state = len(build.recurrences)
    tops = recurrent(build, layer, LSTM, x, cont, others)
    if is_caffes(layer.param):
        share_single_step(build, layer, tops, state)
    return tops


@layer_rule("RNN")
def rnn(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Plain recurrence: ``h' = tanh(W_xh x + W_hh h + b_h)``, top ``tanh(W_ho h' + b_o)``.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; MatMul, Add, TanH; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone.
    Blobs: W_xh (H, D), b_h (H,), [W_xh_static (H, S)], W_hh (H, H), W_ho (H, H), b_o (H,).
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``rnn_layer.cpp``.
    """
    return recurrent(build, layer, RNN, x, cont, others)


@layer_rule("GRU")
def gru(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value | None = None, *others: Value
) -> list[Value]:
    """Gated recurrent unit; ``linear_before_reset`` resets after the product, as cuDNN does.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone; cont may be left out if nothing follows it.
    Blobs: W_xc (3H, D), b_c (3H,), [W_xc_static (3H, S)], W_hc (3H, H), with linear_before_reset
    b_hc (3H,); gates r, z, n.
    Source: docs/recurrent.md.
    """
    return recurrent(build, layer, GRU, x, cont, others)


@layer_rule("VanillaRNN")
def vanilla_rnn(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value | None = None, *others: Value
) -> list[Value]:
    """``h' = tanh(W_xc x + W_hc h + b_c)``, which is the top; ``candidate_activation`` in the place of tanh.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone; cont may be left out if nothing follows it.
    Blobs: W_xc (H, D), b_c (H,), [W_xc_static (H, S)], W_hc (H, H).
    Source: docs/recurrent.md.
    """
    return recurrent(build, layer, VANILLA_RNN, x, cont, others)


NAMES = ("W_xc", "b_c", "W_xc_static", "W_xc_topic")


def read_lstm(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Pass:
    """The weights of an LSTM: those of x, static inputs, h, peepholes, projections."""
    build, param = blobs.build, blobs.param
    form = lstm_form(param)
    coupling = Coupling(blobs, form, hidden)
    weights = coupling.inputs(blobs.inputs(coupling.rows, inputs, statics, NAMES))
    width = int(param.num_proj) or hidden
    matrix = coupling.without_f(blobs.weights((coupling.rows, width), "W_hc"), "W_hc")
    rows = blobs.weights((3, hidden), "peephole") if param.peephole else None
    projection = blobs.weights((width, hidden), "W_proj") if param.num_proj else None
    shown = int(param.num_nonrecurrent_proj)
    aside = blobs.weights((shown, hidden), "W_nproj") if shown else None
    cell = LSTMCell(matrix, form, _peepholes(build, rows), projection, shows_cell_output=aside is not None)

    def top(outputs: Sequence[Value]) -> Value:
        if aside is None:
            return outputs[0]
        to_the_side = build.product(outputs[1], aside, hint="side_projection")
        return build.add(Concat(2), outputs[0], to_the_side, hint="projections")

    # One delta meets both states: it is broadcast where they differ in size.
    delta_size = hidden if width == hidden else 1
    # Without a projection, the cell's output is the state h.
    no_states = (hidden,) if projection is not None and aside is not None else ()
    return Pass(weights, cell, delta_size, top, no_states)


def _peepholes(build: LayerBuilder, rows: Value | None) -> tuple[Value, ...]:
    if rows is None or rows.data is None:
        return ()
    return tuple(
        build.constant(rows.data[row : row + 1], f"peephole_{gate}") for row, gate in enumerate("ifo")
    )


@dataclass(frozen=True, slots=True, eq=False)
class Coupling:
    """The rows of an LSTM's matrices, which lack those of f, or hold them in vain, where f is 1 - i.

    Also adds forget_bias: it is known now.
    """

    blobs: StoredBlobs
    form: LSTMForm
    hidden: int

    @property
    def rows(self) -> int:
        """How many rows the next blob has."""
        if self.form.coupled and not self.blobs.has_rows(4 * self.hidden):
            return 3 * self.hidden
        return 4 * self.hidden

    def inputs(self, stored: InputWeights) -> InputWeights:
        statics = tuple(self.without_f(static, "W_xc_static") for static in stored.statics)
        bias = self._with_forget_bias(self.without_f(stored.bias, "b_c"))
        return InputWeights(self.without_f(stored.matrix, "W_xc"), bias, statics)

    def without_f(self, stored: Value, what: str) -> Value:
        assert stored.data is not None
        if not self.form.coupled or len(stored.data) == 3 * self.hidden:
            return stored
        rows = [stored.data[: self.hidden], stored.data[2 * self.hidden :]]
        array = stacked(rows)
        return self.blobs.build.constant(array, what)

    def _with_forget_bias(self, bias: Value) -> Value:
        forget_bias = self.blobs.param.forget_bias
        if not forget_bias:
            return bias
        assert bias.data is not None
        build, cuts = self.blobs.build, (self.hidden, 2 * self.hidden)
        i, f, rest = bias.data[: cuts[0]], bias.data[cuts[0] : cuts[1]], bias.data[cuts[1] :]
        parts = [i, map_elements(lambda stored: stored + np.float32(forget_bias), f), rest]
        return build.stacked(parts, "b_c")


def _read_rnn(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Pass:
    build, param = blobs.build, blobs.param
    weights = blobs.inputs(hidden, inputs, statics, ("W_xh", "b_h", "W_xh_static"))
    matrix = blobs.weights((hidden, hidden), "W_hh")
    w_ho = blobs.weights((hidden, hidden), "W_ho")
    b_o = blobs.bias((hidden,), "b_o")
    activation = activation_named(param.cell_activation, "cell_activation")

    def top(outputs: Sequence[Value]) -> Value:
        product = build.product(outputs[0], w_ho, hint="output_product")
        total = build.add(ADD, product, build.aligned(b_o, 3), hint="output_sum")
        return activated(build, activation, total, "output")

    candidate = activation_named(param.candidate_activation, "candidate_activation")
    return Pass(weights, RNNCell(matrix, candidate), hidden, top)


def _read_vanilla_rnn(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Pass:
    weights = blobs.inputs(hidden, inputs, statics, NAMES)
    matrix = blobs.weights((hidden, hidden), "W_hc")
    candidate = activation_named(blobs.param.candidate_activation, "candidate_activation")
    return Pass(weights, RNNCell(matrix, candidate), hidden, lambda outputs: outputs[0])


def _read_gru(blobs: StoredBlobs, hidden: int, inputs: int, statics: Sequence[int]) -> Pass:
    build, param = blobs.build, blobs.param
    weights = blobs.inputs(3 * hidden, inputs, statics, NAMES)
    matrix = blobs.weights((3 * hidden, hidden), "W_hc")
    bias = None
    matrices: tuple[Value, ...] = (matrix,)
    if param.linear_before_reset:
        bias = build.aligned(blobs.bias((3 * hidden,), "b_hc"), 2)
    else:
        assert matrix.data is not None
        cut = 2 * hidden
        matrices = build.constant(matrix.data[:cut], "W_rz"), build.constant(matrix.data[cut:], "W_n")
    gate = activation_named(param.gate_activation, "gate_activation")
    candidate = activation_named(param.candidate_activation, "candidate_activation")
    return Pass(weights, GRUCell(matrices, bias, gate, candidate), hidden, lambda outputs: outputs[0])


LSTM_FIELDS = (
    "gate_activation",
    "candidate_activation",
    "cell_activation",
    "projection_activation",
    "peephole",
    "num_proj",
    "num_nonrecurrent_proj",
    "cell_clip",
    "proj_clip",
    "coupled_input_forget",
    "forget_bias",
)
LSTM = Family(("h", "c"), LSTM_FIELDS, read_lstm)
RNN = Family(("h",), ("candidate_activation", "cell_activation"), _read_rnn)
VANILLA_RNN = Family(("h",), ("candidate_activation",), _read_vanilla_rnn)
GRU = Family(("h",), ("gate_activation", "candidate_activation", "linear_before_reset"), _read_gru)

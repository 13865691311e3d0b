"""The recurrent layers of Caffe, and others in the same style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, refuse_fields_of
from prototrt.surgery.ir import element_count, fixed
from prototrt.surgery.layers.recurrent.bottoms import (
    ExpectedBottoms,
    RecurrentBottoms,
    bottom,
    expect_shape,
    expect_step,
    read_bottoms,
)
from prototrt.surgery.layers.recurrent.options import (
    check_options,
    directions,
    hidden_sizes,
    is_caffes,
    limit,
)
from prototrt.surgery.layers.recurrent.packed import is_packed, packed_recurrence
from prototrt.surgery.layers.recurrent.recurrent_types import RECURRENT_TYPES, RecurrentType, read_direction
from prototrt.surgery.layers.recurrent.states import LayerStates, share_single_step
from prototrt.surgery.recurrent.cells import lstm_unit
from prototrt.surgery.recurrent.running import run_stack
from prototrt.surgery.recurrent.stacks import Direction, Stack

_OF_MAPS = dict.fromkeys(("wxc_convolution_param", "whh_convolution_param"), "ConvolutionLSTM")


@layer_rule("LSTM")
def lstm(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Long short-term memory over T steps of N streams.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    Bottoms: x (T, N, ...), cont (T, N), optionally x_static (N, ...), with sequence_lengths
    lengths (N,), and with expose_hidden h_0, c_0 (1, N, H). Tops: h (T, N, H), and with expose_hidden
    h_T, c_T (1, N, H).
    Blobs: W_xc (4H, D), b_c (4H,), [W_xc_static (4H, S)], W_hc (4H, H), [peephole (3, H)],
    [W_proj (P, H)], [W_nproj (Q, H)], a direction, a layer; gates i, f, o, g. Or one blob, as cuDNN packs it.
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``lstm_layer.cpp``; docs/recurrent.md.
    """
    if is_packed(layer):
        return packed_recurrence(build, layer, x, cont, others)
    state = len(build.recurrences)
    tops = recurrent(build, layer, x, cont, others)
    if is_caffes(layer.param):
        share_single_step(build, layer, tops, state)
    return tops


@layer_rule("RNN")
def rnn(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Plain recurrence: ``h' = tanh(W_xh x + W_hh h + b_h)``, top ``tanh(W_ho h' + b_o)``.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; MatMul, Add, TanH; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone.
    Blobs: W_xh (H, D), b_h (H,), [W_xh_static (H, S)], W_hh (H, H), W_ho (H, H), b_o (H,). Or one blob, as cuDNN
    packs it, of a recurrence with ReLU whose state is the top.
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``rnn_layer.cpp``.
    """
    if is_packed(layer):
        return packed_recurrence(build, layer, x, cont, others)
    return recurrent(build, layer, x, cont, others)


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
    return recurrent(build, layer, x, cont, others)


@layer_rule("VanillaRNN")
def vanilla_rnn(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value | None = None, *others: Value
) -> list[Value]:
    """``h' = tanh(W_xc x + W_hc h + b_c)``, which is the top; ``candidate_activation`` replaces tanh.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone; cont may be left out if nothing follows it.
    Blobs: W_xc (H, D), b_c (H,), [W_xc_static (H, S)], W_hc (H, H).
    Source: docs/recurrent.md.
    """
    return recurrent(build, layer, x, cont, others)


def recurrent(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value | None, others: Sequence[Value]
) -> list[Value]:
    """Expand a recurrent layer of any of the ``RECURRENT_TYPES``."""
    param, recurrent_type = layer.param, RECURRENT_TYPES[layer.type]
    refuse_fields_of(param, _OF_MAPS)
    check_options(layer, recurrent_type.options)
    states = recurrent_type.form.states if param.expose_hidden else ()
    expected = ExpectedBottoms(recurrent_type.statics, bool(param.sequence_lengths), states)
    bottoms = read_bottoms(build, layer, x, cont, others, expected)
    stack = _stack(build, layer, recurrent_type, bottoms)
    _check_initial(bottoms, stack)
    layer_states = LayerStates(build, stack.state_shapes(bottoms.streams), x, bottoms.initial)
    ran = run_stack(
        build, stack, bottoms.stack_inputs(build, limit(param, "input_clip")), layer_states.initial
    )
    return [ran.top, *layer_states.leave(ran.states)]


def _stack(
    build: LayerBuilder, layer: Layer, recurrent_type: RecurrentType, bottoms: RecurrentBottoms
) -> Stack:
    """The layers and directions, with the stored weights of each."""
    param, layers = layer.param, list[list[Direction]]()
    inputs = element_count(bottoms.x.shape[2:], "an axis of x")
    statics = [bottoms.static_size(place) for place in range(len(bottoms.statics))]
    adds_up = param.bidirectional == param.SUM
    for hidden in hidden_sizes(layer):
        if layers:  # it reads the tops of the layer below
            widths = [direction.width for direction in layers[-1]]
            inputs, statics = widths[0] if adds_up else sum(widths), []
        layers.append(
            [
                replace(read_direction(build, layer, hidden, inputs, statics), reverse=reverse)
                for reverse in directions(param)
            ]
        )
    return Stack(layers, adds_up, recurrent_type.resets_input, holds_past_end=param.past_end == param.HOLD)


def _check_initial(bottoms: RecurrentBottoms, stack: Stack) -> None:
    """Refuse exposed initial states that do not fit."""
    shapes = [*stack.state_shapes(bottoms.streams).values()] if bottoms.initial else []
    if any(len(of_state) > 1 for of_state in shapes):
        raise NetError(
            "states expose_hidden with layers of different sizes",
            because="the states of all layers are one blob",
            fix="give all layers one size, or omit expose_hidden, so that states become bindings",
        )
    bottoms.expect_states(*(shape for shape, *_ in shapes))


@layer_rule("LSTMUnit")
def lstm_unit_layer(build: LayerBuilder, layer: Layer, c: Value, gates: Value, cont: Value) -> list[Value]:
    """``c' = cont f c + i g``, ``h' = o tanh(c')``: what Caffe's LSTM does in each step.

    Becomes: Slice, Sigmoid, TanH, Multiply, Add.
    Bottoms: c (1, N, H), gates i, f, o, g (1, N, 4H), cont (1, N), in LisaAnne's fork (1, 1, N).
    Tops: c' and h', (1, N, H).
    Source: caffe and LisaAnne/lisa-caffe-public ``src/caffe/layers/lstm_unit_layer.cpp``.
    """
    expect_step(layer, c)
    streams, hidden = c.shape[1], fixed(c.shape[2], "the number of hidden units")
    because = f"{bottom(layer, 0)} has the shape {c.shape}, (1, N, H)"
    expect_shape(layer, gates, (1, streams, 4 * hidden), because, 1)
    if cont.shape != (1, 1, streams):
        expect_shape(layer, cont, (1, streams), because, 2)
    delta = build.reshape(cont, (1, streams, 1), hint="cont")
    state = (c * delta).named("delta_product")
    return list(lstm_unit(gates, state))

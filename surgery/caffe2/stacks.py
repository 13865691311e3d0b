"""Whole recurrent nets in one operator: InferenceLSTM and cuDNN's Recurrent."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from prototrt.caffe_proto.caffe2.advice import (
    CUT_BEFORE,
    GIVE_INIT_NET,
    GIVE_SHAPES_AND_INIT_NET,
    MEND_ARGUMENTS,
)
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.packed import GATES, PackedArray, PackedLayout
from prototrt.caffe_proto.caffe2.param_set import source_and_name
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError, WeightsError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.caffe2.operator_rule import constant_array, expect_axes, misfit, operator_rule
from prototrt.surgery.ir import Array, fixed
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.ops import Transpose
from prototrt.surgery.recurrent.running import StackInputs, run_stack
from prototrt.surgery.recurrent.stacks import Stack, direction_of
from prototrt.surgery.recurrent.weights import (
    DirectionWeights,
    from_cudnn,
    in_order,
    to_cudnn,
    with_one_bias,
)


@operator_rule("InferenceLSTM")
def inference_lstm(
    build: LayerBuilder, operator: Operator, x: Value, h: Value, c: Value, *weights: Value
) -> list[Value]:
    """LSTM layers of one or two directions, with PyTorch's conventions.

    Becomes: MatMul, Add; one Scan a layer and direction.
    Inputs: x (T, N, D), or (N, T, D) with ``batch_first``; h and c (layers * directions, N, H);
    for each layer and direction w_ih, w_hh and, with ``has_biases``, b_ih and b_hh; gates
    i, f, g, o. Outputs: y (T, N, directions * H), last h and c.
    """
    arguments = operator.arguments
    expect_axes(operator, x, 3, "three axes")
    layers = arguments.integer("num_layers", 1)
    directions = 2 if arguments.flag("bidirectional") else 1
    each = 4 if arguments.flag("has_biases", True) else 2
    if layers < 1 or len(weights) != layers * directions * each:
        raise NetError(
            f"has {len(weights)} weights, expected {max(layers, 1) * directions * each}", fix=MEND_ARGUMENTS
        )
    arrays = [constant_array(build, operator, 3 + index, value) for index, value in enumerate(weights)]
    starts = range(0, len(arrays), each)
    directions_weights = [with_one_bias(_with_biases(arrays[start : start + each])) for start in starts]
    if each == 4:
        for start, one in zip(starts, directions_weights, strict=True):
            build.set_equivalent(weights[start + 2], one.x_bias)
            build.set_equivalent(weights[start + 3], 0.0)
    _check_sizes(directions_weights, fixed(x.shape[2], "the number of inputs D"), directions)
    stored = [in_order(one, "pytorch", "caffe") for one in directions_weights]
    is_batch_first = arguments.flag("batch_first")
    if is_batch_first:
        x = build.add(Transpose((1, 0, 2)), x, hint="steps_first")
    y, *last = _run(build, operator, stored, directions, x, [h, c])
    return [build.add(Transpose((1, 0, 2)), y) if is_batch_first else y, *last]


def _with_biases(arrays: list[Array]) -> DirectionWeights:
    nothing = np.broadcast_to(np.float32(0), arrays[0].shape[:1])
    return DirectionWeights("LSTM", arrays[0], arrays[1], *(arrays[2:] or [nothing, nothing]))


def _check_sizes(directions_weights: Sequence[DirectionWeights], inputs: int, directions: int) -> None:
    """Refuse weights that do not fit each other, or the number of inputs of the first layer."""
    for index, one in enumerate(directions_weights):
        rows = one.h.shape[0]
        hidden = rows // 4
        below = directions_weights[: index - index % directions][-directions:]
        size = sum(each.h.shape[0] // 4 for each in below) or inputs
        shapes = [array.shape for array in (one.x, one.h, one.x_bias, one.h_bias)]
        expected = [(4 * hidden, size), (4 * hidden, hidden), (rows,), (rows,)]
        if shapes != expected:
            raise WeightsError(
                f"weights of a layer have the shapes {shapes}, expected {expected}", fix=GIVE_INIT_NET
            )


@operator_rule("Recurrent")
def recurrent(
    build: LayerBuilder, operator: Operator, x: Value, h: Value, c: Value, weights: Value
) -> list[Value]:
    """cuDNN's LSTM or GRU: layers and directions with all weights in one blob.

    Becomes: MatMul, Add; one Scan a layer and direction.
    Inputs: x (T, N, D), h and c (layers * directions, N, H), the packed weights. Outputs: y
    (T, N, directions * H), last h, and for an LSTM last c. Scratch memory and the states of
    dropout are not tensors. ``dropout`` and ``seed`` have no effect at inference.
    """
    layout = _packed_layout(operator, x)
    packed = constant_array(build, operator, 3, weights).reshape(-1)
    _refuse_short(operator, 3, packed, layout)
    cell, sizes = layout.mode.upper(), (layout.inputs, layout.hidden, layout.layers, layout.directions)
    stored = from_cudnn(packed[: layout.size], cell, *sizes)
    if cell == "LSTM":
        stored = [with_one_bias(one) for one in stored]
        build.set_equivalent(weights, concatenate([to_cudnn(stored), packed[layout.size :]]))
    return _run(build, operator, stored, layout.directions, x, [h, c] if layout.mode == "lstm" else [h])


@operator_rule("RecurrentParamGet")
def recurrent_param_get(build: Builder, operator: Operator, x: Value, weights: Value) -> list[Value]:
    """One matrix or bias out of the packed weights of Recurrent.

    Becomes: a constant.
    Inputs: x (T, N, D), of which only the shape is read, the packed weights. Output: (1, H, columns) or
    (1, H, 1), as cuDNN describes it.
    Source: caffe2 ``operators/rnn/recurrent_op_cudnn.cc``, ``RecurrentParamAccessOp``.
    """
    packed, part = _packed_array(build, operator, x, weights)
    array = packed[part.offset : part.offset + prod(part.shape)]
    return [build.constant(array.reshape(1, part.shape[0], -1), part.parameter)]


@operator_rule("RecurrentParamSet")
def recurrent_param_set(
    build: Builder, operator: Operator, x: Value, weights: Value, values: Value
) -> list[Value]:
    """The packed weights of Recurrent with another matrix or bias.

    Becomes: a constant.
    Inputs: x (T, N, D), of which only the shape is read, the packed weights, and the numbers, constant.
    Output: the packed weights.
    Source: caffe2 ``operators/rnn/recurrent_op_cudnn.cc``, ``RecurrentParamAccessOp``.
    """
    packed, part = _packed_array(build, operator, x, weights)
    array = constant_array(build, operator, 2, values)
    if array.size != prod(part.shape):
        raise WeightsError(
            f"has the shape {array.shape}, expected {part.shape}",
            blob=f'input "{operator.bottom_blob(2)}"',
            fix=GIVE_INIT_NET,
        )
    changed = packed.copy()
    changed[part.offset : part.offset + array.size] = array.reshape(-1)
    return [build.constant(changed, "weights")]


def _packed_array(build: Builder, operator: Operator, x: Value, weights: Value) -> tuple[Array, PackedArray]:
    """The packed weights, and which part of them an operator reads or writes."""
    layout, packed = _packed_layout(operator, x), constant_array(build, operator, 1, weights).reshape(-1)
    _refuse_short(operator, 1, packed, layout)
    layer, arguments = operator.arguments.integer("layer", 0), operator.arguments
    part = layout.arrays.get((layer, *source_and_name(arguments, layout.mode)))
    if part is None:
        raise NetError(
            f"layer is {layer}, expected 0 to {layout.layers * layout.directions - 1}", fix=MEND_ARGUMENTS
        )
    return packed, part


def _refuse_short(operator: Operator, index: int, packed: Array, layout: PackedLayout) -> None:
    if packed.size < layout.size:
        raise WeightsError(
            f"holds {packed.size} numbers, expected at least {layout.size}",
            blob=f'input "{operator.bottom_blob(index)}"',
            because=f"D is {layout.inputs}, H {layout.hidden}, with {layout.layers} layers in"
            f" {layout.directions} directions",
            fix=GIVE_INIT_NET,
        )


def _packed_layout(operator: Operator, x: Value) -> PackedLayout:
    """The sizes that the arguments state. Raises ``NetError`` for what cuDNN has, but we do not."""
    arguments = operator.arguments
    mode, hidden = arguments.text("rnn_mode", ""), arguments.integer("hidden_size", 0)
    layers = arguments.integer("num_layers", 1)
    directions = 2 if arguments.flag("bidirectional") else 1
    if mode not in GATES:
        raise UnsupportedLayerError(f'rnn_mode is "{mode}", expected "lstm" or "gru"', fix=CUT_BEFORE)
    if (input_mode := arguments.text("input_mode", "linear")) != "linear":
        raise UnsupportedLayerError(f'input_mode is "{input_mode}", expected "linear"', fix=CUT_BEFORE)
    if hidden < 1 or layers < 1:
        raise NetError(
            f"hidden_size is {hidden} and num_layers {layers}, expected at least 1", fix=MEND_ARGUMENTS
        )
    expect_axes(operator, x, 3, "(T, N, D)")
    return PackedLayout(mode, fixed(x.shape[2], "the number of inputs D"), hidden, layers, directions)


def _run(
    build: Builder,
    operator: Operator,
    stored: Sequence[DirectionWeights],
    directions: int,
    x: Value,
    states: Sequence[Value],
) -> list[Value]:
    """The outputs of the last layer (T, N, directions * H), and the last states of all layers and directions."""
    each = [direction_of(build, one, reverse=index % directions == 1) for index, one in enumerate(stored)]
    stack = Stack([each[start : start + directions] for start in range(0, len(each), directions)])
    _check_states(operator, stack, x, states)
    ran = run_stack(build, stack, StackInputs(x), [[state] for state in states])
    finals = [after for (after,) in ran.states]
    for before, after in zip(states, finals, strict=True):
        build.expose_state(before, after)
    return [ran.top, *finals]


def _check_states(operator: Operator, stack: Stack, x: Value, states: Sequence[Value]) -> None:
    layers, directions = len(stack.layers), len(stack.layers[0])
    for index, (state, sizes) in enumerate(zip(states, stack.state_sizes.values(), strict=True), 1):
        if len(state.shape) != 3 or state.shape[:2] != (len(sizes), x.shape[1]):
            because = f"there are {layers} layers in {directions} directions, and N is {x.shape[1]}"
            raise misfit(operator, index, state, f"({len(sizes)}, {x.shape[1]}, H)", because)
        if set(sizes) != {state.shape[2]}:
            hidden = next(size for size in sizes if size != state.shape[2])
            raise ShapeError(
                f"states have {state.shape[2]} numbers, expected H, which is {hidden}",
                fix=GIVE_SHAPES_AND_INIT_NET,
            )

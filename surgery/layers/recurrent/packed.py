"""LSTM and RNN layers over cuDNN, whose weights are one blob in cuDNN's order."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import UnsupportedLayerError, WeightsError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import element_count
from prototrt.surgery.layers.recurrent.bottoms import fitted_indicator
from prototrt.surgery.layers.recurrent.options import check_options, hidden_sizes
from prototrt.surgery.layers.recurrent.states import LayerStates
from prototrt.surgery.ops import LeakyReLU, Slice
from prototrt.surgery.recurrent.cells import RNNCell, RNNForm
from prototrt.surgery.recurrent.running import StackInputs, run_stack
from prototrt.surgery.recurrent.stacks import Direction, InputWeights, Stack, direction_of
from prototrt.surgery.recurrent.weights import DirectionWeights, from_cudnn, to_cudnn, with_one_bias


def is_packed(layer: Layer) -> bool:
    """Whether the weights of an LSTM or RNN are one blob; Caffe's have three and more."""
    return layer.type in ("LSTM", "RNN") and layer.blobs is not None and len(layer.blobs) == 1


def packed_recurrence(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value | None, others: Sequence[Value]
) -> list[Value]:
    """What MyCaffe computes with ``engine: CUDNN``: a stack of LSTMs, or of RNNs with ReLU.

    Of cont, the first number alone is read: it says for all streams whether the state of the last call continues.
    The top has a fourth axis, (T, N, H, 1).
    Source: MyCaffe/MyCaffe ``MyCaffe/layers/RecurrentLayer.cs``, ``forward_cudnnRnn``.
    """
    check_options(layer, ("num_layers",))
    if others or layer.param.expose_hidden:
        raise UnsupportedLayerError(
            f"has {len(layer.bottoms)} bottoms, expected x and cont: its weights are one blob, as cuDNN has them",
            fix="remove expose_hidden and the initial states, which become bindings",
        )
    cont = fitted_indicator(build, cont, x.shape[:2])
    inputs, streams = element_count(x.shape[2:], "an axis of x"), x.shape[1]
    stack = Stack([[_direction(build, one)] for one in _weights(build, layer, inputs)])
    sequence = build.reshape(x, (*x.shape[:2], inputs), hint="x")
    states = LayerStates(build, stack.state_shapes(streams), sequence)
    initial = states.initial
    if cont is not None and build.heed("cont") != "drop":
        initial = [[_reset(build, cont, state) for state in each] for each in initial]
    ran = run_stack(build, stack, StackInputs(sequence), initial)
    states.leave(ran.states)
    return [build.reshape(ran.top, (*ran.top.shape, 1))]


def _weights(build: LayerBuilder, layer: Layer, inputs: int) -> list[DirectionWeights]:
    sizes = hidden_sizes(layer)
    assert layer.blobs is not None
    blob = build.parameter(layer, layer.blobs[0].shape, "packed weights")
    try:
        stack = from_cudnn(blob.array, layer.type, inputs, sizes[0], len(sizes))
    except ValueError as error:
        raise WeightsError(
            f"blob 0 is not one of cuDNN: {error}",
            because=f"D is {inputs}, H {sizes[0]}, with {len(sizes)} layers",
            fix="give the weights that were saved with this net",
        ) from error
    stack = [with_one_bias(one) for one in stack]
    build.set_equivalent(blob, to_cudnn(stack))
    return stack


def _direction(build: LayerBuilder, one: DirectionWeights) -> Direction:
    if one.cell == "LSTM":
        return direction_of(build, one, reverse=False)
    cell = RNNCell(build.constant(one.h, "w_h"), RNNForm(candidate_activation=LeakyReLU()))
    return Direction(InputWeights(build.constant(one.x, "w_x"), build.constant(one.bias, "b_x")), cell)


def _reset(build: LayerBuilder, cont: Value, state: Value) -> Value:
    first = build.add(Slice(1, 0, 1), build.add(Slice(0, 0, 1), cont, hint="first"), hint="first")
    return (state * build.reshape(first, (1, 1, 1), hint="cont")).named("initial")

"""Recurrent layers of Caffe's forks: the same cells with other blobs and bottoms."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit, positive_sizes
from prototrt.surgery.ir import Dim, element_count, fixed, measure
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.layers.recurrent.bottoms import bottom, expect_shape, expect_step
from prototrt.surgery.layers.recurrent.parameters import LSTM_OF_FORKS, LSTM_UNIT, read_blobs
from prototrt.surgery.layers.recurrent.rules import recurrent
from prototrt.surgery.layers.recurrent.states import LayerStates, share_single_step
from prototrt.surgery.ops import Concat
from prototrt.surgery.recurrent.cells import IDENTITY, LSTMCell, LSTMForm, lstm_unit, units
from prototrt.surgery.recurrent.gru import interpolate
from prototrt.surgery.recurrent.running import StackInputs, run_stack
from prototrt.surgery.recurrent.stacks import Direction, InputWeights, Stack


@layer_rule("Lstm")
def lstm_of_forks(build: LayerBuilder, layer: Layer, x: Value, clip: Value | None = None) -> list[Value]:
    """Long short-term memory of junhyukoh, CTPN and caffe_ocr; what its GPU code computes.

    Becomes: MatMul, Add; Reshape and Tile of clip; Scan; with clip, state inputs and outputs.
    Bottoms: x (T*N, ...), N is batch_size, or with three axes (T, N, D); clip, T*N elements.
    Without clip every call starts at zero. Tops: h, (T*N, H) or (T, N, H).
    Blobs: W_x (4H, D), W_h (4H, H), b (4H,); gates i, f, o, g. clipping_threshold is for gradients.
    Source: junhyukoh/caffe-lstm ``src/caffe/layers/lstm_layer.cu``.
    """
    (hidden,) = positive_sizes(layer.param, "num_output", fix="set num_output in lstm_param")
    steps, streams = _steps_and_streams(layer, x)
    inputs = element_count(x.shape[2:] if len(x.shape) == 3 else x.shape[1:], "an axis of x")
    sequence = build.reshape(x, (steps, streams, inputs), hint="x")
    cont = None if clip is None else _as_cont(build, layer, clip, steps, streams)
    stack = Stack([[_read(build, layer, hidden, inputs)]])
    states = LayerStates(build, stack.state_shapes(streams), sequence, always_zero=clip is None)
    drops_cont = cont is not None and build.heed("cont") == "drop"
    read = StackInputs(sequence, None if drops_cont else cont)
    ran = run_stack(build, stack, read, states.initial)
    states.leave(ran.states)
    shape = (*x.shape[:2], hidden) if len(x.shape) == 3 else (x.shape[0], hidden)
    return [build.reshape(ran.top, shape)]


def _steps_and_streams(layer: Layer, x: Value) -> tuple[Dim, Dim]:
    if len(x.shape) == 3:
        return x.shape[0], x.shape[1]
    rows, streams = x.shape[0] if x.shape else 0, int(layer.param.batch_size)
    if streams == 1:
        return rows, 1
    count = fixed(rows, "the number of rows of x")
    if streams < 1 or count % streams:
        because = f"batch_size is {streams}"
        fix = "give x a row for each step of each stream, or set batch_size in lstm_param"
        raise misfit(layer, 0, x, f"(T * {streams}, ...)", fix, because)
    return count // streams, streams


def _as_cont(build: LayerBuilder, layer: Layer, clip: Value, steps: Dim, streams: Dim) -> Value:
    """clip, which may have axes of size 1, as (T, N)."""
    sizes = [dim for dim in clip.shape if dim != 1]
    matched = sizes == [dim for dim in (steps, streams) if dim != 1]
    if not matched and element_count(clip.shape, "an axis of clip") != element_count((steps, streams)):
        because = "there is one for each step of each stream"
        fix = f"let the bottom hold {steps} * {streams} elements, in any shape"
        raise misfit(layer, 1, clip, f"{steps} x {streams} elements", fix, because)
    return build.reshape(clip, (steps, streams), hint="clip")


def _read(build: LayerBuilder, layer: Layer, hidden: int, inputs: int) -> Direction:
    named = read_blobs(build, layer, layer.param, LSTM_OF_FORKS, {"H": hidden, "D": inputs})
    return Direction(InputWeights(named["W_x"], named["b"]), LSTMCell(named["W_h"]))


@layer_rule("LSTMController")
def lstm_controller(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """LSTM whose ``W_xc x + b_c`` is also multiplied by cont. From JEDDi-Net.

    Becomes: MatMul, Add, Multiply; Reshape and Tile of cont; Scan; state inputs and outputs.
    RecurrentBottoms, tops and blobs: as of LSTM.
    Source: VisionLearningGroup/JEDDi-Net, caffe3d.
    """
    return recurrent(build, layer, x, cont, others)


@layer_rule("LSTMNew")
def lstm_of_textspotter(
    build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value
) -> list[Value]:
    """LSTM as Caffe's, in a fork whose layer of that name is another one. From textspotter.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    RecurrentBottoms, tops and blobs: as of LSTM.
    Source: tonghe90/textspotter ``caffe/src/caffe/layers/lstm_new_layer.cpp``.
    """
    state = len(build.recurrences)
    tops = recurrent(build, layer, x, cont, others)
    share_single_step(build, layer, tops, state)
    return tops


@layer_rule("LSTMTopic")
def lstm_topic(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """LSTM with two static inputs, the second one a topic. From JEDDi-Net.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    Bottoms and tops: as of LSTM, with x_topic (N, ...) or (T, N, ...) after x_static.
    Blobs: W_xc, b_c, W_xc_static, W_xc_topic, W_hc.
    Source: VisionLearningGroup/JEDDi-Net, caffe3d.
    """
    return recurrent(build, layer, x, cont, others)


@layer_rule("LstmUnit")
def lstm_unit_of_forks(build: LayerBuilder, layer: Layer, x: Value, memory: Value) -> list[Value]:
    """One step of an LSTM with its weights, but without bias. From apollocaffe and ReInspect.

    Becomes: MatMul, Slice, Sigmoid, TanH, Multiply, Add; Concat with tie_output_forget.
    Bottoms: x and h as one (N, K), memory (N, C). Tops: h and memory, (N, C).
    Blobs: input value, input gate, forget gate, output gate, (1, C, 1, K) each. With
    tie_output_forget the forget gate is ``sigmoid(-output)``; without tanh_hidden h is ``o c'``.
    Source: Russell91/apollocaffe ``src/caffe/layers/lstm_unit_layer.cpp``.
    """
    param, cells = layer.param, int(layer.param.num_cells)
    if len(x.shape) < 2 or cells < 1 or measure(memory.shape) != measure((x.shape[0], cells)):
        raise ShapeError(
            f"shapes are {x.shape} and {memory.shape} with num_cells {cells}, expected (N, K) and (N, num_cells)",
            fix="set num_cells in lstm_unit_param, and give it x and memory with a row for each stream",
        )
    streams, size = x.shape[0], element_count(x.shape[1:], "an axis of x")
    c = build.reshape(memory, (streams, cells), hint="memory")
    sizes = {"1": 1, "H": cells, "D": size}
    blobs = [
        build.parameter(layer, blob.shape(sizes), f"{name} weights", filler=f"{name}_weight_filler")
        for name, blob in LSTM_UNIT.items()
    ]
    value, i, f, o = (blob.array.reshape(cells, size) for blob in blobs)
    rows = [i, o, value] if param.tie_output_forget else [i, f, o, value]
    matrix = build.constant(concatenate(rows), "weights")
    gates = build.product(build.reshape(x, (streams, size), hint="x"), matrix, hint="gates")
    if param.tie_output_forget:
        build.set_equivalent(blobs[2], 0.0)
        of_i, of_o, of_g = (units(gates, place, cells) for place in range(3))
        gates = of_i.apply(Concat(1), -of_o, of_o, of_g).named("gates_tied")
    form = LSTMForm() if param.tanh_hidden else LSTMForm(cell_activation=IDENTITY)
    c_new, h_new = lstm_unit(gates, c, form)
    return [h_new, c_new]


@layer_rule("GRUUnit")
def gru_unit(
    build: LayerBuilder, layer: Layer, h: Value, gates: Value, cont: Value | None = None
) -> list[Value]:
    """``h' = (1 - z) tanh(n) + z h``, z = sigmoid(update): the end of a step of a GRU, as in Caffe2.

    Becomes: Slice, Sigmoid, TanH, Multiply, Add.
    Bottoms: h (1, N, H), gates r, z, n (1, N, 3H); r is not read, because n includes it;
    optionally cont (1, N), which multiplies h. Top: h' (1, N, H).
    Source: caffe2 ``operators/gru_unit_op.h``.
    """
    expect_step(layer, h)
    streams, hidden = h.shape[1], fixed(h.shape[2], "the number of hidden units")
    because = f"{bottom(layer, 0)} has the shape {h.shape}, (1, N, H)"
    expect_shape(layer, gates, (1, streams, 3 * hidden), because, 1)
    if cont is not None:
        expect_shape(layer, cont, (1, streams), because, 2)
        h = (h * build.reshape(cont, (1, streams, 1), hint="cont")).named("delta_product")
    z = units(gates, 1, hidden).named("update").sigmoid().named("gate_z")
    n = units(gates, 2, hidden).named("new").tanh().named("gate_n")
    return [interpolate(h, z, n)]

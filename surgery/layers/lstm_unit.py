"""One step of an LSTM, as a layer of its own."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import ShapeError
from prototrt.surgery.expansion.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import Shape, Value, fixed
from prototrt.surgery.ops import MULTIPLY
from prototrt.surgery.recurrent.cells import lstm_unit


@layer_rule("LSTMUnit")
def lstm_unit_layer(build: LayerBuilder, layer: Layer, c: Value, gates: Value, cont: Value) -> list[Value]:
    """``c' = cont f c + i g``, ``h' = o tanh(c')``: what Caffe's LSTM does in each step.

    Becomes: Slice, Sigmoid, TanH, Multiply, Add.
    Bottoms: c (1, N, H), gates i, f, o, g (1, N, 4H), cont (1, N). Tops: c' and h', (1, N, H).
    Source: caffe ``src/caffe/layers/lstm_unit_layer.cpp``.
    """
    if len(c.shape) != 3 or c.shape[0] != 1:
        raise ShapeError(
            f"shape is {c.shape}, expected (1, N, H)",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="give it the cell state of one step",
        )
    streams, hidden = c.shape[1], fixed(c.shape[2], "the number of hidden units")
    _expect(layer, 1, gates, (1, streams, 4 * hidden), c.shape)
    _expect(layer, 2, cont, (1, streams), c.shape)
    delta = build.reshape(cont, (1, streams, 1), hint="cont")
    return list(lstm_unit(build, gates, build.add(MULTIPLY, c, delta, hint="delta_product")))


def _expect(layer: Layer, index: int, value: Value, shape: Shape, of: Shape) -> None:
    if value.shape != shape:
        raise ShapeError(
            f"shape is {value.shape}, expected {shape}",
            blob=f'bottom "{layer.bottom_blob(index)}"',
            because=f'"{layer.bottom_blob(0)}" has the shape {of}, (1, N, H)',
            fix=f"give it the shape {shape}",
        )

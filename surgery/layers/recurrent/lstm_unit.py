"""One step of an LSTM, as a separate layer."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import fixed
from prototrt.surgery.layers.recurrent.bottoms import bottom, expect_shape, expect_step
from prototrt.surgery.recurrent.cells import lstm_unit


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

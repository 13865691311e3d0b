"""One step of an LSTM that has its weights. From Up-Down-Captioner."""

from __future__ import annotations

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    Size,
    Value,
    computable,
    element_count,
    flattened_size,
    layer_rule,
    lstm_unit,
    misfit,
    positive_sizes,
)


@layer_rule("LSTMNode")
def lstm_node(
    build: LayerBuilder, layer: Layer, x: Value, memory: Value, cont: Value | None = None
) -> list[Value]:
    """One step of an LSTM: ``c' = cont f c + i g``, ``h' = o tanh(c')``. From Up-Down-Captioner.

    Becomes: MatMul, Add, Slice, Sigmoid, TanH, Multiply.
    Bottoms: x and h as one (N, K...), the memory c (N, H), optionally cont (N,), which does not multiply h.
    Tops: h' and c', (N, H).
    Blobs: weights (4H, K), but with bias_term: false bias (4H,); gates i, f, o, g.
    Source: peteanderson80/caffe ``src/caffe/layers/lstm_node_layer.cpp``.
    """
    (cells,) = positive_sizes(layer.param, "num_cells", fix="set num_cells in lstm_param")
    size, streams = flattened_size(layer, x, 1), computable(x.shape[0], "the number of rows")
    c = _rows(build, layer, 1, memory, (streams, cells))
    rows = build.reshape(x, (streams, size), hint="x")
    gates = build.product(rows, build.parameter(layer, (4 * cells, size), "weights"))
    if layer.param.bias_term:
        gates = gates + build.aligned(build.parameter(layer, (4 * cells,), "bias", kind="bias"), 2)
    if cont is not None:
        c = c * _rows(build, layer, 2, cont, (streams, 1))
    c_new, h = lstm_unit(gates, c)
    return [h, c_new]


def _rows(build: LayerBuilder, layer: Layer, index: int, x: Value, shape: tuple[Size, Size]) -> Value:
    """A bottom of so many elements, which may have further axes of size 1."""
    if x.shape != shape and element_count(x.shape) != element_count(shape):
        because = f'{layer.bottom_word} "{layer.bottom_blob(0)}" has {shape[0]} rows'
        fix = "give it a row for each of them, or set num_cells in lstm_param"
        raise misfit(layer, index, x, shape, fix, because)
    return build.reshape(x, shape, hint="rows")

"""LSTM that attends to places of its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.wording import plural
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    expect_axes,
    layer_rule,
    misfit,
    positive_sizes,
)
from prototrt.surgery.ir import fixed
from prototrt.surgery.ir.made_arrays import join_of, unit_matrix
from prototrt.surgery.layers.recurrent.bottoms import (
    ExpectedBottoms,
    RecurrentBottoms,
    read_bottoms,
)
from prototrt.surgery.layers.recurrent.options import check_options
from prototrt.surgery.layers.recurrent.parameters import NamedBlob, read_blobs
from prototrt.surgery.layers.recurrent.states import LayerStates
from prototrt.surgery.ops import Softmax
from prototrt.surgery.recurrent.cells import LSTMCell, LSTMForm
from prototrt.surgery.recurrent.running import StackInputs, run_stack
from prototrt.surgery.recurrent.stacks import Direction, InputWeights, Stack

_BLOBS_OF_FIRST_STEP = 8


@layer_rule("AttLstm")
def attention_lstm(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """LSTM over the mean of E places, weighted by attention. From textspotter.

    Becomes: Multiply, Reduce, Softmax; MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    The attention of step t is the softmax of ``w_t (W_f x + b_f + W_s h + b_s)`` over the places. Nothing comes
    between both products: what h and the biases add is the same at each place, and the softmax cancels it. So the
    attention is computed for all steps at once, before the Scan.
    Bottoms: x (T, N, C, E), cont (T, N), with expose_hidden h_0, c_0 (1, N, H).
    Tops: h (T, N, H), attention (T, N, E, 1), and with expose_hidden h_T, c_T (1, N, H).
    Blobs: W_s (H, H), b_s (H,), W_f (H, C), b_f (H,), w_1 (1, H), W_xc (4H, C), b_c (4H,), W_hc (4H, H), and w_t
    (1, H) of each further step: T is that of training.
    Source: tonghe90/textspotter ``caffe/src/caffe/layers/attention_lstm_layer.cpp``.
    """
    check_options(layer, ())
    expect_axes(layer, 0, x, "(T, N, C, E)")
    steps, hidden = _steps(layer, x), _units(layer)
    states = LSTMForm.states if layer.param.expose_hidden else ()
    bottoms = read_bottoms(build, layer, x, cont, others, ExpectedBottoms(0, False, states))
    attends, direction = _read(build, layer, hidden, fixed(x.shape[2], "the size of a place"), steps)
    weights = (x * attends).named("attended").sum(2).named("scores").apply(Softmax(3))
    weights = weights.named("attention")
    context = (x * weights).named("weighted").sum(3).named("context").reshape(*x.shape[:3])
    h, last = _run(build, bottoms, direction, context)
    places = weights.reshape(*x.shape[:2], x.shape[3], 1)
    return [h, places, *last]


def _steps(layer: Layer, x: Value) -> int:
    """T, which the weights fix."""
    steps = fixed(x.shape[0], "the number of steps T")
    stored = steps if layer.blobs is None else len(layer.blobs) - _BLOBS_OF_FIRST_STEP + 1
    if steps != stored:
        because = f"the layer has {len(layer.blobs or ())} blobs, the attention of {plural(stored, 'step')}"
        fix = f"give it {plural(stored, 'step')}, as in training"
        raise misfit(layer, 0, x, (stored, *x.shape[1:]), fix, because)
    return steps


def _units(layer: Layer) -> int:
    return positive_sizes(layer.param, "num_output", fix="set num_output in recurrent_param")[0]


def _read(build: LayerBuilder, layer: Layer, hidden: int, size: int, steps: int) -> tuple[Value, Direction]:
    """``w_t W_f`` of each step (T, 1, C, 1), and the LSTM."""
    attends = [NamedBlob(f"w of step {step}", "", "1H") for step in range(1, steps + 1)]
    named = read_blobs(build, layer, layer.param, _blobs(attends), {"1": 1, "H": hidden, "D": size})
    products = np.concatenate([named[blob.name].array for blob in attends]) @ named["W_f"].array
    if steps <= hidden:  # then the products can be the first rows of W_f, of which each step takes one
        for name in ("W_s", "b_s", "b_f"):
            build.set_equivalent(named[name], 0.0)
        rows = np.split(products, steps) + [np.broadcast_to(np.float32(0), (1, size))] * (hidden - steps)
        build.set_equivalent(named["W_f"], join_of(rows))
        for blob, row in zip(attends, unit_matrix(steps, hidden), strict=True):
            build.set_equivalent(named[blob.name], row)
    direction = Direction(InputWeights(named["W_xc"], named["b_c"]), LSTMCell(named["W_hc"]))
    return build.constant(products[:, None, :, None], "attends"), direction


def _blobs(attends: Sequence[NamedBlob]) -> Iterator[NamedBlob]:
    """In their order: those of the attention, the first of its steps, the LSTM's, and the other steps'."""
    for name, sizes in (("s", "HH"), ("f", "HD")):
        yield from (NamedBlob(f"W_{name}", "", sizes), NamedBlob(f"b_{name}", "", "H", "bias"))
    yield from attends[:1]
    yield from (
        NamedBlob("W_xc", "ifog", "HD"),
        NamedBlob("b_c", "ifog", "H", "bias"),
        NamedBlob("W_hc", "ifog"),
    )
    yield from attends[1:]


def _run(
    build: LayerBuilder, bottoms: RecurrentBottoms, direction: Direction, context: Value
) -> tuple[Value, list[Value]]:
    """h of all steps, and exposed last states."""
    stack = Stack([[direction]])
    shapes = stack.state_shapes(bottoms.streams)
    bottoms.expect_states(*(shape for (shape,) in shapes.values()))
    states = LayerStates(build, shapes, bottoms.x, bottoms.initial)
    ran = run_stack(build, stack, StackInputs(context, bottoms.cont), states.initial)
    return ran.top, states.leave(ran.states)

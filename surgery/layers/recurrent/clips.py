"""ConvLSTM and ConvGRU over one clip (T, C, H, W), whose calls all begin at zero: AzoresCabbage's fork."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.ir.uniform_constants import concatenate, scaled
from prototrt.surgery.layers.recurrent.bottoms import expect_shape
from prototrt.surgery.layers.recurrent.map_convolution import MapConvolution, read_convolution
from prototrt.surgery.recurrent.cells import Cell, LSTMCell
from prototrt.surgery.recurrent.gates import reordered
from prototrt.surgery.recurrent.gru import GRUCell
from prototrt.surgery.recurrent.maps import run_over_maps
from prototrt.surgery.recurrent.stacks import zeros

_FIELD = "convolution_param"
_BLOBS_WITH_PEEPHOLES = 4
_BLOBS_OF_RESET_BEFORE = 4


@layer_rule("ConvGRU")
def conv_gru(build: LayerBuilder, layer: Layer, x: Value, h: Value | None = None) -> list[Value]:
    """GRU over the maps of one clip, ``h' = (1 - z) h + z n``. From AzoresCabbage's fork.

    Becomes: Convolution, Slice, Sigmoid, TanH, Multiply, Add; Scan.
    Every call begins at zero, or at the second bottom. ``clipping_threshold`` is for gradients.
    Bottoms: x (T, C, H, W), optionally h_0 (1, num_output, H, W). Top: h (T, num_output, H, W).
    Blobs: W_x (3C, D, kernel), b (3C,), W_h (3C, C, kernel) for ``n = tanh(x_n + r (W_n h))``; or
    W_x, b, W_rz (2C, C, kernel), W_n (C, C, kernel) for ``n = tanh(x_n + W_n (r h))``; gates r, z, n.
    Source: AzoresCabbage/caffe ``src/caffe/layers/conv_gru_layer.cpp``, January 2017.
    """
    param = layer.param
    _check_gru(layer)
    clip = _OneClip(build, layer, x, int(param.num_output), "conv_gru_param")
    of_x = clip.read("W_x", 3, clip.sequence.shape, param, bias=True)
    resets_before = layer.blobs is not None and len(layer.blobs) == _BLOBS_OF_RESET_BEFORE
    if resets_before:
        build.warn(
            "has 4 blobs, as in versions of its fork from January 2017; the versions before compute another update"
        )
    elif not param.forward_direction:
        raise NetError(
            "states forward_direction: false, which versions of its fork with 3 blobs ignore",
            fix="remove forward_direction",
        )
    of_h = [clip.read("W_h", gates, clip.state, param) for gates in ((2, 1) if resets_before else (3,))]
    # The cell computes z h + (1 - z) n, and 1 - sigmoid(z) is sigmoid(-z).
    of_x, *of_h = (one.with_rows(build, clip.with_negated_z) for one in (of_x, *of_h))
    cell = GRUCell(tuple(one.kernel for one in of_h), product=of_h[0].product(clip.state))
    return [clip.run(cell, of_x, h, reverse=not param.forward_direction)]


def _check_gru(layer: Layer) -> None:
    """Refuse what the fork can say, and this rule does not compute."""
    if layer.param.BN_term:
        raise NetError(
            "states BN_term: true, which is not supported",
            because="the weights file lacks the numbers of these normalizations",
            fix=CUT_BEFORE_LAYER,
        )
    if len(layer.tops) > 1:
        raise NetError(
            f"has {len(layer.tops)} tops, expected 1",
            because="the gates of a step are not outputs of the cell",
            fix=f'remove top "{layer.top_blob(1)}"',
        )


def lstm_of_a_clip(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The tops of a ConvLSTM that states ``convolution_param``."""
    param = layer.message.convolution_param
    if param.group != 1:
        raise NetError(
            f"group is {param.group}, expected 1",
            because="the gates of this fork are in an order of their own",
            fix=CUT_BEFORE_LAYER,
        )
    clip = _OneClip(build, layer, x, int(param.num_output), _FIELD)
    of_x = clip.read("W_x", 4, clip.sequence.shape, param, bias=True).with_rows(build, _in_caffes_order)
    of_h = clip.read("W_h", 4, clip.state, param).with_rows(build, _in_caffes_order)
    peepholes: tuple[Value, ...] = ()
    if layer.blobs is not None and len(layer.blobs) == _BLOBS_WITH_PEEPHOLES:
        shape = (1, 3 * clip.outputs, *clip.state[3:])
        stored = build.parameter(layer, shape, "peepholes")
        peepholes = tuple(build.constant(part, "peephole") for part in np.split(stored.array, 3, axis=1))
    cell = LSTMCell(of_h.kernel, peephole=peepholes, product=of_h.product(clip.state))
    return [clip.run(cell, of_x)]


def _in_caffes_order(rows: Array) -> Array:
    """Rows of gates i, f, g, o, which is PyTorch's order, as i, f, o, g."""
    return reordered(rows, "LSTM", "pytorch", "caffe")


class _OneClip:
    """The one stream of a layer of this fork."""

    def __init__(self, build: LayerBuilder, layer: Layer, x: Value, outputs: int, field: str) -> None:
        expect_axes(layer, 0, x, "(T, C, H, W)")
        if outputs < 1:
            raise NetError(f"num_output is {outputs}, expected at least 1", fix=f"set num_output in {field}")
        self.build, self.layer, self.outputs = build, layer, outputs
        self.sequence = build.reshape(x, (x.shape[0], 1, *x.shape[1:]), hint="clip")
        self.state: Shape = (1, 1, outputs, *x.shape[2:])

    def read(
        self, what: str, gates: int, shape: Shape, fillers: Any, *, bias: bool = False
    ) -> MapConvolution:
        message, outputs = self.layer.message.convolution_param, gates * self.outputs
        read = partial(read_convolution, self.build, self.layer, message, _FIELD, what, shape, outputs)
        return read(fillers=fillers, bias=bias, keeps_size=True)

    def with_negated_z(self, rows: Array) -> Array:
        """Rows of gates r, z, n, or of some of them: z is the second one."""
        first, z, rest = np.split(rows, [self.outputs, 2 * self.outputs])
        return concatenate([first, scaled(z, -1), rest])

    def run(
        self, cell: Cell, of_x: MapConvolution, initial: Value | None = None, *, reverse: bool = False
    ) -> Value:
        build, shape = self.build, self.state[1:]
        if initial is None:
            initial = build.reshape(zeros(build, self.sequence, self.state), shape, hint="initial")
        else:
            expect_shape(self.layer, initial, shape, "of num_output, and of the first bottom", 1)
        x = of_x.over(build, self.sequence, self.state)
        states = [initial] * len(cell.states)
        ran = run_over_maps(build, cell, x, None, states, reverse=reverse)
        return build.reshape(ran.outputs[0], (x.shape[0], *shape[1:]))

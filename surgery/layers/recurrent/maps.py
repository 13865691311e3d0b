"""ConvLSTM over streams of maps, with cont and states that a caller carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, positive_sizes
from prototrt.surgery.ir import Shape, fixed
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.layers.recurrent.bottoms import (
    ExpectedBottoms,
    RecurrentBottoms,
    read_bottoms,
)
from prototrt.surgery.layers.recurrent.clips import lstm_of_a_clip
from prototrt.surgery.layers.recurrent.map_convolution import MapConvolution, read_convolution
from prototrt.surgery.layers.recurrent.options import check_options
from prototrt.surgery.layers.recurrent.states import LayerStates, share_single_step
from prototrt.surgery.ops import ADD, LeakyReLU
from prototrt.surgery.recurrent.cells import LSTMCell, LSTMForm, StepFunction
from prototrt.surgery.recurrent.maps import EarlyPeepholes, run_over_maps

_GATES, _PEEPHOLES = 4, 3
_UNUSED = 2
"""Blobs of one element, which only carry gradients, before the kernel of h and after the peepholes."""


@layer_rule("ConvLSTM")
def conv_lstm(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """LSTM over maps, with peepholes. From agethen's fork; with ``convolution_param`` from AzoresCabbage's.

    Becomes: Convolution, Add; Reshape of cont; Scan; state inputs and outputs.
    Bottoms: x (T, N, D, H, W), cont (T, N), if N is 1 optionally x_static (1, 1, S, H, W), and with
    expose_hidden h_0, c_0 (1, N, C, H, W). Tops: h (T, N, C, H, W), and with expose_hidden h_T, c_T.
    Blobs: W_x (4C, D, kernel), [W_static], [2 unused], W_h (4C, C, kernel), [b (4C,)], [p_i, p_f, p_o (H, W)],
    [2 unused]; or W_x, W_static, and W_h with b, gate by gate. Gates i, f, o, g. All peepholes see c before cont
    resets it. AzoresCabbage's: x (T, D, H, W), and every call begins at zero; blobs W_x, b, W_h,
    [p (1, 3C, H, W)]; gates i, f, g, o; p_o sees the new c.
    Source: agethen/ConvLSTM-for-Caffe and AzoresCabbage/caffe, ``src/caffe/layers/conv_lstm_layer.cpp``.
    """
    if layer.message.lstm_conv_param:
        return _PeepholeLSTM(build, layer, [x, *others]).run(LSTMForm())
    if not layer.message.HasField("convolution_param"):
        raise NetError(
            "states neither lstm_conv_param nor convolution_param, expected one of them",
            fix="state lstm_conv_param { num_output: ... kernel_size: ... pad: ... }",
        )
    if others:
        raise NetError(
            f"has {len(others) + 1} bottoms, expected 1",
            because="it states convolution_param: in that fork every call begins at zero",
            fix="state lstm_conv_param instead, or remove the bottoms after the first",
        )
    return lstm_of_a_clip(build, layer, x)


@layer_rule("ConvLSTMReLU")
def conv_lstm_relu(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """ConvLSTM with ReLU in place of both TanH. From caffe_convLSTM_WTA.

    Becomes: Convolution, Add; Reshape of cont; Scan; state inputs and outputs.
    Fields, bottoms, tops and blobs: as of ConvLSTM with ``lstm_conv_param``.
    Source: t2mhanh/caffe_convLSTM_WTA ``src/caffe/layers/conv_lstm_relu_unit_layer.cpp``.
    """
    form = LSTMForm(candidate_activation=LeakyReLU(), cell_activation=LeakyReLU())
    return _PeepholeLSTM(build, layer, [x, cont, *others]).run(form)


@layer_rule("ConvolutionLSTM")
def convolution_lstm(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """LSTM over maps; the convolution of x may change their size. From convlstm_anomaly_detection.

    Becomes: Convolution, Add; Reshape of cont; Scan; state inputs and outputs.
    As the GPU code of the fork: its CPU code reads wrong elements.
    Bottoms: x (T, N, D, H, W), cont (T, N), with expose_hidden h_0, c_0 (1, N, C, h, w).
    Tops: h (T, N, C, h, w), and with expose_hidden h_T, c_T.
    Blobs: W_xc (4C, D, kernel), b_c (4C,), W_hc (4C, C, kernel); gates i, f, o, g.
    Source: zachluo/convlstm_anomaly_detection ``conv_lstm_layer.cpp``, ``conv_lstm_unit_layer.cu``.
    """
    param, state = layer.param, len(build.recurrences)
    bottoms = _bottoms(build, layer, [x, cont, *others], statics=0)
    outputs = _outputs(param, "recurrent_param")
    read, field = partial(read_convolution, build, layer, outputs=_GATES * outputs), "wxc_convolution_param"
    of_x = read(param.wxc_convolution_param, field, "W_xc", x.shape, bias=True)
    gates = of_x.over(build, x)
    shape = (1, bottoms.streams, outputs, *gates.shape[3:])
    of_h = read(param.whh_convolution_param, "whh_convolution_param", "W_hc", shape)
    cell = LSTMCell(of_h.kernel, product=of_h.product(shape))
    tops = _run(build, bottoms, cell, gates, shape)
    share_single_step(build, layer, tops, state)
    return tops


class _PeepholeLSTM:
    """A layer of agethen's fork, with the numbers of one of its three versions."""

    def __init__(self, build: LayerBuilder, layer: Layer, values: Sequence[Value]) -> None:
        self.build, self.layer, self.debug = build, layer, layer.message.lstm_debug_param
        self.of_x, self.of_h = _convolutions_of(layer)
        self.outputs = _outputs(self.of_h, "lstm_conv_param")
        if self.debug.expose:
            raise NetError(
                f'expose is "{self.debug.expose[0]}", a blob inside of the fork\'s unrolled net',
                fix="state expose_hidden in recurrent_param for the last states, and remove expose",
            )
        self.bottoms = _bottoms(build, layer, values, statics=1)
        self.state: Shape = (1, self.bottoms.streams, self.outputs, *self.bottoms.x.shape[3:])
        self.inputs = [self.bottoms.x, *self.bottoms.statics]
        for static in self.bottoms.statics:
            self.bottoms.expect(2, static, (1, 1, *static.shape[2:3], *self.state[3:]))

    def run(self, form: LSTMForm) -> list[Value]:
        build, version = self.build, self._version()
        of_inputs = [self._read(self.of_x, "W_x", value.shape, version) for value in self.inputs]
        self._skip(version.unused)
        of_h = self._read(self.of_h, "W_h", self.state, version, bias=bool(self.of_h.bias_term))
        before = partial(EarlyPeepholes, weights=self._peepholes())
        self._skip(version.unused)
        cell = LSTMCell(of_h.kernel, form, product=of_h.product(self.state))
        return _run(build, self.bottoms, cell, self._gates(of_inputs, of_h.bias), self.state, before)

    def _gates(self, of_inputs: Sequence[MapConvolution], bias: Value) -> Value:
        """What x and the static input add to the gates, and the bias: (T, N, 4C, H, W)."""
        of_x, *of_static = of_inputs
        gates = replace(of_x, bias=bias).over(self.build, self.inputs[0], self.state)
        for one, static in zip(of_static, self.inputs[1:], strict=True):
            gates = self.build.add(ADD, gates, one.over(self.build, static, self.state), hint="gates_static")
        return gates

    def _peepholes(self) -> Value:
        """p_i, p_f and p_o, to be broadcast to (N, 3, C, H, W)."""
        first, count = int(self.debug.axis_hadamard), int(self.debug.num_axes_hadamard)
        if first + count > len(self.state):
            raise NetError(
                f"axis_hadamard is {first} and num_axes_hadamard {count}, expected a sum of at most {len(self.state)}",
                because="states have the axes (1, N, C, H, W)",
                fix="remove both, for one peephole per place of a map",
            )
        inside = range(first, first + count)
        dims = [
            fixed(size, "a size of the peepholes") if axis in inside else 1
            for axis, size in enumerate(self.state)
        ]
        shape = tuple(dims[first : first + count])
        stored = [self.build.parameter(self.layer, shape, f"p_{gate}").array for gate in "ifo"]
        parts = [array.reshape(dims[1], 1, *dims[2:]) for array in stored]
        return self.build.constant(concatenate(parts, axis=1), "peepholes")

    def _version(self) -> _BlobVersion:
        """Versions of the fork differ in their blobs: their number says which one wrote them."""
        inputs, of_h = len(self.inputs), 1 + bool(self.of_h.bias_term)
        count = None if self.layer.blobs is None else len(self.layer.blobs)
        if count == _GATES * (inputs + of_h) + _PEEPHOLES and self.of_x.group == self.of_h.group == 1:
            return _BlobVersion(pieces=_GATES)
        return _BlobVersion(unused=0 if count == inputs + of_h + _PEEPHOLES else _UNUSED)

    def _read(
        self, message: Any, what: str, shape: Shape, version: _BlobVersion, *, bias: bool = False
    ) -> MapConvolution:
        read = partial(read_convolution, self.build, self.layer, message, "lstm_conv_param", what, shape)
        return read(_GATES * self.outputs, bias=bias, pieces=version.pieces)

    def _skip(self, count: int) -> None:
        for _ in range(count):
            self.build.parameter(self.layer, (1,), "unused blob")


@dataclass(frozen=True, slots=True)
class _BlobVersion:
    """``pieces`` of each kernel, and how many ``unused`` blobs there are in each of two places."""

    pieces: int = 1
    unused: int = 0


def _convolutions_of(layer: Layer) -> tuple[Any, Any]:
    """The messages for the convolution of x and for that of h."""
    messages = list(layer.message.lstm_conv_param)
    if not 1 <= len(messages) <= 2:
        raise NetError(
            f"states lstm_conv_param {len(messages)} times, expected 1 or 2",
            fix="state it for both, or once for x and once for h",
        )
    first, last = messages[0], messages[-1]
    of_x, of_h = (last if first.type == "hidden" else first), (last if first.type == "input" else first)
    if of_x.type == "hidden" or of_h.type == "input":
        raise NetError(
            f'states lstm_conv_param for type "{first.type}" alone',
            fix='state it for both types, "input" and "hidden", or remove type',
        )
    if first.num_output != last.num_output:
        raise NetError(
            f"num_output is {first.num_output} and {last.num_output}, expected one number",
            fix="state the same num_output in both lstm_conv_param",
        )
    return of_x, of_h


def _outputs(param: Any, name: str) -> int:
    return positive_sizes(param, "num_output", fix=f"set num_output in {name}")[0]


def _bottoms(build: LayerBuilder, layer: Layer, values: Sequence[Value], *, statics: int) -> RecurrentBottoms:
    """x (T, N, D, H, W), cont, at most ``statics`` static inputs, and exposed states."""
    check_options(layer, ())
    x, *others = values
    expect_axes(layer, 0, x, "(T, N, C, H, W)")
    if not others:
        raise NetError("has 1 bottom, expected at least 2", fix="add cont (T, N) as the second one")
    states = LSTMForm.states if layer.message.recurrent_param.expose_hidden else ()
    return read_bottoms(build, layer, x, others[0], others[1:], ExpectedBottoms(statics, False, states))


def _run(
    build: LayerBuilder,
    bottoms: RecurrentBottoms,
    cell: LSTMCell,
    gates: Value,
    shape: Shape,
    before: Callable[[StepFunction], StepFunction] | None = None,
) -> list[Value]:
    """The tops of a layer whose states have this shape (1, N, C, H, W)."""
    bottoms.expect_states(*[shape] * len(bottoms.initial))
    states = LayerStates(build, {name: [shape] for name in cell.states}, bottoms.x, bottoms.initial)
    initial = [build.reshape(value, shape[1:], hint="initial") for (value,) in states.initial]
    ran = run_over_maps(build, cell, gates, bottoms.cont, initial, before=before)
    last = [[build.reshape(value, shape, hint="last")] for value in ran.states]
    return [ran.outputs[0], *states.leave(last)]

"""Spatial RNNs of Caffe's forks: they sweep over a map from one side to the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import plural
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, misfit
from prototrt.surgery.ir import Op, Shape, fixed
from prototrt.surgery.layers.recurrent.bottoms import bottom
from prototrt.surgery.ops import Identity, LeakyReLU, Pad, Sigmoid, TanH
from prototrt.surgery.recurrent.cells import Step, scan

_ACTIVATIONS: dict[str, Op] = {
    "LINEAR": Identity(),
    "SIGMOID": Sigmoid(),
    "RELU": LeakyReLU(),
    "TANH": TanH(),
}
_DIRECTIONS = (("columns", True), ("rows", True), ("columns", False), ("rows", False))
"""Of the tops of IRNN: left, up, right, down."""
PlaceStep: TypeAlias = Callable[[Value, Sequence[Value]], Value]
"""``step(h of the line before, each map's elements of this line) -> h``: lines (N, L, C) of L places."""
_ORDERS = {"columns": (3, 0, 2, 1), "rows": (2, 0, 3, 1)}
"""From (N, C, H, W) to (lines, N, places of a line, C)."""


@layer_rule("IRNN")
def irnn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``h' = max(w h + x, 0)`` from each side of a map to the other, w per channel. From CF-Caffe and DSC.

    Becomes: Transpose, and in Scans Multiply, Add, ReLU.
    Bottom: (N, C, H, W). Tops: four, (N, C, H, W): to the left, upwards, to the right, downwards.
    Blobs: w (4C,), direction by direction. The other fields are for training.
    Source: xw-hu/CF-Caffe ``src/caffe/layers/irnn_layer.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    if len(layer.tops) != len(_DIRECTIONS):
        raise NetError(
            f"has {plural(len(layer.tops), 'top')}, expected 4", fix="name a top for left, up, right and down"
        )
    channels = fixed(x.shape[1], "the number of channels")
    filler = message_class("FillerParameter")(type="constant", value=layer.param.initial_value)
    stored = build.parameter(layer, (4 * channels,), "weights", filler=filler)
    lines = {kind: MapLines(build, kind) for kind in ("columns", "rows")}
    tops = []
    for (kind, reverse), row in zip(_DIRECTIONS, stored.array.reshape(4, 1, 1, channels), strict=True):
        weights = build.constant(row, "weights")

        def step(h: Value, line: Sequence[Value], weights: Value = weights) -> Value:
            return ((h * weights).named("kept") + line[0]).named("sum").apply(LeakyReLU()).named("h")

        tops.append(lines[kind].sweep(step, [lines[kind].of(x)], reverse=reverse))
    return tops


@layer_rule("SpatialRecurrent")
def spatial_recurrent(build: LayerBuilder, layer: Layer, x: Value, gate: Value | None = None) -> list[Value]:
    """``h' = f(x + g (h W + b))`` from one side of a map to the other; without a gate g is 1. From caffe-lowlevel.

    Becomes: Transpose, and in a Scan MatMul, Add, Multiply.
    ``restrict_w`` limits the elements of W, by default to -0.5..0.5. ``bound_diff`` is for gradients.
    Bottoms: x, gate (N, C, H, W). Top: (N, C, H, W).
    Blobs: W (1, 1, C, C), b (1, 1, 1, C).
    Source: Liusifei/caffe-lowlevel ``src/caffe/layers/spatialrecurrent_layer.cpp``.
    """
    param, size = layer.param, _channels(layer, x)
    _expect_like(layer, gate, x.shape)
    weights = _matrix(build, layer, (size, size), "W", float(param.restrict_w))
    bias = _bias(build, layer, size).reshape(1, 1, size) if param.bias_term else None
    activation, lines = _activation(param), _lines(build, param)

    def step(h: Value, line: Sequence[Value]) -> Value:
        total = h.product(weights).named("recurrent_product")
        total = total if bias is None else (total + bias).named("recurrent_sum")
        total = total if gate is None else (total * line[1]).named("gated")
        return (line[0] + total).named("sum").apply(activation).named("h")

    inputs = [lines.of(value) for value in (x, gate) if value is not None]
    return [lines.sweep(step, inputs, reverse=bool(param.reverse))]


@layer_rule("GateRecurrent")
def gate_recurrent(build: LayerBuilder, layer: Layer, x: Value, gate: Value) -> list[Value]:
    """``h' = f(a W_x x + a g (W_h h - W_x x + b))`` from one side of a map to the other. From caffe-lowlevel (LRNN).

    Becomes: Transpose, MatMul, Subtract; in a Scan MatMul, Multiply, Add.
    a is ``restrict_g``; above 1 it does not multiply g. ``use_wx``, ``use_wh`` and ``use_bias`` say which blobs
    count. ``restrict_w`` limits the elements of W_h. ``bound_diff`` is for gradients.
    Bottoms: x (N, D, H, W), gate (N, C, H, W). Top: (N, C, H, W).
    Blobs: W_x (1, 1, D, C), W_h (1, 1, C, C), b (1, 1, 1, C).
    Source: Liusifei/caffe-lowlevel ``src/caffe/layers/gaterecurrent_layer.cpp``.
    """
    param, inputs, outputs = layer.param, _channels(layer, x), int(layer.param.num_output)
    if outputs < 1 or (inputs != outputs and not param.use_wx):
        raise NetError(
            f"num_output is {outputs}, expected {'at least 1' if param.use_wx else f'{inputs}, the channels of x'}",
            fix="set num_output in gaterecurrent_param",
        )
    _expect_like(layer, gate, (x.shape[0], outputs, *x.shape[2:]))
    of_x = _matrix(build, layer, (inputs, outputs), "W_x")
    # The fork multiplies h by the transpose of what it stores.
    of_h = _matrix(build, layer, (outputs, outputs), "W_h", float(param.restrict_w), transposed=True)
    bias = _bias(build, layer, outputs)
    activation, lines, scale = _activation(param), _lines(build, param), float(param.restrict_g)
    drawn = lines.of(x).product(of_x).named("x_product") if param.use_wx else lines.of(x)
    gates = lines.of(gate).scaled(scale) if scale < 1 else lines.of(gate)
    against = (bias - drawn).named("against") if param.use_bias else (-drawn).named("against")
    own = (drawn.scaled(scale) + (gates * against).named("gated")).named("own")

    def step(h: Value, line: Sequence[Value]) -> Value:
        before = h.product(of_h).named("recurrent_product") if param.use_wh else h
        return (line[0] + (before * line[1]).named("kept")).named("sum").apply(activation).named("h")

    return [lines.sweep(step, [own, gates], reverse=bool(param.reverse))]


@layer_rule("GateRecurrent2dnoind")
def three_way_propagation(
    build: LayerBuilder, layer: Layer, x: Value, first: Value, second: Value, third: Value
) -> list[Value]:
    """``h' = (1 - g_1 - g_2 - g_3) x + g_1 h_1 + g_2 h_2 + g_3 h_3`` from one side of a map to the other. From SPN.

    Becomes: Transpose, Pad, and in a Scan Pad, Multiply, Add.
    h_1 to h_3 are the places of the line before: one less, the same, one more. A gate to a place outside is 0.
    ``active`` and ``num_output`` are ignored, as in the fork.
    Bottoms: x, g_1, g_2, g_3 (N, C, H, W). Top: (N, C, H, W).
    Source: vsooda/caffe-spn ``caffe-dev/src/caffe/layers/gaterecurrent2dnoind_layer.cu``.
    """
    param = layer.param
    _channels(layer, x)
    for index, gate in enumerate((first, second, third), 1):
        _expect_like(layer, gate, x.shape, index)
    lines, reverse = _lines(build, param), bool(param.reverse)
    before, same, behind = (lines.of(gate) for gate in (first, second, third))
    before, behind = _without_edge(before, 2, last=False), _without_edge(behind, 2, last=True)
    total = _without_edge((before + same + behind).named("gates_sum"), 0, last=reverse)
    own = ((1 - total) * lines.of(x)).named("own")

    def step(h: Value, line: Sequence[Value]) -> Value:
        own, *gates = line
        less, more = h.apply(Pad((0, 1, 0), (0, -1, 0))).named("less"), h.apply(Pad((0, -1, 0), (0, 1, 0)))
        for gate, neighbor in zip(gates, (less, h, more.named("more")), strict=True):
            own = (own + (gate * neighbor).named("drawn")).named("h")
        return own

    return [lines.sweep(step, [own, before, same, behind], reverse=reverse)]


def _without_edge(lines: Value, axis: int, *, last: bool) -> Value:
    """0 at the first place of an axis, or at the last one."""
    one = tuple(int(other == axis) for other in range(len(lines.shape)))
    none = (0,) * len(one)
    less = tuple(-count for count in one)
    cut = lines.apply(Pad(none, less) if last else Pad(less, none)).named("inside")
    return cut.apply(Pad(none, one) if last else Pad(one, none)).named("inside")


def _channels(layer: Layer, x: Value) -> int:
    expect_axes(layer, 0, x, "(N, C, H, W)")
    return fixed(x.shape[1], "the number of channels")


def _expect_like(layer: Layer, gate: Value | None, shape: Shape, index: int = 1) -> None:
    if gate is not None and gate.shape != shape:
        because = f"a gate has a number for each one of the top, for {bottom(layer, 0)}"
        raise misfit(layer, index, gate, shape, "change the layer that makes the gate", because)


def _lines(build: LayerBuilder, param: Any) -> MapLines:
    return MapLines(build, "columns" if param.horizontal else "rows")


def _activation(param: Any) -> Op:
    return _ACTIVATIONS[
        type(param).DESCRIPTOR.fields_by_name["active"].enum_type.values_by_number[param.active].name
    ]


def _matrix(
    build: LayerBuilder,
    layer: Layer,
    shape: tuple[int, int],
    what: str,
    limit: float = 0,
    *,
    transposed: bool = False,
) -> Value:
    """A stored matrix of which rows are inputs, as (outputs, inputs), with elements from -limit to limit."""
    blob = build.parameter(layer, (1, 1, *shape), what, filler="weight_filler")
    matrix = blob.array[0, 0]
    if limit > 0:
        matrix = np.clip(matrix, -limit, limit)
        build.set_equivalent(blob, matrix)
    return build.constant(matrix if transposed else matrix.T, what)


def _bias(build: LayerBuilder, layer: Layer, size: int) -> Value:
    return build.parameter(layer, (1, 1, 1, size), "b", filler="bias_filler", kind="bias")


class MapLines:
    """Maps (N, C, H, W) as their ``"columns"`` or ``"rows"``: (lines, N, L, C). Each is moved once."""

    def __init__(self, build: Builder, kind: str) -> None:
        self.build, self.order = build, _ORDERS[kind]
        self._moved: dict[Value, Value] = {}

    def of(self, x: Value) -> Value:
        if x not in self._moved:
            self._moved[x] = x.transpose(*self.order).named("lines")
        return self._moved[x]

    def map_of(self, lines: Value) -> Value:
        """(N, C, H, W) again."""
        return lines.transpose(*(self.order.index(axis) for axis in range(4)))

    def sweep(self, step: PlaceStep, inputs: Sequence[Value], *, reverse: bool) -> Value:
        """A map of the h of each line, which begin with 0 before the first line, or behind the last one."""
        first = inputs[0]

        def body_step(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
            new = step(states[0], here)
            return Step([new], [new])

        zeros = self._zeros(first)
        ran = scan(self.build, body_step, inputs, [zeros], reverse=reverse, over_places=True)
        return self.map_of(ran.outputs[0])

    def _zeros(self, lines: Value) -> Value:
        """(N, L, C), also where sizes vary or numbers are not finite."""
        sizes = tuple(dim for dim in lines.shape[1:] if isinstance(dim, int))
        if len(sizes) == len(lines.shape) - 1:
            return self.build.constant(np.zeros(sizes, np.float32), "before")
        line = lines.slice(0, 0).reshape(*lines.shape[1:])
        never = self.build.constant(np.zeros((1,) * len(line.shape), np.bool_), "never")
        return never.chosen(line, 0).named("before")

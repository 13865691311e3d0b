"""Whole recurrent nets in one operator: InferenceLSTM and cuDNN's Recurrent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prototrt.caffe_proto.caffe2.advice import (
    CUT_BEFORE,
    GIVE_INIT_NET,
    GIVE_SHAPES_AND_INIT_NET,
    MEND_ARGUMENTS,
)
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.packed import GATES, PackedLayout
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError, WeightsError
from prototrt.surgery.caffe2.operator_rule import expect_axes, known, operator_rule
from prototrt.surgery.ir import Array, Value, fixed
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ir.uniform_constants import map_elements, stacked
from prototrt.surgery.ops import ADD, MULTIPLY, SUBTRACT, Concat, Sigmoid, Slice, TanH, Transpose
from prototrt.surgery.recurrent.cells import LSTMCell
from prototrt.surgery.recurrent.scan import Step, scan


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """One layer in one direction, gates in the order of PyTorch and cuDNN: i, f, g, o or r, z, n.

    w_x (gates H, D), w_h (gates H, H), b_x and b_h (gates H,).
    """

    w_x: Array
    w_h: Array
    b_x: Array
    b_h: Array


@operator_rule("InferenceLSTM")
def inference_lstm(
    build: Builder, operator: Operator, x: Value, h: Value, c: Value, *weights: Value
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
            f"has {len(weights)} weights, expected {max(layers, 1) * directions * each}",
            fix=MEND_ARGUMENTS,
        )
    arrays = [known(build, operator, 3 + index, value) for index, value in enumerate(weights)]
    sizes = [_with_biases(arrays[start : start + each]) for start in range(0, len(arrays), each)]
    is_batch_first = arguments.flag("batch_first")
    if is_batch_first:
        x = build.add(Transpose((1, 0, 2)), x, hint="steps_first")
    stack = Stack(build, operator, "lstm", layers, directions)
    y, *last = stack.run(x, [h, c], lambda index, inputs: _checked(operator, sizes[index], inputs))
    return [build.add(Transpose((1, 0, 2)), y) if is_batch_first else y, *last]


def _with_biases(arrays: list[Array]) -> Parameters:
    nothing = np.broadcast_to(np.float32(0), arrays[0].shape[:1])
    return Parameters(arrays[0], arrays[1], *(arrays[2:] or [nothing, nothing]))


def _checked(operator: Operator, found: Parameters, inputs: int) -> Parameters:
    rows = found.w_h.shape[0]
    hidden = rows // 4
    shapes = [array.shape for array in (found.w_x, found.w_h, found.b_x, found.b_h)]
    expected = [(4 * hidden, inputs), (4 * hidden, hidden), (rows,), (rows,)]
    if shapes != expected:
        raise WeightsError(
            f"weights of a layer have the shapes {shapes}, expected {expected}",
            fix=GIVE_INIT_NET,
        )
    return found


@operator_rule("Recurrent")
def recurrent(
    build: Builder, operator: Operator, x: Value, h: Value, c: Value, weights: Value
) -> list[Value]:
    """cuDNN's LSTM or GRU: layers and directions with all weights in one blob.

    Becomes: MatMul, Add; one Scan a layer and direction.
    Inputs: x (T, N, D), h and c (layers * directions, N, H), the packed weights. Outputs: y
    (T, N, directions * H), last h, and for an LSTM last c. Scratch memory and the states of
    dropout are no tensors; ``dropout`` and ``seed`` mean nothing at inference.
    """
    arguments = operator.arguments
    mode, hidden = arguments.text("rnn_mode", ""), arguments.integer("hidden_size", 0)
    layers = arguments.integer("num_layers", 1)
    directions = 2 if arguments.flag("bidirectional") else 1
    if mode not in GATES:
        raise UnsupportedLayerError(
            f'rnn_mode is "{mode}", expected "lstm" or "gru"',
            fix=CUT_BEFORE,
        )
    if (input_mode := arguments.text("input_mode", "linear")) != "linear":
        raise UnsupportedLayerError(
            f'input_mode is "{input_mode}", expected "linear"',
            fix=CUT_BEFORE,
        )
    if hidden < 1 or layers < 1:
        raise NetError(
            f"hidden_size is {hidden} and num_layers {layers}, expected at least 1",
            fix=MEND_ARGUMENTS,
        )
    expect_axes(operator, x, 3, "(T, N, D)")
    layout = PackedLayout(mode, fixed(x.shape[2], "the number of inputs D"), hidden, layers, directions)
    packed = known(build, operator, 3, weights).reshape(-1)
    if packed.size < layout.size:
        raise WeightsError(
            f"holds {packed.size} numbers, expected at least {layout.size}",
            blob=f'input "{operator.bottom_blob(3)}"',
            because=f"D is {layout.inputs}, H {hidden}, with {layers} layers in {directions} directions",
            fix=GIVE_INIT_NET,
        )
    stack = Stack(build, operator, mode, layers, directions)
    states = [h, c] if mode == "lstm" else [h]
    return stack.run(x, states, lambda index, inputs: _unpacked(layout, packed, index))


def _unpacked(layout: PackedLayout, packed: Array, layer: int) -> Parameters:
    """The parameters of a layer in one direction out of the blob of all."""

    def of_all_gates(source: str, kind: str) -> Array:
        parts = [layout.parts[layer, source, f"{gate}_{kind}"] for gate in GATES[layout.mode]]
        size = int(np.prod(parts[0].shape))
        arrays = [packed[part.offset : part.offset + size].reshape(part.shape) for part in parts]
        return stacked(arrays)

    return Parameters(*(of_all_gates(source, kind) for kind in "wb" for source in ("input", "recurrent")))


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of one kind, each over the outputs of all directions of the one below."""

    build: Builder
    operator: Operator
    mode: str
    layers: int
    directions: int

    def run(
        self, x: Value, states: Sequence[Value], parameters: Callable[[int, int], Parameters]
    ) -> list[Value]:
        """The outputs of the last layer (T, N, directions * H), and the last states, all layers in one.

        ``parameters`` gives those of a layer and direction, for a number of inputs.
        """
        last: list[list[Value]] = []
        self._check_states(x, states)
        for layer in range(self.layers):
            inputs, outputs = fixed(x.shape[-1], "the number of inputs D"), []
            for direction in range(self.directions):
                index = layer * self.directions + direction
                start = [self._initial(state, index) for state in states]
                end = self._layer(x, start, parameters(index, inputs), reverse=direction == 1)
                outputs.append(end.outputs[0])
                last.append(list(end.states))
            x = outputs[0] if len(outputs) == 1 else self.build.add(Concat(2), *outputs, hint="directions")
        finals = [self._joined(values) for values in zip(*last, strict=True)]
        for before, after in zip(states, finals, strict=True):
            if before.shape == after.shape:
                self.build.expose_state(before, after)
        return [x, *finals]

    def _check_states(self, x: Value, states: Sequence[Value]) -> None:
        for index, state in enumerate(states, 1):
            if len(state.shape) != 3 or state.shape[:2] != (self.layers * self.directions, x.shape[1]):
                raise ShapeError(
                    f"shape is {state.shape}, expected ({self.layers * self.directions}, {x.shape[1]}, H)",
                    blob=f'input "{self.operator.bottom_blob(index)}"',
                    because=f"there are {self.layers} layers in {self.directions} directions, and N is {x.shape[1]}",
                    fix=GIVE_SHAPES_AND_INIT_NET,
                )

    def _initial(self, state: Value, index: int) -> Value:
        build = self.build
        row = state if state.shape[0] == 1 else build.add(Slice(0, index, 1), state, hint="initial")
        return build.reshape(row, state.shape[1:], hint="initial")

    def _joined(self, values: Sequence[Value]) -> Value:
        rows = [self.build.reshape(value, (1, *value.shape), hint="last") for value in values]
        return rows[0] if len(rows) == 1 else self.build.add(Concat(0), *rows, hint="last")

    def _layer(self, x: Value, states: list[Value], found: Parameters, *, reverse: bool) -> Step:
        """One layer in one direction; all products of x at once."""
        build = self.build
        hidden = found.w_h.shape[1]
        if states[0].shape[-1] != hidden:
            raise ShapeError(
                f"states have {states[0].shape[-1]} numbers, expected H, which is {hidden}",
                fix=GIVE_SHAPES_AND_INIT_NET,
            )
        if self.mode == "lstm":
            order, sums = [0, 1, 3, 2], map_elements(np.add, found.b_x, found.b_h)
            rows = [_reordered(array, order) for array in (found.w_x, found.w_h, sums)]
            w_x, w_h, bias = rows
            cell: LSTMCell | GRUCell = LSTMCell(build.constant(w_h, "w_h"))
        else:
            w_x, bias = found.w_x, found.b_x
            cell = GRUCell(build.constant(found.w_h, "w_h"), build.constant(found.b_h[None], "b_h"), hidden)
        product = build.product(x, build.constant(w_x, "w_x"), hint="x_product")
        total = build.add(ADD, product, build.constant(bias[None, None], "b_x"), hint="x_sum")
        return scan(build, cell, [total], states, reverse=reverse)


def _reordered(array: Array, order: list[int]) -> Array:
    """Blocks of rows in another order."""
    blocks = np.split(array, len(order))
    return stacked([blocks[index] for index in order])


@dataclass(frozen=True, slots=True)
class GRUCell:
    """``n = tanh(x_n + r (W_n h + b_n))``, ``h' = n + z (h - n)``; gates r, z (sigmoid) and n.

    Inputs of a step: the transformed x (N, 3H). State and output: h (N, H). ``recurrent`` is
    (3H, H), ``bias`` (1, 3H).
    Source: PyTorch ``torch.nn.GRU``, which cuDNN computes.
    """

    recurrent: Value
    bias: Value
    hidden: int

    def __call__(self, body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        (x,), (h,) = inputs, states
        product = body.product(h, self.recurrent, hint="recurrent_product")
        g = body.add(ADD, product, self.bias, hint="recurrent_sum")
        gates = body.add(ADD, self._part(body, x, 0, 2), self._part(body, g, 0, 2), hint="gates_rz")
        rz = body.add(Sigmoid(), gates, hint="sigmoid_rz")
        r, z = self._part(body, rz, 0, 1), self._part(body, rz, 1, 1)
        reset = body.add(MULTIPLY, r, self._part(body, g, 2, 1), hint="reset")
        n = body.add(TanH(), body.add(ADD, self._part(body, x, 2, 1), reset, hint="gates_n"), hint="n")
        kept = body.add(MULTIPLY, z, body.add(SUBTRACT, h, n, hint="difference"), hint="kept")
        h_new = body.add(ADD, n, kept, hint="h")
        return Step([h_new], [h_new])

    def _part(self, body: Builder, gates: Value, start: int, count: int) -> Value:
        return body.add(Slice(1, start * self.hidden, count * self.hidden), gates, hint="gate")

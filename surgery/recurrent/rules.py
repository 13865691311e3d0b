"""The recurrent layers of Caffe: what is around the cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.ir import Dim, Value, element_count
from prototrt.surgery.layer_builder import LayerBuilder, layer_rule, stated
from prototrt.surgery.ops import ADD, TanH
from prototrt.surgery.recurrent.cells import LSTMCell, RNNCell
from prototrt.surgery.recurrent.scan import Cell, scan
from prototrt.surgery.recurrent.single_step import share_single_step


@layer_rule("LSTM")
def lstm(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Long short-term memory over T steps of N streams.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; state inputs and outputs.
    Bottoms: x (T, N, ...), cont (T, N), optionally x_static (N, ...), and with expose_hidden
    h_0, c_0 (1, N, H). Tops: h (T, N, H), and with expose_hidden h_T, c_T (1, N, H).
    Blobs: W_xc (4H, D), b_c (4H,), [W_xc_static (4H, S)], W_hc (4H, H); gates i, f, o, g.
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``lstm_layer.cpp``.
    """
    parts = Parts(build, layer, x, cont, others, states=("h", "c"), gates=4)
    recurrent = parts.recurrent_weights("W_hc")
    state = len(build.recurrences)
    tops = parts.run(LSTMCell(recurrent), lambda h: h)
    share_single_step(build, layer, tops, state)
    return tops


@layer_rule("RNN")
def rnn(build: LayerBuilder, layer: Layer, x: Value, cont: Value, *others: Value) -> list[Value]:
    """Plain recurrence: ``h' = tanh(W_xh x + W_hh h + b_h)``, top ``tanh(W_ho h' + b_o)``.

    Becomes: MatMul, Add; Reshape and Tile of cont; Scan; MatMul, Add, TanH; a state input and output.
    Bottoms and tops: as of LSTM, with h_0 and h_T alone.
    Blobs: W_xh (H, D), b_h (H,), [W_xh_static (H, S)], W_hh (H, H), W_ho (H, H), b_o (H,).
    Source: caffe ``src/caffe/layers/recurrent_layer.cpp``, ``rnn_layer.cpp``.
    """
    parts = Parts(build, layer, x, cont, others, states=("h",), gates=1)
    recurrent = parts.recurrent_weights("W_hh")
    w_ho = parts.weights((parts.hidden, parts.hidden), "W_ho")
    b_o = parts.bias((parts.hidden,), "b_o")

    def output(h: Value) -> Value:
        product = build.product(h, w_ho, hint="output_product")
        return build.add(TanH(), build.add(ADD, product, build.aligned(b_o, 3), hint="output_sum"))

    return parts.run(RNNCell(recurrent), output)


class Parts:
    """The bottoms of a recurrent layer, checked, and what is computed for all steps at once.

    The parameters are read in Caffe's order: those of x, that of x_static, then whatever
    the rule asks for.
    """

    def __init__(
        self,
        build: LayerBuilder,
        layer: Layer,
        x: Value,
        cont: Value,
        others: Sequence[Value],
        *,
        states: Sequence[str],
        gates: int,
    ) -> None:
        self.build, self.layer, self.states, self.gates = build, layer, states, gates
        self.param = layer.param
        self.hidden = int(self.param.num_output)
        if self.hidden < 1:
            raise NetError(f"num_output is {self.hidden}, expected at least 1")
        if len(x.shape) < 2:
            raise ShapeError(f"shape is {x.shape}, expected (T, N, ...)", blob=self._bottom(0))
        self.steps, self.streams = x.shape[:2]
        self._expect(1, cont, (self.steps, self.streams))
        static, self.initial = self._split(others)
        # The order of the parameters is Caffe's: see the docstrings of the rules.
        self.sequence = self._transformed(x, static)
        self.delta = [] if build.options.drop_cont else [self._delta(cont)]

    def weights(self, shape: tuple[Dim, ...], what: str) -> Value:
        """The next stored blob, as a matrix."""
        return self.build.parameter(self.layer, shape, what, filler=stated(self.param, "weight_filler"))

    def bias(self, shape: tuple[Dim, ...], what: str) -> Value:
        """The next stored blob, as a bias."""
        filler = stated(self.param, "bias_filler")
        return self.build.parameter(self.layer, shape, what, filler=filler, kind="bias")

    def recurrent_weights(self, what: str) -> Value:
        """The next stored blob: what h is multiplied with, all gates in one matrix."""
        return self.weights((self.gates * self.hidden, self.hidden), what)

    def run(self, cell: Cell, output: Callable[[Value], Value]) -> list[Value]:
        """Scan the cell; ``output`` makes the first top of the hidden sequence (T, N, H)."""
        build, exposed = self.build, bool(self.initial)
        initial = self.initial or [
            build.state_input(f"{self.layer.name}_{name}_0", (1, self.streams, self.hidden))
            for name in self.states
        ]
        inside = (self.streams, self.hidden)
        start = [build.reshape(state, inside, hint="initial") for state in initial]
        end = scan(build, cell, [self.sequence, *self.delta], start)
        last = [build.reshape(state, (1, *inside), hint="last") for state in end.states]
        top = output(end.outputs[0])
        if exposed:
            return [top, *last]
        for name, before, after in zip(self.states, initial, last, strict=True):
            build.state(f"{self.layer.name}_{name}_T", before, after)
        return [top]

    def _split(self, others: Sequence[Value]) -> tuple[Value | None, list[Value]]:
        """The static input, if there is one, and the initial states that the net gives."""
        exposed = len(self.states) if self.param.expose_hidden else 0
        if len(others) not in (exposed, exposed + 1):
            raise NetError(
                f"has {2 + len(others)} bottoms, expected {2 + exposed} or {3 + exposed}",
                because=f"expose_hidden is {'true' if exposed else 'false'}",
                fix="give x, cont, optionally a static input"
                + (f", then the initial {' and '.join(self.states)}" if exposed else ""),
            )
        static = others[0] if len(others) > exposed else None
        initial = list(others[len(others) - exposed :])
        for index, state in enumerate(initial):
            self._expect(2 + len(others) - exposed + index, state, (1, self.streams, self.hidden))
        if static is not None and (not static.shape or static.shape[0] != self.streams):
            raise ShapeError(
                f"shape is {static.shape}, expected ({self.streams}, ...)",
                blob=self._bottom(2),
                because=f"N is {self.streams}, the second dimension of {self._bottom(0)}",
            )
        return static, initial

    def _transformed(self, x: Value, static: Value | None) -> Value:
        """``W_x x + b [+ W_static x_static]`` for all steps at once: (T, N, gates * H)."""
        build, rows = self.build, self.gates * self.hidden
        names = ("W_xc", "b_c", "W_xc_static") if self.gates > 1 else ("W_xh", "b_h", "W_xh_static")
        inputs = element_count(x.shape[2:], "an axis of x")
        w_x = self.weights((rows, inputs), names[0])
        flat = build.reshape(x, (self.steps, self.streams, inputs), hint="x")
        product = build.product(flat, w_x, hint="x_product")
        total = build.add(ADD, product, build.aligned(self.bias((rows,), names[1]), 3), hint="x_sum")
        if static is None:
            return total
        size = element_count(static.shape[1:], "an axis of x_static")
        w_static = self.weights((rows, size), names[2])
        flat = build.reshape(static, (1, self.streams, size), hint="static")
        product = build.product(flat, w_static, hint="static_product")
        return build.add(ADD, total, product, hint="x_static_sum")

    def _delta(self, cont: Value) -> Value:
        """cont (T, N), as often as there are hidden units: (T, N, H)."""
        column = self.build.reshape(cont, (self.steps, self.streams, 1), hint="cont")
        return self.build.tile(column, 2, self.hidden, hint="delta") if self.hidden > 1 else column

    def _expect(self, index: int, value: Value, shape: tuple[Dim, ...]) -> None:
        if value.shape == shape:
            return
        raise ShapeError(
            f"shape is {value.shape}, expected {shape}",
            blob=self._bottom(index),
            because=f"T is {self.steps} and N is {self.streams}, the first dimensions of {self._bottom(0)}",
            fix=f"give it the shape {{ {' '.join(f'dim: {dim}' for dim in shape)} }}",
        )

    def _bottom(self, index: int) -> str:
        return f'bottom "{self.layer.bottom_blob(index)}"'

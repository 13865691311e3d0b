"""What 8 bits cost: a quantized net against float32, as a whole and with one layer quantized at a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import BuildError, Origin, VerificationError
from prototrt.caffe_proto.common.records import asdict, dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.converter.options import Started, without_progress
from prototrt.converter.running.data.data import Call
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Array, Graph, Node, Value, walk
from prototrt.surgery.ops import Cast, Concat, Dequantize, Identity, Reshape, Slice, Softmax, Transpose
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite

_MOVES = (Cast, Concat, Identity, Reshape, Slice, Transpose)


@dataclass(frozen=True, slots=True)
class OutputCost:
    """How far an output is from float32, over all calls.

    ``max_rel`` is in parts of the largest magnitude. ``agreement`` is the share of places whose largest class is
    the same, None for an output without classes.
    """

    output: str
    max_abs: float
    max_rel: float
    rms: float
    cosine: float
    agreement: float | None

    @property
    def score(self) -> float:
        """1 if nothing changes: the agreement, or the cosine of an output without classes."""
        return self.cosine if self.agreement is None else self.agreement


@dataclass(frozen=True, slots=True)
class LayerCost:
    """What it costs to quantize one layer alone, at the output that suffers most."""

    layer: Origin
    worst: OutputCost


@dataclass(frozen=True, slots=True)
class QuantizationCost:
    """The cost of a quantized net: ``layers`` from the most expensive one on.

    ``kept`` are the layers that ``auto_keep`` leaves in float, beside those of ``keep_float``; ``outputs`` are of
    the net without them.
    """

    outputs: tuple[OutputCost, ...]
    layers: tuple[LayerCost, ...]
    kept: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        return min((cost.score for cost in self.outputs), default=1.0)

    def as_dict(self) -> dict[str, Any]:
        layers = [
            {"layer": cost.layer.layer, "type": cost.layer.type, **asdict(cost.worst)} for cost in self.layers
        ]
        return {"outputs": [asdict(cost) for cost in self.outputs], "layers": layers, "kept": list(self.kept)}


def quantization_cost(
    model: Model,
    options: RewriteOptions,
    calls: Sequence[Call],
    agreement: float | None = None,
    started: Started = without_progress,
) -> QuantizationCost:
    """Compare a net in 8 bits with the same in float32, on the inputs of each call.

    With ``agreement``, layers are kept in float, the most expensive first, until each output agrees in this share of
    its places. ``started`` hears how many layers are quantized alone, or with ``agreement`` twice as many: the most
    nets that are computed. Raises ``VerificationError`` if all layers together do not reach it.
    """
    full = rewrite(model, options=replace(options, precision="fp32"))
    truth = Truth.of(full, calls)
    quantized = rewrite(model, options=options)
    layers = quantized_layers(quantized)
    advance = started(len(layers) if agreement is None else 2 * len(layers))

    def costs_without(names: Sequence[str]) -> list[OutputCost]:
        kept = replace(options, keep_float=(*options.keep_float, *names))
        costs = truth.costs(rewrite(model, options=kept))
        advance()
        return costs

    alone = [
        LayerCost(origin, min(costs_without([name for name in layers if name != layer]), key=_order))
        for layer, origin in layers.items()
    ]
    alone.sort(key=lambda cost: _order(cost.worst))
    cost = QuantizationCost(tuple(truth.costs(quantized)), tuple(alone))
    return cost if agreement is None else _choose_layers(cost, costs_without, agreement)


def _order(cost: OutputCost) -> tuple[float, float]:
    """The most expensive first: those that change decisions, then those that change numbers."""
    return cost.score, -cost.rms


def _choose_layers(
    cost: QuantizationCost, costs_without: Callable[[Sequence[str]], list[OutputCost]], agreement: float
) -> QuantizationCost:
    """The cost with as few layers in float as reach the agreement, taken in the order of their own costs."""
    names = [each.layer.layer for each in cost.layers]
    for count in range(len(names) + 1):
        if count:
            cost = replace(cost, outputs=tuple(costs_without(names[:count])), kept=tuple(names[:count]))
        if cost.score >= agreement:
            return cost
    worst = min(cost.outputs, key=_order)
    what = "the cosine with" if worst.agreement is None else "the agreement with"
    raise VerificationError(
        f'output "{worst.output}": {what} float32 is {float(worst.score)}, expected {agreement:g}',
        because="16 bits alone cost as much: no layer is left in 8 bits",
        fix=Worded("ask for less, or use {} without {}", Option("precision", "fp32"), Option("auto_keep")),
    )


def quantized_layers(graph: Graph) -> dict[str, Origin]:
    """The layers whose weights have 8 bits."""
    return {
        node.origin.layer: node.origin
        for node in walk(graph)
        if isinstance(node.op, Dequantize) and node.inputs[0].is_constant
    }


@dataclass(frozen=True, slots=True)
class Truth:
    """What a graph of float32 computes on the inputs of each call."""

    graph: Graph
    calls: Sequence[Call]
    results: Mapping[str, Array]

    @classmethod
    def of(cls, graph: Graph, calls: Sequence[Call]) -> Truth:
        return cls(graph, calls, _results(graph, calls))

    def costs(self, graph: Graph) -> list[OutputCost]:
        """How far each output of another graph is from it."""
        actual = _results(graph, self.calls)
        values = {value.name: value for value in self.graph.outputs}
        axes = _axes_of_classes(self.graph)
        return [
            _cost(name, actual[name], expected, axes.get(values[name]))
            for name, expected in self.results.items()
            if expected.dtype.kind == "f"
        ]


def _results(graph: Graph, calls: Sequence[Call]) -> dict[str, Array]:
    """The outputs of all calls, one after the other: by onnxruntime where it can, which takes far less time."""
    session = _session(graph)
    results = []
    for call in calls:
        if call.starts_anew:
            session.reset()
        results.append(session.run(call.feeds))
    return {name: np.stack([result[name] for result in results]) for name in results[0]}


def _session(graph: Graph) -> Session:
    if importlib.util.find_spec("onnxruntime") is not None and importlib.util.find_spec("onnx") is not None:
        try:
            return Session(graph, on="onnx")
        except BuildError:  # bfloat16, for one
            pass
    return Session(graph)


def _cost(name: str, actual: Array, expected: Array, axis: int | None) -> OutputCost:
    difference = difference_of(actual, expected, TOLERANCES["fp32"])
    numbers = difference.max_abs, difference.max_rel, difference.rms, difference.cosine
    return OutputCost(name, *numbers, None if axis is None else _agreement(actual, expected, 1 + axis))


def _agreement(actual: Array, expected: Array, axis: int) -> float | None:
    """The share of places with the same largest class along an axis."""
    if (
        axis >= expected.ndim
        or expected.shape[axis] < 2
        or actual.shape != expected.shape
        or not expected.size
    ):
        return None
    return float(np.mean(actual.argmax(axis) == expected.argmax(axis)))


def _axes_of_classes(graph: Graph) -> dict[Value, int]:
    """The outputs that decide between classes, and along which axis: results of Softmax if there are any, else all.

    Beside probabilities, the outputs of a detector are positions, among which the largest means nothing.
    """
    writers = graph.writers()
    of_softmax = {
        value: axis for value in graph.outputs if (axis := _axis_of_softmax(value, writers)) is not None
    }
    return of_softmax or {value: _axis_of_channels(value) for value in graph.outputs}


def _axis_of_softmax(value: Value, writers: Mapping[Value, Node]) -> int | None:
    """The axis of the classes, if a value is the result of a Softmax, or is moved from one."""
    node, axis = writers.get(value), None
    while node is not None and isinstance(node.op, _MOVES):
        axis = _axis_of_channels(value)
        node = writers.get(node.inputs[0])
    if node is None or not isinstance(node.op, Softmax):
        return None
    return node.op.axis if axis is None else axis


def _axis_of_channels(value: Value) -> int:
    return 1 if len(value.shape) > 3 else len(value.shape) - 1

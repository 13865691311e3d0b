"""The cost of a net, layer by layer: shapes, stored numbers, multiplications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.options import takes_options
from prototrt.caffe_proto.common.records import asdict, dataclass, replace
from prototrt.surgery.expansion.expand import Expansion, expand
from prototrt.surgery.expansion.recurrences import likely_recurrences
from prototrt.surgery.ir import Graph, Range, Shape, StreamLags, Value
from prototrt.surgery.ir.shapes import ranges, sizes, usual_shape
from prototrt.surgery.ops import Scan, steps_of
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import lay_out, make_canonical


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob by the user's name."""

    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Binding(Blob):
    """An input or output; ``axes`` are the names of its axes: ``"N"``, ``"T"``, ``"T*N"``, or None."""

    axes: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """One layer. ``parameters`` are stored numbers, ``multiply_adds`` are those of one call.

    ``multiply_adds_per_step`` are those of one of the T steps of a recurrent layer; other layers have no steps.
    Both are for the usual sizes, where sizes vary.
    """

    name: str
    type: str
    line: int
    tops: tuple[Blob, ...]
    parameters: int
    multiply_adds: int
    multiply_adds_per_step: int | None


@dataclass(frozen=True, slots=True)
class StatePair:
    """State: the caller feeds what ``output`` holds after a call into ``input`` of the next call."""

    input: str
    output: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Inspection:
    """A net and its cost. ``inputs`` and ``outputs`` include those for state. ``sizes`` vary from call to call.

    With the option ``stream``, shapes and multiplications are those of a piece, and ``stream`` says how late outputs
    are. ``likely_recurrences`` are inputs and outputs that names and shapes suggest as state: nothing feeds them back
    unless the option ``recurrences`` says so.
    """

    name: str
    file: str
    layers: tuple[LayerFacts, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    recurrences: tuple[StatePair, ...]
    likely_recurrences: tuple[StatePair, ...]
    sizes: Mapping[str, Range]
    stream: StreamLags | None
    warnings: tuple[str, ...]

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers)

    def _repr_html_(self) -> str:
        columns = ("layer", "type", "line", "tops", "parameters", "multiply-adds")
        rows = [
            (
                layer.name,
                layer.type,
                layer.line,
                ", ".join(f"{top.name} {sizes(top.shape)}" for top in layer.tops),
                layer.parameters,
                layer.multiply_adds,
            )
            for layer in self.layers
        ]
        state = [f"state: {pair.output} -> {pair.input}" for pair in self.recurrences]
        total = f"{self.parameters:,} parameters, {self.multiply_adds:,} multiply-adds"
        varying = [f"sizes: {ranges(self.sizes)}"] if self.sizes else []
        return table(self.name or self.file, columns, rows, [total, *varying, *state, *self.warnings])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the fields and the two totals; a size that varies is its smallest, usual and largest value."""
        return {
            **asdict(self),
            "sizes": {name: [span.min, span.opt, span.max] for name, span in self.sizes.items()},
            "parameters": self.parameters,
            "multiply_adds": self.multiply_adds,
        }


@takes_options(RewriteOptions)
def inspect(model: Model, options: RewriteOptions) -> Inspection:
    """Measure the cost of a net. Works without weights: shapes do not depend on them."""
    expansion = _in_pieces(expand(model, options=options.topology), options)
    bound = lay_out(expansion.graph, options.layout, model.file)
    shapes = {value.name: value.shape for value in bound.inputs}
    return Inspection(
        name=model.name,
        file=model.file,
        layers=_layer_facts(model, expansion),
        inputs=_bindings(bound, bound.inputs),
        outputs=_bindings(bound, bound.outputs),
        recurrences=tuple(
            StatePair(pair.input.name, pair.output.name, pair.input.shape) for pair in bound.recurrences
        ),
        likely_recurrences=tuple(
            StatePair(fed, output, shapes[fed]) for output, fed in likely_recurrences(bound).items()
        ),
        sizes=bound.symbols,
        stream=bound.stream,
        warnings=bound.warnings,
    )


def layers_of(model: Model, expansion: Expansion, options: RewriteOptions) -> tuple[LayerFacts, ...]:
    """The cost of each layer of a net that was expanded already."""
    return _layer_facts(model, _in_pieces(expansion, options))


def _in_pieces(expansion: Expansion, options: RewriteOptions) -> Expansion:
    """The expansion, or that of a piece if the options say so."""
    if options.stream is None:
        return expansion
    graph = make_canonical(expansion.graph, options)
    written = {value.name: value for node in graph.nodes for value in (*graph.inputs, *node.outputs)}
    tops = {name: written.get(value.name, value) for name, value in expansion.tops.items()}
    return replace(expansion, graph=graph, tops=tops)


def _layer_facts(model: Model, expansion: Expansion) -> tuple[LayerFacts, ...]:
    """Of all layers but those after the outputs."""
    work, work_of_a_step = multiply_adds(expansion.graph), multiply_adds_per_step(expansion.graph)
    return tuple(
        LayerFacts(
            name=layer.name,
            type=layer.type,
            line=layer.origin.line,
            tops=_tops(layer, expansion.tops),
            parameters=expansion.parameters.get(layer.name, 0),
            multiply_adds=work[layer.origin],
            multiply_adds_per_step=work_of_a_step.get(layer.origin),
        )
        for layer in model.layers
        if not layer.tops or not expansion.tops.keys().isdisjoint(layer.tops)
    )


def _tops(layer: Layer, values: Mapping[str, Value]) -> tuple[Blob, ...]:
    """Those that are tensors: workspaces of operators are not."""
    return tuple(
        Blob(layer.top_blob(index), values[top].shape)
        for index, top in enumerate(layer.tops)
        if top in values
    )


def multiply_adds(graph: Graph) -> Counter[Origin]:
    """Multiplications per Caffe layer at the usual sizes; the body of a Scan counts once for each step."""
    counts: Counter[Origin] = Counter()
    for node in graph.nodes:
        inputs = tuple(usual_shape(value.shape) for value in node.inputs)
        if isinstance(node.op, Scan):
            steps = steps_of(node.op, inputs)
            # The operators of a step net have origins of their own.
            counts[node.origin] += steps * sum(multiply_adds(node.op.body).values())
        counts[node.origin] += node.op.multiply_adds(
            inputs, [usual_shape(value.shape) for value in node.outputs]
        )
    return counts


def multiply_adds_per_step(graph: Graph) -> dict[Origin, int]:
    """Multiplications of one step of each recurrent layer.

    Those are its share of what is computed for all T steps at once, and the bodies of its Scans.
    Products of a static input, computed once per call, are not counted, unless there is only one step.
    """
    steps = {
        node.origin: steps_of(node.op, tuple(usual_shape(value.shape) for value in node.inputs))
        for node in graph.nodes
        if isinstance(node.op, Scan)
    }
    counts = dict.fromkeys(steps, 0)
    for node in graph.nodes:
        count = steps.get(node.origin)
        if isinstance(node.op, Scan) or (count and usual_shape(node.outputs[0].shape)[:1] == (count,)):
            counts[node.origin] += (
                multiply_adds(replace(graph, nodes=(node,)))[node.origin] // steps[node.origin]
            )
    return counts


def _bindings(graph: Graph, values: Sequence[Value]) -> tuple[Binding, ...]:
    return tuple(
        Binding(value.name, value.shape, graph.layout.bindings[value.name].names) for value in values
    )

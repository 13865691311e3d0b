"""Running a net on data, and counting what its values hold, those in the bodies of loops too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, NetError, Origin
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.checking.calibration.histogram import Histogram
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.data.data import Call, Data
from prototrt.converter.running.sessions.evaluation import Evaluator, EvaluatorRunner
from prototrt.converter.running.sessions.session import WAYS
from prototrt.surgery.building.builder import names_in
from prototrt.surgery.ir import Array, DType, Graph, Node, Value, walk
from prototrt.surgery.ops import Identity, Scan


@dataclass(slots=True)
class CollectedHistograms:
    """The histograms of values, by name; ``samples`` is the number of calls, ``sha256`` that of all inputs."""

    histograms: dict[str, Histogram]
    samples: int = 0
    sha256: str = ""
    warnings: list[str] = field(default_factory=list)


def collect(
    graph: Graph,
    data: Data,
    selection: Collection[str],
    advance: Callable[[], object] = lambda: None,
    *,
    rectified: Collection[str] = (),
) -> CollectedHistograms:
    """Run the graph on all data, and count the magnitudes of the wanted values.

    onnxruntime computes where it can, else our primitives. Values in the bodies of Scans are counted over
    all steps. Negative numbers of ``rectified`` values count as 0. ``advance`` is called after each part of the data.
    Nothing but counts is kept. Raises
    ``NetError`` for an empty data set, and for values that are NaN or infinite.
    """
    shown = expose(graph, selection)
    names = {output: name for name, output in shown.outputs.items()}
    evaluator, warnings = _evaluator(shown.graph)
    runner = EvaluatorRunner(Signature.of_graph(shown.graph), evaluator)
    fed = [value.name for value in graph.inputs if value.name in selection]
    collected = CollectedHistograms(
        {name: Histogram() for name in (*fed, *names.values())}, warnings=warnings
    )
    digest = hashlib.sha256()
    for call in _calls(data, advance):
        if call.starts_anew:
            runner.reset(None)
        _hash(digest, call)
        results = runner.run(call.feeds, {})
        for name in fed:
            if name in call.feeds:  # a state is given to a few calls at most
                _count(
                    collected.histograms[name], np.asarray(call.feeds[name], np.float32), name, call, graph
                )
        for output, name in names.items():
            numbers = np.maximum(results[output], 0) if name in rectified else results[output]
            _count(collected.histograms[name], numbers, name, call, graph)
        collected.samples += 1
    collected.sha256 = digest.hexdigest()
    if not collected.samples:
        raise NetError("there are no data to calibrate with", fix="give at least one sample")
    return collected


def _calls(data: Data, advance: Callable[[], object]) -> Iterator[Call]:
    for part in data.read():
        yield from (replace(call, feeds={**call.feeds}) for call in part)  # read once
        advance()


def _evaluator(graph: Graph) -> tuple[Evaluator, list[str]]:
    """onnxruntime, or else our primitives and a warning that says why."""
    try:
        return WAYS["onnx"](graph), []
    except BuildError as error:
        reason = str(error.because or error.problem).splitlines()[0]
        return WAYS["reference"](graph), [
            f"our primitives compute, slowly, because onnxruntime cannot: {reason}"
        ]


def _hash(digest: hashlib._Hash, call: Call) -> None:
    """The inputs, whichever files they are from."""
    for name in sorted(call.feeds):
        array = np.ascontiguousarray(call.feeds[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)


def _count(histogram: Histogram, numbers: Array, name: str, call: Call, graph: Graph) -> None:
    """Add numbers to a histogram. Raises ``NetError`` where they are not finite."""
    if not np.isfinite(numbers).all():
        kind = "NaN" if np.isnan(numbers).any() else "infinity"
        raise NetError(
            f'"{name}" holds {kind}',
            origin=_origin_of(name, graph),
            because=f"that is what the net computes from {call.where}",
            fix=Worded(
                "correct the data, or the weights: `{}` with {} finds NaN and infinity in them",
                Command("verify"),
                Option("strict"),
            ),
        )
    histogram.add(numbers)


def _origin_of(name: str, graph: Graph) -> Origin | None:
    return next((node.origin for node in walk(graph) for value in node.outputs if value.name == name), None)


def blobs(graph: Graph) -> list[str]:
    """The names of the float32 values of a graph that are blobs of the net, and not states."""
    inputs = [value for value in graph.inputs if value not in graph.state_inputs]
    values = [*inputs, *(value for node in walk(graph) for value in node.outputs)]
    return [value.name for value in values if value.dtype is DType.FLOAT32 and not value.is_surgical]


@dataclass(frozen=True, slots=True)
class ExposedGraph:
    """``outputs`` are, by the names of values, the names of the outputs that show them."""

    graph: Graph
    outputs: Mapping[str, str]


def expose(graph: Graph, targets: Collection[str]) -> ExposedGraph:
    """Make outputs of the values with these names; of a value in the body of a Scan, all steps.

    Before: ``y = ReLU(x)``, ``z = Scan(y)`` with ``p = MatMul(s, const w)`` in its body; ``return z``
    After:  ``y = ReLU(x)``, ``z, p_steps = Scan(y)``; ``return y, p_steps, z``
    The steps are stacked on a new first axis: (T, ...), and (T, T', ...) for a Scan in a Scan.
    Left alone: inputs of the graph, which the caller knows, constants, and values in the body of a While, which
    runs as often as the data want.
    """
    return _Exposure(names_in(graph), targets).of(graph)


class _Exposure:
    def __init__(self, taken: set[str], targets: Collection[str]) -> None:
        self.names, self.targets = Names(taken), set(targets)

    def of(self, graph: Graph) -> ExposedGraph:
        nodes: list[Node] = []
        shown: dict[str, Value] = {}
        states = graph.state_outputs
        for node in graph.nodes:
            node, stacked = self._over_body(node)
            nodes.append(node)
            shown |= stacked
            for value in node.outputs:
                if value.name in self.targets:
                    shown[value.name] = self._copy(value, node, nodes) if value in states else value
        own = [value for value in graph.outputs if value not in states]
        further = [value for value in shown.values() if value not in own]
        outputs = (*own, *further, *states)
        exposed = replace(graph, nodes=tuple(nodes), outputs=outputs) if shown else graph
        return ExposedGraph(exposed, {name: value.name for name, value in shown.items()})

    def _over_body(self, node: Node) -> tuple[Node, Mapping[str, Value]]:
        """The node with further outputs: all steps of what is wanted in its body, by the names there."""
        if not isinstance(node.op, Scan):
            return node, {}
        body, shown = self._body(node.op.body)
        steps = node.op.steps([value.shape for value in node.inputs])
        stacked = {
            name: Value(
                self.names.free(f"{value.name}:steps"), value.dtype, (steps, *value.shape), is_surgical=True
            )
            for name, value in shown.items()
        }
        if not stacked:
            return node, {}
        outputs = (*node.outputs, *stacked.values())
        return replace(node, op=replace(node.op, body=body), outputs=outputs), stacked

    def _body(self, body: Graph) -> tuple[Graph, Mapping[str, Value]]:
        """The body with further outputs, and the values that they are."""
        inner = self.of(body)
        values = {value.name: value for value in inner.graph.outputs}
        shown = {name: values[output] for name, output in inner.outputs.items()}
        shown |= {value.name: value for value in body.inputs if value.name in self.targets}
        outputs = (*body.outputs, *shown.values())
        return replace(inner.graph, outputs=outputs), shown

    def _copy(self, value: Value, node: Node, nodes: list[Node]) -> Value:
        """A copy of a state: the outputs that are states stand last."""
        copy = replace(value, name=self.names.free(f"{value.name}:copy"), is_surgical=True)
        name = self.names.free(f"__{copy.name}")
        nodes.append(Node(name, Identity(), (value,), (copy,), node.origin, is_surgical=True))
        return copy

"""Numbers that a quantized net clips, because its scales were made for other data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.caffe_proto.common.wording import listed
from prototrt.converter.checking.calibration.collecting import collect
from prototrt.converter.running.data.data import Call, Data
from prototrt.surgery.ir import Graph, Node, bodies, walk
from prototrt.surgery.ops import LeakyReLU, Quantize
from prototrt.surgery.ops.quantize import LARGEST

MUCH = 0.01
"""Of all numbers of a value: if more are clipped, its range is hardly what the net needs."""
_HALF_A_STEP = 127.5 / 127


def saturation_warnings(graph: Graph, calls: Sequence[Call]) -> list[str]:
    """A warning, if more than 1% of the numbers that a Quantize reads are beyond its range on these inputs.

    State is carried from call to call. Raises what running the graph raises.
    """
    ranges = {node.inputs[0].name: _limit(node) for node in walk(graph) if isinstance(node.op, Quantize)}
    if not ranges:
        return []
    rectified = {node.inputs[0].name for scope in _scopes(graph) for node in _before_relu(scope)}
    data = Data(lambda: iter([calls]))
    histograms = collect(graph, data, ranges, rectified=rectified).histograms
    shares = {
        name: histogram.beyond(ranges[name]) / histogram.total for name, histogram in histograms.items()
    }
    much = [f"{name} ({share:.0%})" for name, share in shares.items() if share > MUCH]
    if not much:
        return []
    return [f"more than {MUCH:.0%} of the numbers are beyond the range of 8 bits: {listed(much)}"]


def _limit(node: Node) -> float:
    """The magnitude from which on a Quantize clips: half a step beyond the last one."""
    scale = node.inputs[1].data
    assert isinstance(node.op, Quantize)
    assert scale is not None
    return float(scale.max()) * LARGEST[node.op.to] * _HALF_A_STEP


def _scopes(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in walk(graph):
        yield from bodies(node.op)


def _before_relu(graph: Graph) -> Iterator[Node]:
    """The Quantizes that only ReLUs read: what these make zero may be clipped."""
    readers = graph.readers()
    for node in graph.nodes:
        follow = readers.get(node.outputs[0], []) if isinstance(node.op, Quantize) else []
        if follow and all(reader.op == LeakyReLU() for reader in follow):
            yield node

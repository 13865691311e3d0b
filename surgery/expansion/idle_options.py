"""Options that change nothing in a net, because it lacks what they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import no_effect
from prototrt.caffe_proto.forks import MEANINGS
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import Graph, Op, walk
from prototrt.surgery.ops import NonMaxSuppression, Scan, Tile


@dataclass(frozen=True, slots=True)
class ExpandedNet:
    """The layers that were expanded, what expanded them, and the graph that they became."""

    layers: Sequence[Layer]
    framework: Framework
    build: LayerBuilder
    graph: Graph

    def has(self, op: type[Op]) -> bool:
        """Whether a node of the graph, or of a body in it, is of this kind."""
        return any(isinstance(node.op, op) for node in walk(self.graph))

    def heeds(self, option: str) -> bool:
        """Whether a rule of its layers asked for the option."""
        return option in self.build.heeded


@dataclass(frozen=True, slots=True)
class Purpose:
    """What options are for, whether a net has it, and the words where it does not."""

    options: Sequence[str]
    is_in: Callable[[ExpandedNet], bool]
    lack: str


PURPOSES = (
    Purpose(
        ("scales", "calibration_cache", "quantize_all", "keep_float"),
        lambda net: net.build.options.is_quantized,
        "the precision is neither int8 nor fp8",
    ),
    Purpose(
        ("preprocess",),
        lambda net: any(map(net.framework.transforms, net.layers)),
        "no data layer states a mean or a scale",
    ),
    Purpose(("cont",), lambda net: net.heeds("cont"), "no layer reads cont"),
    Purpose(
        ("state",),
        lambda net: bool(net.build.used_states or net.graph.recurrences),
        "no layer takes its state from outside",
    ),
    Purpose(("sequence",), lambda net: net.has(Scan), "the net has no recurrent layer"),
    Purpose(("tile",), lambda net: net.has(Tile), "the net has no Tile"),
    Purpose(
        ("nms",),
        lambda net: net.has(NonMaxSuppression),
        "no layer suppresses boxes as the layer of ONNX and TensorRT does",
    ),
    Purpose(
        ("fork",),
        lambda net: any(net.build.options.fork in MEANINGS.get(layer.type, ()) for layer in net.layers),
        "no layer has a meaning of its own in this fork",
    ),
    Purpose(("settings",), lambda net: net.heeds("settings"), "no layer reads settings"),
    Purpose(
        ("rules",),
        lambda net: any(map(net.framework.rule_in_file, net.layers)),
        "the file has no rule for a layer of the net",
    ),
)


def idle_options(net: ExpandedNet) -> Iterator[str]:
    """A warning for each purpose that the net lacks, with the user's options that are for it."""
    for purpose in PURPOSES:
        idle = net.build.options.chosen_options(*purpose.options)
        if idle and not purpose.is_in(net):
            yield no_effect(idle, purpose.lack)

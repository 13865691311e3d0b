"""A net with its recurrent layers written out in layers that every reader of Caffe's files knows."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option
from prototrt.caffe_proto.model import one_layer
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.text.marks import MarkedRecurrence
from prototrt.converter.backends.caffe.expansion import expand_for
from prototrt.converter.backends.caffe.layers import PlainLayer, PlainLayers
from prototrt.surgery.ir import Graph, Shape
from prototrt.surgery.ops import Scan
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite


@dataclass(frozen=True)
class WrittenSteps:
    """The layers of a recurrent layer, step by step, and those that make its first states blobs of the net."""

    inputs: Sequence[PlainLayer]
    layers: Sequence[PlainLayer]


class UnrolledLayers:
    """The recurrent layers of a net, unrolled: by the layer, what replaces it.

    The shapes of their bottoms must be numbers, and at most 64 steps unless ``options.force``.
    ``recurrences`` are the pairs of blobs that a caller feeds back. Raises ``ConversionError``.
    """

    def __init__(self, model: Model, options: RewriteOptions) -> None:
        graph = expand_for(Option("stage", "rewritten"), model, options).graph
        self._model, self._options, self._shapes = model, options, _shapes(graph)
        recurrent = {node.origin for node in graph.nodes if isinstance(node.op, Scan)}
        self.recurrences: list[MarkedRecurrence] = []
        self.steps = {layer: self._steps(layer) for layer in model.layers if layer.origin in recurrent}

    def _steps(self, layer: Layer) -> WrittenSteps:
        _refuse_in_place(layer)
        alone = one_layer(self._model, layer.name)
        bottoms = [layer.bottom_blob(index) for index in range(len(layer.bottoms))]
        shapes = {blob: self._shapes[value] for blob, value in zip(bottoms, layer.bottoms, strict=True)}
        options = replace(
            self._options, shapes=shapes, sequence="unroll", outputs=None, dynamic=(), sizes=None
        )
        graph = rewrite(alone, options=options)
        self.recurrences += [
            MarkedRecurrence(pair.output.name, pair.input.name, pair.exposed) for pair in graph.recurrences
        ]
        blobs = {value: value.name for value in graph.inputs}
        inputs = [_input(value.name, value.shape) for value in graph.inputs if value.name not in bottoms]
        return WrittenSteps(inputs, PlainLayers(graph, blobs).write())


def _shapes(graph: Graph) -> dict[str, Shape]:
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    return {value.name: value.shape for value in values}


def _refuse_in_place(layer: Layer) -> None:
    written_over = {*layer.message.bottom} & {*layer.message.top}
    if written_over:
        raise NetError(
            f'writes "{min(written_over)}" over its bottom, which several layers cannot do',
            origin=layer.origin,
            fix="give its top a name of its own, and use that in the layers that follow",
        )


def _input(name: str, shape: Shape) -> PlainLayer:
    message = message_class("LayerParameter")(name=name, type="Input", top=[name])
    message.input_param.shape.add().dim.extend(map(int, shape))
    return PlainLayer(message)

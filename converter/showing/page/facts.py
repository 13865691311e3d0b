"""The data of the page, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ConversionError, Origin
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Worded
from prototrt.caffe_proto.weights import StoredBlob
from prototrt.converter.showing.page.order import in_order, nodes_in
from prototrt.converter.showing.page.repeats import Repeat, with_repeats, with_repeats_like
from prototrt.surgery.expansion.expand import Expansion
from prototrt.surgery.ir import Array, Graph, Shape
from prototrt.surgery.ir.shapes import sizes
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.scales.scales_file import ValueScale
from prototrt.surgery.scales.sources import scales_in
from prototrt.surgery.views.dot import drawing_of_graph, drawing_of_model
from prototrt.surgery.views.drawing import CONSTANT, Drawing, DrawnFrame, Item, Part, wrap
from prototrt.surgery.views.fields import fields_of
from prototrt.surgery.views.inspection import LayerFacts, layers_of

_FLOAT32 = 4  # bytes
BINS = 24
_MOST_COUNTED = 1 << 18


def page_facts(
    model: Model,
    expansion: Expansion,
    graph: Graph,
    options: RewriteOptions,
    verification: Mapping[str, Any] | None,
    title: str = "Rewritten in primitives",
) -> dict[str, Any]:
    """Both drawings, what each layer says and costs, recurrent pairs, checks and warnings.

    ``graph`` was made from ``expansion``; ``title`` names its stage.
    """
    seen = {} if options.scales is None else scales_in(options.scales).records
    costs = {(layer.name, layer.line): _cost(layer) for layer in layers_of(model, expansion, options)}
    shapes = {name: value.shape for name, value in expansion.tops.items()}
    return {
        **_head(model, title, verification),
        "drawings": _drawings(model, drawing_of_model(model, shapes), drawing_of_graph(graph)),
        "layers": [
            _layer(model, layer, shapes, seen) | costs.get((layer.name, layer.origin.line), {})
            for layer in model.layers
        ],
        "pairs": [_pair(pair.output.name, pair.input.name, pair.input.shape) for pair in graph.recurrences],
        "warnings": list(graph.warnings),
    }


def facts_of_unconverted(
    model: Model, error: ConversionError, title: str, verification: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The facts of a net that has no graph, with the reason as a warning."""
    return {
        **_head(model, title, verification),
        "drawings": _drawings(model, drawing_of_model(model, {}), None),
        "layers": [_layer(model, layer, {}, {}) for layer in model.layers],
        "pairs": [],
        "warnings": [*model.warnings, Worded("the net cannot be rewritten: {}", error.text)],
    }


def _head(model: Model, title: str, verification: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "title": model.name or model.file,
        "file": model.file,
        "weights": model.weights.file,
        "stages": ["As written", title],
        "verification": verification,
    }


def _pair(output: str, source: str, shape: Sequence[Any]) -> dict[str, str]:
    return {"output": output, "input": source, "shape": sizes(shape)}


def _cost(layer: LayerFacts) -> dict[str, Any]:
    """Memory is what the weights and the tops take as float32."""
    elements = sum(math.prod(dim for dim in top.shape if isinstance(dim, int)) for top in layer.tops)
    cost = {
        "multiply_adds": layer.multiply_adds,
        "per_step": layer.multiply_adds_per_step,
        "weights": layer.parameters * _FLOAT32,
        "tops": elements * _FLOAT32,
    }
    return {"cost": cost}


# ---------------------------------------------------------------- what a layer says


def _layer(
    model: Model, layer: Layer, shapes: Mapping[str, Shape], seen: Mapping[str, ValueScale]
) -> dict[str, Any]:
    """A layer by its fields and blobs.

    ``shapes`` are those of values, and ``seen`` what a calibration saw of them, as far as they are known.
    """
    place = layer.origin.operator or f"line {layer.origin.line}"
    return {
        "name": layer.name,
        "type": layer.type,
        "file": layer.origin.file,
        "place": place,
        "fields": [
            [field.name, field.text, int(field.is_explicit)]
            for field in fields_of(layer)
            if field.is_explicit or field.text
        ],
        "bottoms": [
            _data(layer.bottom_blob(position), shapes.get(bottom), seen.get(bottom))
            for position, bottom in enumerate(layer.bottoms)
            if bottom not in model.stored
        ],
        "tops": [
            _data(layer.top_blob(position), shapes.get(top), seen.get(top))
            for position, top in enumerate(layer.tops)
        ],
        "words": [layer.bottom_word, layer.top_word],
        "blobs": [_blob(name, blob) for name, blob in _learned_blobs(model, layer)],
    }


def _learned_blobs(model: Model, layer: Layer) -> Iterator[tuple[str, StoredBlob]]:
    """The blobs that the weights hold for a layer. Caffe numbers them; Caffe2 names them."""
    if isinstance(layer, Operator):
        for position, bottom in enumerate(layer.bottoms):
            if bottom in model.stored:
                yield layer.bottom_blob(position), model.stored[bottom]
    else:
        for position, blob in enumerate(layer.blobs or ()):
            yield f"blobs[{position}]", blob


def _data(name: str, shape: Shape | None, record: ValueScale | None) -> dict[str, Any]:
    """A blob that a call computes, with the distribution of its magnitudes if a calibration counted them."""
    distribution = None
    if record is not None and record.histogram is not None:
        distribution = statistics_of_counts(record.histogram.counts, record.histogram.width)
    return {"name": name, "shape": _text(shape)} | _distribution(distribution)


def _blob(name: str, blob: StoredBlob) -> dict[str, Any]:
    """A learned blob with its distribution, unless its numbers cannot be read: the conversion tells why."""
    try:
        statistics = statistics_of(blob.array)
    except ConversionError:
        statistics = None
    return {"name": name, "shape": _text(blob.shape)} | _distribution(statistics)


def _distribution(distribution: Distribution | None) -> dict[str, Any]:
    if distribution is None:
        return {}
    return {
        "low": distribution.low,
        "high": distribution.high,
        "counts": distribution.counts,
        "step": distribution.step,
    }


def _text(shape: Sequence[Any] | None) -> str:
    return "" if shape is None else sizes(shape)


# ---------------------------------------------------------------- drawings


def _drawings(model: Model, net: Drawing, graph: Drawing | None) -> list[dict[str, Any]]:
    """The net, and the graph with the same blocks in frames."""
    layers = {layer.origin: number for number, layer in enumerate(model.layers)}
    net = with_constants_inside(net)
    written = with_repeats(net, in_order(net))
    drawings = [_drawing(net, written, layers)]
    if graph is not None:
        graph = with_constants_inside(graph)
        rewritten = with_repeats_like(graph, in_order(graph), written)
        drawings.append(_drawing(graph, rewritten, layers))
    return drawings


def _drawing(drawing: Drawing, items: Sequence[Item], layers: Mapping[Origin, int]) -> dict[str, Any]:
    """Items, and arrows between nodes by their numbers: their places among all nodes.

    ``layers`` are the numbers of the layers. Operators in a step net of Caffe2 are no layers.
    """
    nodes = [node for item in items for node in nodes_in(item)]
    numbers = {node.id: number for number, node in enumerate(nodes)}
    return {
        "items": [_item(item, layers) for item in items],
        "edges": [
            [numbers[edge.source], numbers[edge.target], edge.label, edge.kind] for edge in drawing.edges
        ],
    }


def with_constants_inside(drawing: Drawing) -> Drawing:
    """The drawing where numbers and arrays are lines of the boxes that read them: their own would push others aside."""
    nodes = {node.id: node for item in drawing.items for node in nodes_in(item)}
    read: dict[str, list[str]] = {}
    for edge in drawing.edges:
        if nodes[edge.source].kind == CONSTANT:
            read.setdefault(edge.target, []).append(nodes[edge.source].lines[0])

    def kept_items(items: Sequence[Item]) -> list[Item]:
        kept: list[Item] = []
        for item in items:
            if isinstance(item, DrawnFrame):
                kept.append(replace(item, items=kept_items(item.items)))
            elif item.kind != CONSTANT:
                constants = tuple(Part((f"reads {text}",)) for text in wrap(read.get(item.id, ())))
                kept.append(replace(item, parts=(*item.parts, *constants)))
        return kept

    edges = [edge for edge in drawing.edges if nodes[edge.source].kind != CONSTANT]
    return replace(drawing, items=kept_items(drawing.items), edges=edges)


def _item(item: Item, layers: Mapping[Origin, int]) -> dict[str, Any]:
    def number(origin: Origin | None) -> int | None:
        return None if origin is None else layers.get(origin)

    if isinstance(item, DrawnFrame):
        own = {"parts": [[number(item.origin), item.lines]], "dashed": item.is_dashed}
        repeat = {"repeat": item.id, "blocks": item.blocks} if isinstance(item, Repeat) else {}
        return {**own, **repeat, "items": [_item(inner, layers) for inner in item.items]}
    parts = [[number(part.origin), part.lines] for part in item.parts]
    return {"kind": item.kind, "parts": parts, "notes": item.notes}


@dataclass(frozen=True, slots=True)
class Distribution:
    """``low`` and ``high`` are the smallest and the largest finite number, ``counts`` are those of equal bins between.

    In a large array, only each ``step``-th number is counted; its range is exact all the same.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    step: int


def statistics_of(array: Array) -> Distribution | None:
    """The figures of an array of any shape; None if it holds no finite number."""
    flat = np.require(array, requirements=["ALIGNED"]).reshape(-1)
    low, high = _range(flat)
    if not np.isfinite([low, high]).all():
        flat = flat[np.isfinite(flat)]
        low, high = _range(flat)
    if not flat.size:
        return None
    step = -(-flat.size // _MOST_COUNTED)
    share = (flat[::step].astype(np.float64) - low) / ((high - low) or 1)
    counts = np.bincount(np.minimum(share * BINS, BINS - 1).astype(int), minlength=BINS)
    return Distribution(low, high, tuple(map(int, counts)), step)


def statistics_of_counts(counts: Sequence[int], width: float) -> Distribution | None:
    """The figures of magnitudes, of which ``counts[k]`` are in the bin from ``k * width``; None if there are none."""
    last = max((place for place, count in enumerate(counts) if count), default=-1)
    if last < 0:
        return None
    places = np.minimum(np.arange(last + 1) * BINS // (last + 1), BINS - 1)
    grouped = np.bincount(places, weights=counts[: last + 1], minlength=BINS)
    return Distribution(0.0, (last + 1) * width, tuple(map(int, grouped)), 1)


def _range(flat: Array) -> tuple[float, float]:
    return (float(flat.min()), float(flat.max())) if flat.size else (np.nan, np.nan)

"""The data of the page, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.errors import ConversionError
from prototrt.caffe_proto.wording import Worded
from prototrt.converter.page.pieces import pieces_of
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.views.dot import drawing_of_graph, drawing_of_model, drawing_of_net
from prototrt.surgery.views.drawing import EDGE_STYLES, NODE_STYLES, Drawing, DrawnEdge, DrawnFrame, Item
from prototrt.surgery.views.inspection import LayerFacts, inspect

_FLOAT32 = 4  # bytes


def page_facts(
    model: Model,
    graph: Graph | ConversionError,
    options: RewriteOptions,
    verification: Mapping[str, Any] | None,
    title: str = "Rewritten in primitives",
) -> dict[str, Any]:
    """Both drawings, what each layer costs, recurrent pairs, checks and warnings.

    ``graph`` may be the reason why there is no graph; ``title`` names the stage of the net.
    """
    facts = {
        "title": model.name or model.file,
        "file": model.file,
        "weights": model.weights.file,
        "stages": ["As it is written", title],
        "styles": {"nodes": NODE_STYLES, "edges": EDGE_STYLES},
        "verification": verification,
    }
    if isinstance(graph, ConversionError):
        warnings = [*model.warnings, Worded("the net cannot be rewritten: {}", graph.text)]
        parsed = _drawing(drawing_of_model(model, {}))
        return {**facts, "drawings": [parsed], "layers": [], "pairs": [], "warnings": warnings}
    parsed_net, _ = drawing_of_net(model, options)
    inspection = inspect(model, options=options)
    return {
        **facts,
        "drawings": [_drawing(parsed_net), _drawing(drawing_of_graph(graph))],
        "layers": [_layer(layer) for layer in inspection.layers],
        "pairs": [_pair(pair.output, pair.input, pair.shape) for pair in inspection.recurrences],
        "warnings": list(graph.warnings),
    }


def _pair(output: str, source: str, shape: Sequence[Any]) -> dict[str, str]:
    return {"output": output, "input": source, "shape": "x".join(map(str, shape))}


def _layer(layer: LayerFacts) -> dict[str, Any]:
    """Memory is what the weights and the tops take as float32."""
    elements = sum(math.prod(dim for dim in top.shape if isinstance(dim, int)) for top in layer.tops)
    return {
        "name": layer.name,
        "type": layer.type,
        "line": layer.line,
        "multiply_adds": layer.multiply_adds,
        "weights": layer.parameters * _FLOAT32,
        "tops": elements * _FLOAT32,
    }


def _drawing(drawing: Drawing) -> dict[str, Any]:
    return {
        "title": drawing.title,
        "pieces": [
            {
                "items": list(map(_item, piece.items)),
                "edges": list(map(_edge, piece.edges)),
                "arriving": list(map(_edge, piece.arriving)),
                "leaving": list(map(_edge, piece.leaving)),
            }
            for piece in pieces_of(drawing)
        ],
    }


def _item(item: Item) -> dict[str, Any]:
    if isinstance(item, DrawnFrame):
        own = {"id": item.id, "lines": item.lines, "dashed": item.is_dashed, "layer": item.layer}
        return {**own, "items": list(map(_item, item.items))}
    return asdict(item)


def _edge(edge: DrawnEdge) -> list[str]:
    return [edge.source, edge.target, edge.label, edge.kind]

"""Pictures of nets and graphs. The same model always gives the same picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import MISSING, fields
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import DType, Graph, Node, Shape, Value
from prototrt.surgery.ir.shapes import sizes
from prototrt.surgery.ops import Binary, Cast, LeakyReLU, MatMul, Reduce, Reshape, Scan, Slice, Unary, While
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.views.drawing import (
    CONSTANT,
    END,
    FED_BACK,
    FROM_CONSTANT,
    SURGICAL,
    USER,
    Drawing,
    Part,
    wrap,
)
from prototrt.surgery.views.fields import settings_of

_MOST_LINES = 4
"""Of settings in a box."""
_NEUTRAL: Mapping[str, Any] = {"stride": 1, "dilation": 1, "group": 1, "pad": 0, "before": 0, "after": 0}
"""What changes nothing, along every axis."""


def dot_from_net(model: Model, options: RewriteOptions) -> tuple[str, Sequence[str]]:
    """The net as the file states it, in Graphviz's language, and warnings; see ``drawing_of_net``."""
    drawing, warnings = drawing_of_net(model, options)
    return drawing.text(), warnings


def dot_from_graph(graph: Graph) -> str:
    """The rewritten graph in Graphviz's language."""
    return drawing_of_graph(graph).text()


def drawing_of_net(model: Model, options: RewriteOptions) -> tuple[Drawing, Sequence[str]]:
    """The net as it is written, and warnings: a net that cannot be converted is drawn without shapes."""
    try:
        expansion = expand(model, options=options.topology)
    except ConversionError as error:
        return drawing_of_model(model, {}), [*model.warnings, Worded("drawn without shapes: {}", error.text)]
    shapes = {name: value.shape for name, value in expansion.tops.items()}
    return drawing_of_model(model, shapes), expansion.graph.warnings


def drawing_of_model(model: Model, shapes: Mapping[str, Shape]) -> Drawing:
    """The net as it is written: its layers, and blobs with the ``shapes`` that are known (by SSA name).

    A layer that works in place stands in the box of the layer whose blob it writes over.
    """
    page = Drawing(model.name or model.file)
    sources: dict[
        str, tuple[str, str]
    ] = {}  # the box that writes a value, and the layer that it is called after
    for box in boxes_of(model):
        first, last = box[0], box[-1]
        kind = END if first.type == "Input" else USER
        drawn = page.box(first.name, [_part(layer, layer is first) for layer in box], kind)
        for position, bottom in enumerate(first.bottoms):
            if bottom in sources:  # Caffe2's weights are also blobs, but no layer makes them
                source, name = sources[bottom]
                blob = first.bottom_blob(position)
                page.edge(source, drawn, _blob_label("" if blob == name else blob, shapes.get(bottom)))
        sources |= dict.fromkeys(last.tops, (drawn, first.name))
    labels = {top: layer.top_blob(i) for layer in model.layers for i, top in enumerate(layer.tops)}
    for name in model.outputs:
        page.edge(
            sources[name][0], page.node(f"output {name}", (labels[name],), END), _text(shapes.get(name))
        )
    return page


def boxes_of(model: Model) -> list[list[Layer]]:
    """The layers in boxes. One that works in place joins the layer that writes its bottom, if nobody else reads it."""
    readers = Counter(bottom for layer in model.layers for bottom in layer.bottoms)
    writers: dict[str, list[Layer]] = {}
    boxes: list[list[Layer]] = []
    for layer in model.layers:
        read = [bottom for bottom in layer.bottoms if bottom in writers]
        box = writers[read[0]] if read else []
        joins = (
            len(read) == readers[read[0]] == len(layer.tops) == len(box[-1].tops) == 1
            and box[0].type != "Input"
            and layer.bottom_blob(layer.bottoms.index(read[0])) == layer.top_blob(0)
            if read
            else False
        )
        if not joins:
            box = []
            boxes.append(box)
        box.append(layer)
        writers |= dict.fromkeys(layer.tops, box)
    return boxes


def _part(layer: Layer, is_first: bool) -> Part:
    """The lines of a layer in its box; one that works in place has a single one if it can."""
    head = (layer.name, layer.type) if is_first else (f"{layer.name} ({layer.type})",)
    settings = () if layer.type == "Input" else wrap(settings_of(layer))
    return Part((*head, *_at_most(list(settings), _MOST_LINES)), layer.origin)


def _at_most(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], "..."]


def drawing_of_graph(graph: Graph) -> Drawing:
    """The rewritten graph: nodes of surgery dashed, the body of a loop in a frame, state fed back."""
    page = Drawing(graph.name)
    sources = {value: page.node(f"input {value.name}", (value.name,), END) for value in graph.inputs}
    _draw_nodes(page, graph, sources)
    ends = {}
    for value in dict.fromkeys((*graph.outputs, *graph.state_outputs)):
        ends[value] = page.node(f"output {value.name}", (value.name,), END)
        page.edge(_source(page, value, sources, ends[value]), ends[value], _type(value))
    for pair in graph.recurrences:
        page.edge(ends[pair.output], sources[pair.input], "next call", FED_BACK)
    return page


def _node_notes(node: Node) -> Iterator[str]:
    """The outputs and inputs of a node."""
    for value in node.outputs:
        yield f"writes {value.name}  {_type(value)}"
    for value in node.inputs:
        yield f"reads {f'weights {value.name}' if value.is_constant else value.name}  {_type(value)}"


def _draw_nodes(page: Drawing, graph: Graph, sources: dict[Value, str]) -> None:
    for node in graph.nodes:
        if isinstance(node.op, Scan):
            _draw_scan(page, node, node.op, sources)
        elif isinstance(node.op, While):
            _draw_while(page, node, node.op, sources)
        else:
            _draw_node(page, node, sources)


def _draw_node(page: Drawing, node: Node, sources: dict[Value, str]) -> None:
    kind = SURGICAL if node.is_surgical else USER
    lines = (node.name, *wrap(words_of(node)))
    drawn = page.node(node.name, lines, kind, node.origin, _node_notes(node))
    for position, value in enumerate(node.inputs):
        if value.is_constant:
            constant = page.node(f"{node.name} constant {position}", (_constant(value),), CONSTANT)
            page.edge(constant, drawn, "", FROM_CONSTANT)
        else:
            page.edge(sources[value], drawn, _type(value))
    sources |= dict.fromkeys(node.outputs, drawn)


def _draw_scan(page: Drawing, node: Node, scan: Scan, sources: dict[Value, str]) -> None:
    steps = scan.steps([value.shape for value in node.inputs])
    title = f"Scan of {steps} steps{', last one first' if scan.reverse else ''}"
    inputs = scan.named_inputs(scan.body.inputs)
    roles = ["state"] * len(inputs.states) + ["one step"] * len(inputs.sequences)
    _draw_loop(page, node, scan.body, title, [*roles, *["every step"] * len(inputs.invariants)], sources)


def _draw_while(page: Drawing, node: Node, loop: While, sources: dict[Value, str]) -> None:
    inputs = loop.named_inputs(loop.body.inputs)
    roles = ["state"] * len(inputs.states) + ["every round"] * len(inputs.invariants)
    title = "While another round is needed" if loop.rounds is None else f"While, {loop.rounds} rounds"
    _draw_loop(page, node, loop.body, title, roles, sources)


def _draw_loop(
    page: Drawing, node: Node, body: Graph, title: str, roles: Sequence[str], sources: dict[Value, str]
) -> None:
    """Draw the body in a frame. Values fed back come first among its outputs, as states do among its inputs."""
    inside: dict[Value, str] = {}
    with page.frame(node.name, (node.name, title), node.is_surgical, node.origin):
        for value, role in zip(body.inputs, roles, strict=True):
            inside[value] = page.node(f"input {value.name}", (value.name, role), END)
        _draw_nodes(page, body, inside)
        ends = [_source(page, value, inside, node.name) for value in body.outputs]
    for outer, inner in zip(node.inputs, body.inputs, strict=True):
        page.edge(_source(page, outer, sources, inside[inner]), inside[inner], _type(outer))
    for end, state in zip(ends[: roles.count("state")], body.inputs, strict=False):
        page.edge(end, inside[state], "next step" if isinstance(node.op, Scan) else "next round", FED_BACK)
    sources |= dict(zip(node.outputs, ends, strict=False))  # the last of a While is its condition


def _source(page: Drawing, value: Value, sources: dict[Value, str], reader: str) -> str:
    """The node that writes the value. A constant is drawn once for each reader."""
    if value.is_constant:
        return page.node(f"{reader} constant {value.name}", (_constant(value),), CONSTANT)
    return sources[value]


def _constant(value: Value) -> str:
    if value.data is not None and value.data.size == 1:
        return f"{value.data.item():g}"
    return _type(value)


def _type(value: Value) -> str:
    return _text(value.shape) + ("" if value.dtype is DType.FLOAT32 else f" {value.dtype.value}")


def _text(shape: Shape | None) -> str:
    return "" if shape is None else sizes(shape)


def _blob_label(blob: str, shape: Shape | None) -> str:
    return "\n".join(filter(None, (visible_line(blob), _text(shape))))


def words_of(node: Node) -> Iterator[str]:
    """The name of a node's primitive, then its settings. Numbers have the digits of float32."""
    op = node.op
    if isinstance(op, Binary | Unary):
        yield op.kind.name.capitalize()
    elif isinstance(op, Reduce):
        axes = ", ".join(map(str, op.axes))
        yield f"{op.kind.name.capitalize()} over {'axis' if len(op.axes) == 1 else 'axes'} {axes}"
    elif isinstance(op, Cast):
        yield f"Cast to {op.to.value}"
    elif isinstance(op, Reshape):
        yield f"Reshape to {sizes(node.outputs[0].shape)}"
    elif isinstance(op, Slice):
        yield f"Slice {op.start} to {op.start + op.size} of axis {op.axis}"
    elif isinstance(op, LeakyReLU) and op.slope == 0:
        yield "ReLU"
    else:
        yield type(op).__name__
        if not isinstance(op, MatMul):
            yield from (
                _setting(each.name, getattr(op, each.name))
                for each in fields(op)
                if each.repr and not _says_nothing(each.name, each.default, getattr(op, each.name))
            )


def _says_nothing(name: str, default: Any, value: Any) -> bool:
    if isinstance(value, Graph) or (default is not MISSING and value == default):
        return True
    numbers = value if isinstance(value, tuple) else (value,)
    return name in _NEUTRAL and all(number == _NEUTRAL[name] for number in numbers)


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _setting(name: str, value: Any) -> str:
    is_window = name in ("window", "stride", "pad", "dilation") and isinstance(value, tuple)
    return f"{name.replace('_', ' ')} {'x'.join(map(str, value)) if is_window else _number(value)}"

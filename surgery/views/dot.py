"""Pictures of nets and graphs. The same model always gives the same picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.errors import ConversionError
from prototrt.caffe_proto.wording import Worded
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import DType, Graph, Node, Shape, Value, describe
from prototrt.surgery.ops import Scan, While
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.views.drawing import CONSTANT, END, FED_BACK, FROM_CONSTANT, SURGICAL, USER, Drawing


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
    """The net as it is written: its layers, and blobs with the ``shapes`` that are known (by SSA name)."""
    page = Drawing(model.name or model.file)
    sources: dict[str, str] = {}
    for layer in model.layers:
        kind, notes = END if layer.type == "Input" else USER, _layer_notes(layer, shapes)
        drawn = page.node(layer.name, (layer.name, layer.type), kind, layer.name, notes)
        for position, bottom in enumerate(layer.bottoms):
            if bottom in sources:  # Caffe2's weights are also blobs, but no layer makes them
                page.edge(
                    sources[bottom], drawn, _blob_label(layer.bottom_blob(position), shapes.get(bottom))
                )
        sources |= dict.fromkeys(layer.tops, drawn)
    labels = {top: layer.top_blob(i) for layer in model.layers for i, top in enumerate(layer.tops)}
    for name in model.outputs:
        page.edge(sources[name], page.node(f"output {name}", (labels[name],), END), _text(shapes.get(name)))
    return page


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


def _layer_notes(layer: Layer, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """The line of a layer, its tops, and its learned numbers."""
    yield f"{layer.origin.file}:{layer.origin.line}"
    for position, top in enumerate(layer.tops):
        yield f"top {layer.top_blob(position)}  {_text(shapes.get(top))}"
    for position, blob in enumerate(layer.blobs or ()):
        yield f"weights {position}  {_text(blob.shape)}"


def _node_notes(node: Node) -> Iterator[str]:
    """The outputs, inputs and origin of a node."""
    for value in node.outputs:
        yield f"writes {value.name}  {_type(value)}"
    for value in node.inputs:
        yield f"reads {f'weights {value.name}' if value.is_constant else value.name}  {_type(value)}"
    yield f"of {node.origin}"


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
    drawn = page.node(node.name, (node.name, describe(node.op)), kind, node.origin.layer, _node_notes(node))
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
    _draw_loop(page, node, loop.body, "While another round is needed", roles, sources)


def _draw_loop(
    page: Drawing, node: Node, body: Graph, title: str, roles: Sequence[str], sources: dict[Value, str]
) -> None:
    """Draw the body in a frame. Values fed back come first among its outputs, as states do among its inputs."""
    inside: dict[Value, str] = {}
    with page.frame(node.name, (node.name, title), node.is_surgical, node.origin.layer):
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
    if shape is None:
        return ""
    return "x".join(map(str, shape)) if shape else "scalar"


def _blob_label(blob: str, shape: Shape | None) -> str:
    return f"{blob}\n{_text(shape)}" if shape is not None else blob

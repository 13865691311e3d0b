"""Pictures of nets and graphs in Graphviz's language; the same text for the same model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.errors import ConversionError
from prototrt.surgery.expand import expand
from prototrt.surgery.ir import DType, Graph, Node, Shape, Value, describe
from prototrt.surgery.ops import Scan

_ENDS = {"shape": "oval", "style": "filled", "fillcolor": "#e3f1da"}
_USERS = {"shape": "box", "style": "filled", "fillcolor": "#dde8f7"}
_SURGICAL = {"shape": "box", "style": "filled,dashed", "fillcolor": "#fdf1d8", "color": "#a86f00"}
_CONSTANT = {"shape": "plaintext", "fontsize": "8", "height": "0", "margin": "0.03"}
_FROM_CONSTANT = {"arrowsize": "0.5", "color": "#999999"}
_FED_BACK = {"style": "dashed", "color": "#b02020", "fontcolor": "#b02020", "constraint": "false"}


def dot_from_net(model: Model, **options: Any) -> tuple[str, Sequence[str]]:
    """The net as it is written, and warnings: a net that cannot be converted is drawn without shapes.

    ``options`` are those of ``expand``, which finds the shapes.
    """
    try:
        expansion = expand(model, require_weights=False, **options)
    except ConversionError as error:
        return dot_from_model(model, {}), [*model.warnings, f"drawn without shapes: {error}"]
    shapes = {name: value.shape for name, value in expansion.tops.items()}
    return dot_from_model(model, shapes), expansion.graph.warnings


def dot_from_model(model: Model, shapes: Mapping[str, Shape]) -> str:
    """The net as it is written: its layers, and blobs with the ``shapes`` that are known (by SSA name)."""
    page = _Page(model.name or model.file)
    sources: dict[str, str] = {}
    for layer in model.layers:
        drawn = page.node(layer.name, (layer.name, layer.type), _ENDS if layer.type == "Input" else _USERS)
        for position, bottom in enumerate(layer.bottoms):
            if bottom in sources:  # Caffe2's weights are blobs, too, but no layer makes them
                page.edge(
                    sources[bottom], drawn, _blob_label(layer.bottom_blob(position), shapes.get(bottom))
                )
        sources |= dict.fromkeys(layer.tops, drawn)
    labels = {top: layer.top_blob(i) for layer in model.layers for i, top in enumerate(layer.tops)}
    for name in model.outputs:
        page.edge(sources[name], page.node(f"output {name}", (labels[name],), _ENDS), _text(shapes.get(name)))
    return page.text()


def dot_from_graph(graph: Graph) -> str:
    """The rewritten graph: nodes of surgery dashed, the body of a Scan in a frame, state fed back."""
    page = _Page(graph.name)
    sources = {value: page.node(f"input {value.name}", (value.name,), _ENDS) for value in graph.inputs}
    _draw_nodes(page, graph, sources)
    ends = {}
    for value in dict.fromkeys((*graph.outputs, *graph.state_outputs)):
        ends[value] = page.node(f"output {value.name}", (value.name,), _ENDS)
        page.edge(_source(page, value, sources, ends[value]), ends[value], _type(value))
    for pair in graph.recurrences:
        page.edge(ends[pair.output], sources[pair.input], "next call", _FED_BACK)
    return page.text()


def _draw_nodes(page: _Page, graph: Graph, sources: dict[Value, str]) -> None:
    for node in graph.nodes:
        if isinstance(node.op, Scan):
            _draw_scan(page, node, node.op, sources)
        else:
            _draw_node(page, node, sources)


def _draw_node(page: _Page, node: Node, sources: dict[Value, str]) -> None:
    drawn = page.node(node.name, (node.name, describe(node.op)), _SURGICAL if node.is_surgical else _USERS)
    for position, value in enumerate(node.inputs):
        if value.is_constant:
            constant = page.node(f"{node.name} constant {position}", (_constant(value),), _CONSTANT)
            page.edge(constant, drawn, "", _FROM_CONSTANT)
        else:
            page.edge(sources[value], drawn, _type(value))
    sources |= dict.fromkeys(node.outputs, drawn)


def _draw_scan(page: _Page, node: Node, scan: Scan, sources: dict[Value, str]) -> None:
    steps = node.inputs[scan.states].shape[0]
    title = f"Scan of {steps} steps{', last one first' if scan.reverse else ''}"
    inside: dict[Value, str] = {}
    with page.frame(node.name, (node.name, title), dashed=node.is_surgical):
        for value, role in zip(scan.body.inputs, _roles(scan), strict=True):
            inside[value] = page.node(f"input {value.name}", (value.name, role), _ENDS)
        _draw_nodes(page, scan.body, inside)
        ends = [_source(page, value, inside, node.name) for value in scan.body.outputs]
    for outer, inner in zip(node.inputs, scan.body.inputs, strict=True):
        page.edge(_source(page, outer, sources, inside[inner]), inside[inner], _type(outer))
    for end, state in zip(ends[: scan.states], scan.body.inputs, strict=False):
        page.edge(end, inside[state], "next step", _FED_BACK)
    sources |= dict(zip(node.outputs, ends, strict=True))


def _roles(scan: Scan) -> Iterator[str]:
    for position in range(len(scan.body.inputs)):
        if position < scan.states:
            yield "state"
        else:
            yield "one step" if position < scan.states + scan.sequences else "every step"


def _source(page: _Page, value: Value, sources: dict[Value, str], reader: str) -> str:
    """What writes the value; a constant is drawn anew for each reader."""
    if value.is_constant:
        return page.node(f"{reader} constant {value.name}", (_constant(value),), _CONSTANT)
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


class _Page:
    """Lines of Graphviz text, with every name quoted and every id used once."""

    def __init__(self, title: str) -> None:
        self._ids: set[str] = set()
        self._lines: list[str] = []
        self._edges: list[str] = []
        self._indent = "  "
        self._title = title

    def node(self, wanted: str, label: tuple[str, ...], style: Mapping[str, str]) -> str:
        """Draw a node; its id is the one that is wanted, or that with a number."""
        name, count = wanted, 1
        while name in self._ids:
            count += 1
            name = f"{wanted} ({count})"
        self._ids.add(name)
        self._lines.append(f"{self._indent}{_quoted(name)}{_attributes({'label': _joined(label), **style})};")
        return name

    def edge(self, source: str, target: str, label: str, style: Mapping[str, str] | None = None) -> None:
        """Draw an arrow, after all the nodes: an arrow must not pull a node into a frame."""
        attributes = {"label": label, **(style or {})}
        self._edges.append(f"  {_quoted(source)} -> {_quoted(target)}{_attributes(attributes)};")

    @contextmanager
    def frame(self, name: str, label: tuple[str, ...], dashed: bool) -> Iterator[None]:
        """What is drawn in this block stands in a frame."""
        self._lines.append(f"{self._indent}subgraph {_quoted(f'cluster {name}')} {{")
        outer, self._indent = self._indent, self._indent + "  "
        style = {"style": "dashed" if dashed else "solid", "color": "#a86f00" if dashed else "#3a5f9a"}
        for key, setting in {"label": _joined(label), **style}.items():
            self._lines.append(f"{self._indent}{key}={_quoted(setting)};")
        yield
        self._indent = outer
        self._lines.append(f"{self._indent}}}")

    def text(self) -> str:
        head = [
            f"digraph {_quoted(self._title)} {{",
            '  graph [fontname="Helvetica", fontsize="11"];',
            '  node [fontname="Helvetica", fontsize="11"];',
            '  edge [fontname="Helvetica", fontsize="9"];',
        ]
        return "\n".join([*head, *self._lines, *self._edges, "}"]) + "\n"


def _attributes(attributes: Mapping[str, str]) -> str:
    given = ", ".join(f"{key}={_quoted(setting)}" for key, setting in attributes.items() if setting)
    return f" [{given}]" if given else ""


def _joined(lines: tuple[str, ...]) -> str:
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

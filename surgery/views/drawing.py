"""The contents of a picture, independent of its language: nodes, arrows and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.visible import visible, visible_line

END, USER, SURGICAL, CONSTANT = "end", "user", "surgical", "constant"
"""Inputs and outputs; nodes of the prototxt; nodes made by surgery; numbers and arrays."""
FROM_CONSTANT, FED_BACK = "from constant", "fed back"

NODE_STYLES: Mapping[str, Mapping[str, str]] = {
    END: {"shape": "oval", "style": "filled", "fillcolor": "#e3f1da"},
    USER: {"shape": "box", "style": "filled", "fillcolor": "#dde8f7"},
    SURGICAL: {"shape": "box", "style": "filled,dashed", "fillcolor": "#fdf1d8", "color": "#a86f00"},
    CONSTANT: {"shape": "plaintext", "fontsize": "8", "height": "0", "margin": "0.03"},
}
EDGE_STYLES: Mapping[str, Mapping[str, str]] = {
    "": {},
    FROM_CONSTANT: {"arrowsize": "0.5", "color": "#999999"},
    FED_BACK: {"style": "dashed", "color": "#b02020", "fontcolor": "#b02020", "constraint": "false"},
}
_WIDEST = 32
"""Characters of a line that lists several things."""
_FONTS = (
    '  graph [fontname="Helvetica", fontsize="11"];',
    '  node [fontname="Helvetica", fontsize="11"];',
    '  edge [fontname="Helvetica", fontsize="9"];',
)


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a box that are of one Caffe layer, which ``origin`` names."""

    lines: tuple[str, ...]
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box. Layers that work in place are further ``parts`` of the box whose blob they write over.

    ``notes`` are details.
    """

    id: str
    parts: tuple[Part, ...]
    kind: str
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for part in self.parts for line in part.lines)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    source: str
    target: str
    label: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class DrawnFrame:
    """A frame around its contents, the body of a Scan."""

    id: str
    lines: tuple[str, ...]
    is_dashed: bool
    origin: Origin | None
    items: list[DrawnNode | DrawnFrame]


Item = DrawnNode | DrawnFrame


@dataclass(slots=True)
class Drawing:
    """A picture under construction. Every id is used once. Hidden characters of texts become visible."""

    title: str
    items: list[Item] = field(default_factory=list)
    edges: list[DrawnEdge] = field(default_factory=list)
    _ids: Names = field(default_factory=lambda: Names(number_form=" ({})"))
    _open: list[list[Item]] = field(default_factory=list)

    def node(
        self,
        candidate: str,
        lines: tuple[str, ...],
        kind: str,
        origin: Origin | None = None,
        notes: Iterable[str] = (),
    ) -> str:
        """Draw a node of one part. Its id is the wanted one, with a number if that is in use."""
        return self.box(candidate, [Part(lines, origin)], kind, notes)

    def box(self, candidate: str, parts: Iterable[Part], kind: str, notes: Iterable[str] = ()) -> str:
        """Draw a node of several parts."""
        name = self._ids.free(visible_line(candidate))
        shown = tuple(Part(_visible(part.lines), part.origin) for part in parts)
        self._here.append(DrawnNode(name, shown, kind, _visible(notes)))
        return name

    def edge(self, source: str, target: str, label: str, kind: str = "") -> None:
        self.edges.append(DrawnEdge(source, target, visible(label), kind))

    @contextmanager
    def frame(
        self, candidate: str, lines: tuple[str, ...], is_dashed: bool, origin: Origin | None = None
    ) -> Iterator[None]:
        """Put everything that is drawn in this block into a frame."""
        name = self._ids.free(visible_line(f"cluster {candidate}"))
        frame = DrawnFrame(name, _visible(lines), is_dashed, origin, [])
        self._here.append(frame)
        self._open.append(frame.items)
        yield
        self._open.pop()

    def text(self) -> str:
        """The drawing in Graphviz's language. Arrows come last: an earlier arrow could pull a node into a frame."""
        head = [f"digraph {quote(visible_line(self.title))} {{", *_FONTS]
        return "\n".join([*head, *_item_lines(self.items, "  "), *map(_edge_line, self.edges), "}"]) + "\n"

    @property
    def _here(self) -> list[Item]:
        return self._open[-1] if self._open else self.items


def wrap(items: Iterable[str], widest: int = _WIDEST) -> Iterator[str]:
    """The items in lines, as many in each as fit, with commas between them."""
    line = ""
    for item in items:
        if line and len(line) + len(item) > widest:
            yield f"{line},"
            line = item
        else:
            line = f"{line}, {item}" if line else item
    if line:
        yield line


def _visible(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(visible_line, lines))


def _item_lines(items: Sequence[Item], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, DrawnNode):
            label = {"label": "\n".join(item.lines), **NODE_STYLES[item.kind]}
            yield f"{indent}{quote(item.id)}{_attributes(label)};"
        else:
            yield f"{indent}subgraph {quote(item.id)} {{"
            for key, setting in _frame_style(item).items():
                yield f"{indent}  {key}={quote(setting)};"
            yield from _item_lines(item.items, indent + "  ")
            yield f"{indent}}}"


def _frame_style(frame: DrawnFrame) -> dict[str, str]:
    dashed = {"style": "dashed", "color": "#a86f00"}
    return {"label": "\n".join(frame.lines)} | (
        dashed if frame.is_dashed else {"style": "solid", "color": "#3a5f9a"}
    )


def _edge_line(edge: DrawnEdge) -> str:
    attributes = {"label": edge.label, **EDGE_STYLES[edge.kind]}
    return f"  {quote(edge.source)} -> {quote(edge.target)}{_attributes(attributes)};"


def _attributes(attributes: Mapping[str, str]) -> str:
    text = ", ".join(f"{key}={quote(setting)}" for key, setting in attributes.items() if setting)
    return f" [{text}]" if text else ""


def quote(text: str) -> str:
    """Any text in Graphviz's language, where ``&lt;`` would be a smaller-than sign."""
    escaped = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

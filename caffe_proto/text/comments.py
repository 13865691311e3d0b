"""The comments of a prototxt, for writing the net anew with each comment where it stood."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.text.fields import CLOSING
from prototrt.caffe_proto.text.tokens import TokenKind, tokens

_LAYER_WORDS = ("layer", "layers")
_VALUE = re.compile(r"[ \t]*[:{<\[]")
"""What follows the name of a field."""
_PRINTED = re.compile(r"(?P<indent>[ ]*)(?P<field>\w+)(?::| \{)")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment at a field of a layer: the ``nth`` field of this name, counted from 0.

    ``is_beside``: it stands behind the field, on its line; otherwise it stands above. ``field`` is empty
    for a comment below the last field.
    """

    text: str
    field: str
    nth: int
    is_beside: bool


@dataclass(slots=True)
class LayerComments:
    """The comments in front of a layer, and those in it."""

    above: list[str] = field(default_factory=list)
    inside: list[Comment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NetComments:
    """The comments of a net: before its first layer, of each layer by the line on which it begins, and at the end."""

    head: Sequence[str] = ()
    layers: Mapping[int, LayerComments] = field(default_factory=dict)
    tail: Sequence[str] = ()


def comments_of(text: str) -> NetComments:
    """The comments of a prototxt. Those of fields that are no layers, as ``name``, are at the head."""
    return _CommentReader().read(text)


@dataclass(slots=True)
class _CommentReader:
    """Reads tokens, and knows in which layer it is and what the line holds so far."""

    head: list[str] = field(default_factory=list)
    layers: dict[int, LayerComments] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    layer: LayerComments | None = None
    fields: Counter[str] = field(default_factory=Counter)
    last: str = ""  # the last field of this line, if it is one of the layer
    depth: int = 0
    line: int = 1
    begins_line: bool = True

    def read(self, text: str) -> NetComments:
        end = 0
        for token in tokens(text):
            if lines := text.count("\n", end, token.offset):
                self.line, self.last, self.begins_line = self.line + lines, "", True
            end = token.offset + len(token.text)
            if token.kind is TokenKind.COMMENT:
                self._comment(token.text.rstrip())
                continue
            self.begins_line = False
            if token.kind is TokenKind.WORD and _VALUE.match(text, end):
                self._field(token.text)
            elif token.text in CLOSING:
                self.depth += 1
            elif token.text in CLOSING.values():
                self.depth -= 1
                self._place("", is_beside=False)
        return NetComments(self.head, self.layers, self.pending)

    def _field(self, name: str) -> None:
        if self.depth == 0:
            self.fields.clear()
            self.layer = LayerComments(self.pending) if name in _LAYER_WORDS else None
            if self.layer is None:
                self.head += self.pending
            else:
                self.layers.setdefault(self.line, self.layer)
            self.pending = []
        else:
            self._place(name, is_beside=False)
        self.fields[name] += 1
        self.last = name

    def _comment(self, text: str) -> None:
        self.pending.append(text)
        if self.begins_line:
            return
        if self.layer is None:
            self.head.append(self.pending.pop())
        else:
            self._place(self.last, is_beside=bool(self.last))

    def _place(self, name: str, *, is_beside: bool) -> None:
        """Give the comments that were read to a field of the layer."""
        if self.layer is None:
            return
        nth = self.fields[name] - is_beside
        self.layer.inside += [Comment(text, name, nth, is_beside) for text in self.pending]
        self.pending = []


def with_comments(lines: Sequence[str], comments: LayerComments) -> Iterator[str]:
    """The lines of a layer as it is printed, with its comments.

    A comment at a field that the layer no longer has comes first.
    """
    yield from comments.above
    places = [*_places(lines)]
    at: dict[int, list[Comment]] = {}
    for comment in comments.inside:
        key = ("layer" if comment.field in _LAYER_WORDS else comment.field, comment.nth)
        place = places.index(key) if key in places else 0
        at.setdefault(len(lines) - 1 if not comment.field else place, []).append(comment)
    first = [each for each in at.get(0, ()) if not each.is_beside or each.field not in _LAYER_WORDS]
    for place, line in enumerate(lines):
        indent = " " * (len(line) - len(line.lstrip()))
        own = [each for each in at.get(place, ()) if place or each not in first]
        # A closing sign is less indented than the comments before it.
        deeper = "  " if place == len(lines) - 1 else ""
        yield from (f"{indent}{deeper}{each.text}" for each in own if not each.is_beside)
        yield "  ".join([line, *(each.text for each in own if each.is_beside)])
        if place == 0:
            yield from (f"  {each.text}" for each in first)


def _places(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """For each line, its field and how many fields of this name came before it."""
    counts: Counter[str] = Counter()
    for line in lines:
        match = _PRINTED.match(line)
        name = match["field"] if match else ""
        yield name, counts[name]
        counts[name] += 1

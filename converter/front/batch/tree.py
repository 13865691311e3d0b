"""YAML in which every mapping and every scalar knows its line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.installing import refuse_without
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.recognition import read_text
from prototrt.caffe_proto.text.outline import is_net

_MOST_ALIASED, _MOST_COPIES = 10_000, 20
"""How many values aliases may make: this many, and so many for each value that is written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A scalar, list or mapping of a YAML file: ``content`` is text, a list or a dict of places."""

    content: str | list[Place] | dict[str, Place]
    where: str
    is_plain: bool = True
    """Not quoted: only then are true, false and null more than words."""

    def error(self, problem: str, *, because: str | None = None, fix: str | None = None) -> ConversionError:
        return ConversionError(problem, where=self.where, because=because, fix=fix)

    @property
    def is_null(self) -> bool:
        return self.is_plain and self.content in ("", "~", "null", "Null", "NULL")

    def text(self, what: str) -> str:
        if not isinstance(self.content, str) or self.is_null:
            fix = "put a value that begins with { into quotes" if self._is_braced_word else None
            raise self.error(f"{what} is {self.kind}, expected a word or a number", fix=fix)
        return self.content

    def truth(self, what: str) -> bool:
        if self.is_plain and isinstance(self.content, str) and self.content.lower() in ("true", "false"):
            return self.content.lower() == "true"
        raise self.error(f"{what} is {self.kind}, expected true or false")

    def items(self, what: str) -> dict[str, Place]:
        if not isinstance(self.content, dict):
            raise self.error(f"{what} is {self.kind}, expected a mapping: lines of KEY: VALUE")
        return self.content

    def elements(self, what: str) -> list[Place]:
        if not isinstance(self.content, list):
            raise self.error(f"{what} is {self.kind}, expected a list: lines that begin with -")
        return self.content

    @property
    def _is_braced_word(self) -> bool:
        """Whether it is what YAML makes of ``{folder}`` without quotes."""
        return isinstance(self.content, dict) and all(value.is_null for value in self.content.values())

    @property
    def kind(self) -> str:
        """The kind of value here, for messages."""
        if isinstance(self.content, str):
            return "empty" if self.is_null else f'"{self.content}"'
        return "a list" if isinstance(self.content, list) else "a mapping"


def read_yaml(path: str) -> Place:
    """The whole file; raises ``ConversionError`` with the line of what is wrong."""
    refuse_without("yaml", "cannot be read without PyYAML", path)
    import yaml

    try:
        text = read_text(path, "a list of models", "give a list of models, in YAML").decode()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return _whole(node, path)
    except RecursionError as error:
        raise ConversionError(
            "nests lists and mappings too deeply", where=path, fix="write a list of models with their keys"
        ) from error
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            "cannot be read: it is not UTF-8", where=path, fix="give a YAML file"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if is_net(text):
            raise ConversionError(
                "this is a net, expected a list of models",
                where=path,
                fix=f"{_LIST} that names this prototxt",
            ) from error
        raise ConversionError(f"is not YAML: {error.problem}", where=f"{path}:{line}", fix=_SYNTAX) from error
    except yaml.YAMLError as error:
        raise ConversionError(f"is not YAML: {error}", where=path, fix=_LIST) from error


_LIST = "write models: and a list of models"
_SYNTAX = (
    "look at this line and the one before: the keys of a model are aligned, with spaces; a space follows each colon;"
    " values that begin with { or * are in quotes"
)


def _whole(node: Any, path: str) -> Place:
    if node is None:
        raise ConversionError("is empty", where=path, fix=_LIST)
    whole = _Tree(path).place(node, ())
    if not isinstance(whole.content, dict):
        raise whole.error(f"the file is {whole.kind}, expected keys and values", fix=_LIST)
    return whole


@dataclass(slots=True)
class _Tree:
    """The places of a file, counted: aliases of aliases make any number of them in a few lines."""

    path: str
    count: int = 0
    written: set[Any] = field(default_factory=set)

    def place(self, node: Any, outer: tuple[Any, ...]) -> Place:
        where = f"{self.path}:{node.start_mark.line + 1}"
        self.count += 1
        self.written.add(node)
        if self.count > _MOST_ALIASED + _MOST_COPIES * len(self.written):
            raise ConversionError(
                f"its aliases make more than {self.count - 1:,} values of {len(self.written)} that are written",
                where=where,
                fix="use fewer aliases of aliases",
            )
        if node in outer:
            raise ConversionError("an alias contains itself", where=where)
        if node.id == "scalar":
            return Place(node.value, where, node.style is None)
        if node.id == "sequence":
            return Place([self.place(item, (*outer, node)) for item in node.value], where)
        return Place(dict(_pairs(self, node, (*outer, node))), where)


def _pairs(tree: _Tree, node: Any, outer: tuple[Any, ...]) -> Iterator[tuple[str, Place]]:
    path = tree.path
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            raise ConversionError("a key is not a word", where=f"{path}:{line}")
        if key.value in seen:
            raise ConversionError(
                f'"{key.value}" is given twice, first in line {seen[key.value]}', where=f"{path}:{line}"
            )
        seen[key.value] = line
        place = tree.place(value, outer)
        # An empty value has no position; its key has one.
        yield key.value, place if place.content else Place(place.content, f"{path}:{line}", place.is_plain)

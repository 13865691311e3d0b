"""Protobuf text -> a NetParameter, with the line of each of its layers and inputs.

protobuf's own text reader stops at the first unknown field, and reports neither layers nor lines. This one
accepts what Caffe's (C++) reader accepts, collects every mistake that leaves the structure readable, and
remembers where the layers are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.errors import UnreadableFileError, raise_all
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.schema import Message, message_class, required_fields
from prototrt.caffe_proto.text.findings import BrokenTextError, Finding, OpenLayer
from prototrt.caffe_proto.text.fixes import explain_unknown, fix_of_value
from prototrt.caffe_proto.text.scalars import (
    BadValueError,
    FieldDefinition,
    Scalar,
    field_definition,
    plain_number,
    scalar_reader,
    value_of,
)
from prototrt.caffe_proto.text.tokens import Token, TokenKind, Tokens

FieldPath = tuple[str, ...]
"""The names of the messages and of the field that lead to a value."""
_ReadOne = Callable[[Message, "FieldDefinition", Token, FieldPath], None]

_CLOSING = {"{": "}", "<": ">", "[": "]"}
_ENGINE = "engine"
"""The field for the library that computes a layer. Forks add values to it, and no result depends on them."""
_WITHOUT_EFFECT = (
    _ENGINE,
    "strict_dim",
    "forward_type",
    "backward_type",
    "forward_math",
    "backward_math",
    "cudnn_convolution_algo_seeker",
    "cudnn_math_override",
    "cudnn_enable_tensor_cores",
    "use_cudnn_rnn8_if_supported",
    "dropout_ratio",
    "dropout_seed",
    "conv_algos_override",
    "conv_algorithm",
)
"""Fields of forks that change no result.

DeepLab's ``strict_dim`` lets Caffe copy weights of another shape. The others choose the type that a layer
of NVIDIA's fork computes in, which is an option here, and the algorithm of cuDNN or of Intel's library. MyCaffe's
``dropout_ratio`` of a recurrent layer is for training.
"""
_LAYER_FIELDS = ("layer", "layers")
_DEEPEST = 100
"""Blocks within each other. Those of Caffe's messages are five deep."""
_MOST_FINDINGS = 10_000
MOST_LAYERS = 40_000
_MOST = {
    "layer": MOST_LAYERS,
    "layers": MOST_LAYERS,
    "input": 100_000,
    "op": 40_000,
    "bottom": 100_000,
    "top": 100_000,
}
"""How often a file may state a field. Published nets stay below a sixth of that. It bounds the work."""
_MEND = "correct the text here or just before, or get the file again if it is damaged"


@dataclass(frozen=True, slots=True)
class ParsedNet:
    """A net as its file states it, before any upgrade."""

    message: Message
    lines: dict[str, list[int]]  # for each field of the net: the lines at which it occurs in the file
    fork_types: dict[int, str]  # of V1 layers, by their index in the field: words that Caffe's enum lacks
    newer: dict[int, Message]  # of V1 layers: LayerParameters with what only these have fields for
    findings: tuple[Finding, ...]  # mistakes that matter only if the message around them is needed


def parse_net(text: str, file: str, message: Message | None = None) -> ParsedNet:
    """Read the text of a net. ``file`` is the name that messages use.

    A mistake inside one layer raises nothing, nor does an unknown field: the caller decides whether it
    matters. ``message`` is filled: by default a new NetParameter.
    """
    net = message_class("NetParameter")() if message is None else message
    reader = _Reader(Tokens(text, file))
    try:
        reader.read_fields(net, None, (), 0)
    except BrokenTextError as broken:
        reader.findings.append(broken.finding)
    if any(finding.hides_the_net for finding in reader.findings):
        raise_all([finding.error() for finding in reader.findings])
    return ParsedNet(net, reader.lines, reader.fork_types, reader.newer, tuple(reader.findings))


@dataclass(slots=True)
class _Reader:
    tokens: Tokens
    findings: list[Finding] = field(default_factory=list)
    lines: dict[str, list[int]] = field(default_factory=dict)
    fork_types: dict[int, str] = field(default_factory=dict)
    newer: dict[int, Message] = field(default_factory=dict)
    layer: OpenLayer | None = None
    left: dict[str, int] = field(default_factory=_MOST.copy)  # how often fields may still occur

    def read_fields(self, message: Message, closing: str | None, path: FieldPath, opened: int) -> None:
        """Read fields into ``message`` up to the closing sign, or to the end of the file if ``closing`` is None."""
        seen: dict[str, int] = {}
        while True:
            if path:
                self._read_plain_fields(message, seen, path)
            if self._closed(closing, path, opened):
                return
            name = self.tokens.take()
            if name.kind is not TokenKind.WORD:
                raise self._broken(name, path, f"found {name}, expected the name of a field")
            owner, definition = message, field_definition(message.DESCRIPTOR, name.text)
            if definition is None:
                owner = self._owner(message, name.text)
                definition = field_definition(owner.DESCRIPTOR, name.text)
            if definition is None:
                self._read_unknown(name, message.DESCRIPTOR, path, opened)
            else:
                first = seen.setdefault(definition.name, name.offset)
                before = getattr(owner, definition.name)
                self._read_defined(owner, definition, name, (*path, definition.name))
                is_second = first != name.offset and not definition.is_repeated
                if is_second and (definition.is_message or getattr(owner, definition.name) != before):
                    self._find_second(definition, name, path, first)
            self.tokens.take_if(",", ";")

    def _read_plain_fields(self, message: Message, seen: dict[str, int], path: FieldPath) -> None:
        """Read the next fields as long as they are plain and nothing is wrong with them. Nearly all are."""
        begin = place = self.tokens.ahead.offset
        descriptor = message.DESCRIPTOR
        while plain := self.tokens.plain_field(place):
            name, string, word = plain.groups()
            definition = field_definition(descriptor, name)
            if definition is None or (definition.name in seen and not definition.is_repeated):
                break
            value = string if definition.is_string else value_of(definition.descriptor, word)
            if value is None:
                break
            seen[definition.name] = place
            self._count(definition.name, place, path)
            definition.store(message, value)
            place = plain.end()
        if place != begin:
            self.tokens.go_to(place)

    def _count(self, name: str, offset: int, path: FieldPath) -> None:
        """Count a field whose number is limited. Raises ``BrokenTextError`` for one too many."""
        if name not in self.left:
            return
        self.left[name] -= 1
        if self.left[name] < 0:
            token = Token(TokenKind.WORD, name, offset)
            problem = f"the file states {name} more than {_MOST[name]:,} times"
            raise self._broken(
                token, path, problem, fix="split the net, or get the file again if it is damaged"
            )

    def _owner(self, message: Message, name: str) -> Message:
        """The message for a field that this one lacks: forks put new parameters into layers of the old form."""
        is_old = self.layer is not None and message.DESCRIPTOR.full_name == "caffe.V1LayerParameter"
        if self.layer is None or not is_old:
            return message
        newer = message_class("LayerParameter")
        return (
            self.newer.setdefault(self.layer.index, newer())
            if name in newer.DESCRIPTOR.fields_by_name
            else message
        )

    def _closed(self, closing: str | None, path: FieldPath, opened: int) -> bool:
        token = self.tokens.ahead
        if token.kind is TokenKind.WORD:  # the name of another field
            return False
        if closing and self.tokens.take_if(closing):
            return True
        if token.kind is TokenKind.END:
            if closing:
                raise self._cut_short(token, closing, path, opened)
            return True
        if closing is None and token.text in ("}", ">"):
            raise self._broken(
                token, path, f"{token} closes nothing", fix="remove it, or add what it should close"
            )
        return False

    def _find_second(self, definition: FieldDefinition, name: Token, path: FieldPath, first: int) -> None:
        self._find(
            name,
            path,
            f"{definition.name} is given a second time",
            because=f"line {self.tokens.line(first)} gives it first",
            fix="remove one of the two",
            field=definition.name,
        )

    def _read_defined(
        self, message: Message, definition: FieldDefinition, name: Token, path: FieldPath
    ) -> None:
        """Read one value; for a repeated field, it may be a list in brackets."""
        has_colon = self.tokens.take_if(":")
        if not (has_colon or definition.is_message):
            token = self.tokens.ahead
            raise self._broken(token, path, f"found {token}, expected : after {definition.name}")
        read = self._read_message if definition.is_message else self._read_value
        if definition.is_repeated and self.tokens.take_if("["):
            self._read_list(message, definition, name, path, read)
        else:
            self._note_line(name, path)
            read(message, definition, name, path)

    def _read_list(
        self, message: Message, definition: FieldDefinition, name: Token, path: FieldPath, read: _ReadOne
    ) -> None:
        if self.tokens.take_if("]"):
            return
        if definition.name not in _MOST and (numbers := self._plain_numbers(definition)):
            getattr(message, definition.name).extend(numbers)
            return
        while True:
            self._note_line(self.tokens.ahead, path)
            read(message, definition, name, path)
            if self.tokens.take_if("]"):
                return
            if not self.tokens.take_if(","):
                token = self.tokens.ahead
                raise self._broken(token, path, f"found {token}, expected , or ] in the list")

    def _plain_numbers(self, definition: FieldDefinition) -> list[Scalar] | None:
        """All values of a list, if they are plain numbers. To read them as tokens takes ten times as long."""
        begin = self.tokens.ahead.offset
        words = self.tokens.list_until(begin, "]")
        if definition.is_message or words is None:
            return None
        numbers = [
            plain_number(definition.descriptor, word.strip(" \t\r\n\v\f")) for word in words.split(",")
        ]
        if None in numbers:
            return None
        self.tokens.go_to(begin + len(words) + 1)
        return [number for number in numbers if number is not None]

    def _note_line(self, token: Token, path: FieldPath) -> None:
        self._count(path[-1], token.offset, path[:-1])
        if len(path) == 1:
            self.lines.setdefault(path[0], []).append(self.tokens.line(token.offset))

    def _read_message(
        self, message: Message, definition: FieldDefinition, name: Token, path: FieldPath
    ) -> None:
        opening = self.tokens.take()
        if opening.text not in ("{", "<"):
            raise self._broken(opening, path, f"found {opening}, expected {{ after {definition.name}")
        self._refuse_depth(len(path), opening, path)
        child = getattr(message, definition.name)
        if definition.is_repeated:
            child = child.add()
        else:
            child.SetInParent()
        if len(path) == 1 and definition.name in _LAYER_FIELDS:
            self.layer = OpenLayer(
                child,
                definition.name,
                len(getattr(message, definition.name)) - 1,
                self.lines[definition.name][-1],
            )
        self.read_fields(child, _CLOSING[opening.text], path, self.tokens.line(name.offset))
        self._check_required(child, name, path)
        if len(path) == 1:
            self.layer = None

    def _refuse_depth(self, depth: int, opening: Token, path: FieldPath) -> None:
        if depth > _DEEPEST:
            raise self._broken(opening, path[:1], f"there are more than {_DEEPEST} blocks within each other")

    def _check_required(self, message: Message, name: Token, path: FieldPath) -> None:
        for definition in required_fields(message.DESCRIPTOR):
            if not message.HasField(definition):
                self._find(
                    name,
                    path,
                    f"{definition} is missing",
                    fix=f"add {definition}: and its value",
                    field=definition,
                )

    def _read_value(
        self, message: Message, definition: FieldDefinition, name: Token, path: FieldPath
    ) -> None:
        token = self.tokens.ahead
        if token.kind is TokenKind.END or (token.kind is TokenKind.SIGN and token.text != "-"):
            raise self._broken(token, path[:-1], f"found {token}, expected a value for {definition.name}")
        if self._is_fork_type(definition.descriptor, token):
            self.tokens.take()
            return
        try:
            value = scalar_reader(definition.descriptor)(self.tokens)
        except BadValueError as bad:
            field = definition.descriptor
            if definition.name == _ENGINE:
                return
            problem = f"{definition.name} is {bad.actual}, expected {bad.expected}"
            fix = bad.fix or fix_of_value(field, token)
            self._find(token, path[:-1], problem, fix=fix, field=definition.name)
            return
        definition.store(message, value)

    def _is_fork_type(self, definition: FieldDescriptor, token: Token) -> bool:
        """Whether this is a V1 type of a fork, rather than a misspelt one of Caffe's; if so it is kept."""
        if self.layer is None or definition.full_name != "caffe.V1LayerParameter.type":
            return False
        enum: Message = definition.enum_type
        names = enum.values_by_name
        if token.kind is not TokenKind.WORD or token.text in names or close_names(token.text, names):
            return False
        self.fork_types[self.layer.index] = token.text
        return True

    def _read_unknown(self, name: Token, descriptor: Descriptor, path: FieldPath, opened: int) -> None:
        if path and name.text in _LAYER_FIELDS and self.tokens.ahead.text in ("{", "<"):
            because = f"{path[-1]} was opened at line {opened}"
            problem = f"a new {name.text} begins here, expected }}"
            raise self._broken(name, path, problem, because=because, fix="add the missing }")
        if path and name.text in _WITHOUT_EFFECT:
            self._skip_value((*path, name.text))
            return
        finding = self._finding(name, path, f'there is no field "{name.text}"')
        finding.field, finding.is_unknown = name.text, True
        self._keep(finding)
        begin = self.tokens.ahead
        try:
            self._skip_value((*path, name.text))
        finally:
            finding.value = self.tokens.since(begin)
            explain_unknown(finding, name.text, descriptor)

    def _skip_value(self, path: FieldPath) -> None:
        """Skip the value of an unknown field: a scalar, or a block up to its closing sign."""
        colon = self.tokens.take_if(":")
        token = self.tokens.ahead
        if token.text in _CLOSING:
            self._skip_block(path)
        elif colon and (token.kind not in (TokenKind.SIGN, TokenKind.END) or token.text == "-"):
            self._skip_scalar()
        else:
            raise self._broken(token, path[:-1], f"found {token}, expected a value for {path[-1]}")

    def _skip_block(self, path: FieldPath) -> None:
        opening = self.tokens.ahead
        awaited: list[str] = []
        while True:
            token = self.tokens.take()
            if token.kind is TokenKind.END:
                raise self._cut_short(token, awaited[-1], path, self.tokens.line(opening.offset))
            if token.text in _CLOSING:
                awaited.append(_CLOSING[token.text])
                self._refuse_depth(len(path) + len(awaited), token, path)
            elif token.text in ("}", ">", "]"):
                if token.text != awaited.pop():
                    raise self._broken(token, path, f"found {token}, but nothing is open")
                if not awaited:
                    return

    def _skip_scalar(self) -> None:
        self.tokens.take_if("-")
        token = self.tokens.take()
        while token.kind is TokenKind.STRING and self.tokens.ahead.kind is TokenKind.STRING:
            self.tokens.take()

    def _cut_short(self, token: Token, closing: str, path: FieldPath, opened: int) -> BrokenTextError:
        return self._broken(
            token,
            path,
            f"the file ends here, expected {closing}",
            because=f"{path[-1]} was opened at line {opened}",
            fix=f"add the missing {closing}, or get the file again if it was cut short",
        )

    def _find(
        self,
        token: Token,
        path: FieldPath,
        problem: str,
        *,
        because: str | None = None,
        fix: str | None = None,
        field: str,
    ) -> None:
        finding = self._finding(token, path, problem, because, fix)
        finding.field = field
        self._keep(finding)

    def _keep(self, finding: Finding) -> None:
        """Collect a mistake. Raises ``BrokenTextError`` for one too many."""
        self.findings.append(finding)
        if len(self.findings) > _MOST_FINDINGS:
            finding.problem = (
                f"{finding.problem}; it is one of more than {_MOST_FINDINGS:,} mistakes in the file"
            )
            finding.fix, finding.is_broken, finding.family = _MEND, True, UnreadableFileError
            raise BrokenTextError(self.findings.pop())

    def _finding(
        self, token: Token, path: FieldPath, problem: str, because: str | None = None, fix: str | None = None
    ) -> Finding:
        return Finding(
            self.tokens.file, self.tokens.line(token.offset), self.layer, path, problem, because, fix
        )

    def _broken(
        self, token: Token, path: FieldPath, problem: str, because: str | None = None, fix: str | None = None
    ) -> BrokenTextError:
        finding = self._finding(token, path, problem, because, fix or _MEND)
        finding.family = UnreadableFileError
        finding.is_broken = True
        return BrokenTextError(finding)

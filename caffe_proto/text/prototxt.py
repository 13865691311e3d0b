"""Protobuf text -> a NetParameter, with the line of each of its layers and inputs.

protobuf's own text reader stops at the first unknown field, and reports neither layers nor lines. This one
accepts what Caffe's (C++) reader accepts, collects every mistake that leaves the structure readable, and
remembers where the layers are.
"""

from __future__ import annotations

import dataclasses

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.errors import UnreadableFileError, raise_all
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.schema import Message, message_class, required_fields
from prototrt.caffe_proto.text.fields import CLOSING, BrokenTextError, FieldPath, Fields, TextField
from prototrt.caffe_proto.text.findings import Finding, OpenLayer
from prototrt.caffe_proto.text.fixes import explain_unknown, fix_of_value
from prototrt.caffe_proto.text.scalars import (
    BadValueError,
    FieldDefinition,
    field_definition,
    scalar,
    string,
)

_ENGINE = "engine"
"""The field for the library that computes a layer. Forks add values to it, and no result depends on them."""
_WITHOUT_EFFECT = (
    *(_ENGINE, "strict_dim", "forward_type", "backward_type", "forward_math", "backward_math"),
    *("cudnn_convolution_algo_seeker", "cudnn_math_override", "cudnn_enable_tensor_cores"),
    *(
        "use_cudnn_rnn8_if_supported",
        "dropout_ratio",
        "dropout_seed",
        "conv_algos_override",
        "conv_algorithm",
    ),
)
"""Fields of forks that change no result.

DeepLab's ``strict_dim`` lets Caffe copy weights of another shape. The others choose the type that a layer
of NVIDIA's fork computes in, which is an option here, and the algorithm of cuDNN or of Intel's library. MyCaffe's
``dropout_ratio`` of a recurrent layer is for training.
"""
_LAYER_FIELDS = ("layer", "layers")
_LONGEST_KEPT = 1 << 15
"""Characters of the value of an unknown field, for rules of users."""
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
    reader = _Reader(Fields(text, file))
    try:
        reader.read_fields(net, None, ())
    except BrokenTextError as broken:
        reader.findings.append(reader.finding_of(broken))
    if any(finding.hides_the_net for finding in reader.findings):
        raise_all([finding.error() for finding in reader.findings])
    return ParsedNet(net, reader.lines, reader.fork_types, reader.newer, tuple(reader.findings))


@dataclass(slots=True)
class _Reader:
    text: Fields
    findings: list[Finding] = dataclasses.field(default_factory=list)
    lines: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    fork_types: dict[int, str] = dataclasses.field(default_factory=dict)
    newer: dict[int, Message] = dataclasses.field(default_factory=dict)
    layer: OpenLayer | None = None
    left: dict[str, int] = dataclasses.field(default_factory=_MOST.copy)  # how often fields may still occur

    def read_fields(self, message: Message, block: TextField | None, path: FieldPath) -> None:
        """Read the fields of a block that was opened, or of the file, into ``message``."""
        first: dict[str, TextField] = {}
        for field in self.text.fields(path, block):
            owner, definition = message, field_definition(message.DESCRIPTOR, field.name)
            if definition is None:
                owner, definition = self._later_definition(message, field.name)
            if definition is None:
                self._read_unknown(field, message.DESCRIPTOR, path, block)
                continue
            name = definition.name
            is_second = first.setdefault(name, field) is not field and not definition.is_repeated
            before = getattr(owner, name) if is_second else None
            self._read_defined(owner, definition, field, (*path, name))
            if is_second and (definition.is_message or getattr(owner, name) != before):
                self._find_second(field, path, name, first[name])

    def _later_definition(self, message: Message, name: str) -> tuple[Message, FieldDefinition | None]:
        """A field that the old form of a layer lacks, and the message for it: forks put new parameters there."""
        newer = message_class("LayerParameter")
        is_old = message.DESCRIPTOR.full_name == "caffe.V1LayerParameter"
        if self.layer is None or not is_old or name not in newer.DESCRIPTOR.fields_by_name:
            return message, None
        owner = self.newer.setdefault(self.layer.index, newer())
        return owner, field_definition(newer.DESCRIPTOR, name)

    def _count(self, name: str, offset: int, path: FieldPath) -> None:
        self.left[name] -= 1
        if self.left[name] < 0:
            problem = f"the file states {name} more than {_MOST[name]:,} times"
            fix = "split the net, or get the file again if it is damaged"
            raise self.text.error_at(offset, path, problem, fix=fix)

    def _find_second(self, field: TextField, path: FieldPath, name: str, first: TextField) -> None:
        self._find(
            field.offset,
            path,
            name,
            f"{name} is given a second time",
            because=f"line {self.text.line(first.offset)} gives it first",
            fix="remove one of the two",
        )

    def _read_defined(
        self, message: Message, definition: FieldDefinition, field: TextField, path: FieldPath
    ) -> None:
        """Read one value; for a repeated field, it may be a list in brackets."""
        if not (field.has_colon or definition.is_message):
            problem = f"found {{}}, expected : after {definition.name}"
            raise self.text.error_at(field.value_offset, path, problem)
        read = self._read_message if definition.is_message else self._read_value
        if field.value == "[" and definition.is_repeated:
            for element in self.text.elements(field, path):
                self._note_line(element.value_offset, path)
                read(message, definition, element, path)
        else:
            self._note_line(field.offset, path)
            read(message, definition, field, path)

    def _note_line(self, offset: int, path: FieldPath) -> None:
        if path[-1] in _MOST:
            self._count(path[-1], offset, path[:-1])
        if len(path) == 1:
            self.lines.setdefault(path[0], []).append(self.text.line(offset))

    def _read_message(
        self, message: Message, definition: FieldDefinition, field: TextField, path: FieldPath
    ) -> None:
        if field.value not in ("{", "<"):
            problem = f"found {{}}, expected {{ after {definition.name}"
            raise self.text.error_at(field.value_offset, path, problem)
        self.text.refuse_depth(len(path), field.value_offset, path)
        child = getattr(message, definition.name)
        if definition.is_repeated:
            child = child.add()
        else:
            child.SetInParent()
        if len(path) == 1 and definition.name in _LAYER_FIELDS:
            index = len(getattr(message, definition.name)) - 1
            self.layer = OpenLayer(child, definition.name, index, self.lines[definition.name][-1])
        self.read_fields(child, field, path)
        for name in required_fields(child.DESCRIPTOR):
            if not child.HasField(name):
                self._find(field.offset, path, name, f"{name} is missing", fix=f"add {name}: and its value")
        if len(path) == 1:
            self.layer = None

    def _read_value(
        self, message: Message, definition: FieldDefinition, field: TextField, path: FieldPath
    ) -> None:
        if not field.value or field.value in CLOSING:
            problem = f"found {{}}, expected a value for {definition.name}"
            raise self.text.error_at(field.value_offset, path[:-1], problem)
        if definition.name == "type" and self._is_fork_type(definition.descriptor, field.value):
            return
        try:
            is_string = definition.is_string
            value = string(field.value) if is_string else scalar(definition.descriptor, field.value)
        except BadValueError as bad:
            if definition.name != _ENGINE:
                problem = f"{definition.name} is {bad.actual}, expected {bad.expected}"
                fix = fix_of_value(definition.descriptor, field.value, bad.fix)
                self._find(field.value_offset, path[:-1], definition.name, problem, fix=fix)
            return
        definition.store(message, value)

    def _is_fork_type(self, definition: FieldDescriptor, word: str) -> bool:
        """Whether this is a V1 type of a fork, rather than a misspelt one of Caffe's; if so it is kept."""
        if self.layer is None or definition.full_name != "caffe.V1LayerParameter.type":
            return False
        enum: Message = definition.enum_type
        names = enum.values_by_name
        if not word.isidentifier() or word in names or close_names(word, names):
            return False
        self.fork_types[self.layer.index] = word
        return True

    def _read_unknown(
        self, field: TextField, descriptor: Descriptor, path: FieldPath, block: TextField | None
    ) -> None:
        if block and field.name in _LAYER_FIELDS and field.value in ("{", "<") and not field.has_colon:
            raise self.text.error_at(
                field.offset,
                path,
                f"a new {field.name} begins here, expected }}",
                because=f"{path[-1]} was opened at line {self.text.line(block.offset)}",
                fix="add the missing }",
            )
        if path and field.name in _WITHOUT_EFFECT:
            self._skip_value(field, path)
            return
        finding = self._finding(field.offset, path, f'there is no field "{field.name}"')
        finding.field, finding.is_unknown = field.name, True
        self._keep(finding)
        try:
            self._skip_value(field, path)
        finally:
            is_block = field.value in CLOSING
            value = self.text.text[field.value_offset : self.text.place] if is_block else field.value
            finding.value = value if len(value) < _LONGEST_KEPT else ""
            explain_unknown(finding, field.name, descriptor)

    def _skip_value(self, field: TextField, path: FieldPath) -> None:
        if field.value in CLOSING:
            self.text.skip(field, (*path, field.name))
        elif not (field.value and field.has_colon):
            problem = f"found {{}}, expected a value for {field.name}"
            raise self.text.error_at(field.value_offset, path, problem)

    def _find(
        self,
        offset: int,
        path: FieldPath,
        name: str,
        problem: str,
        *,
        because: str | None = None,
        fix: str | None = None,
    ) -> None:
        finding = self._finding(offset, path, problem, because, fix)
        finding.field = name
        self._keep(finding)

    def _keep(self, finding: Finding) -> None:
        if len(self.findings) == _MOST_FINDINGS:
            problem = f"{finding.problem}; it is one of more than {_MOST_FINDINGS:,} mistakes in the file"
            raise BrokenTextError(finding.line, finding.path, problem)
        self.findings.append(finding)

    def _finding(
        self, offset: int, path: FieldPath, problem: str, because: str | None = None, fix: str | None = None
    ) -> Finding:
        return Finding(self.text.file, self.text.line(offset), self.layer, path, problem, because, fix)

    def finding_of(self, broken: BrokenTextError) -> Finding:
        return Finding(
            self.text.file,
            broken.line,
            self.layer,
            broken.path,
            broken.problem,
            broken.because,
            broken.fix or _MEND,
            UnreadableFileError,
            is_broken=True,
        )

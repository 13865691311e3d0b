"""Fields of layers, set from outside the file: ``lstm*.recurrent_param.cell_activation=ReLU``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto.common.errors import ConversionError, NetError, UnreadableFileError
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.options import FieldValue
from prototrt.caffe_proto.schema import Message, is_read_by, is_repeated, message_class, parameter_fields
from prototrt.caffe_proto.text.fields import BrokenTextError, Fields
from prototrt.caffe_proto.text.scalars import BadValueError, Scalar, scalar
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


def override(entries: Sequence[LayerEntry], overrides: Mapping[str, FieldValue], file: str) -> None:
    """Set fields of layers.

    A key is ``LAYER.FIELD`` or ``LAYER.MESSAGE.FIELD``; in the layer's name ``*``, ``?`` and ``[...]``
    match as in a shell. Only matching layers whose type reads the message are changed; types are set first.
    Raises ``NetError`` for names that the net or Caffe's messages lack, and for a message
    that no layer of this name reads.
    """
    resolved = []
    for key, value in overrides.items():
        where = f'{file}: override "{key}={_value_text(value)}"'
        resolved.append((*_resolve(key, where), value, where))
    for pattern, fields, value, where in sorted(resolved, key=lambda one: one[1][0].name != "type"):
        values = _values(fields[-1], value, where)
        for entry in _select(entries, pattern, fields[0].name, where):
            _refuse_lists(entry.message, fields[:-1], where)
            _set(entry.message, fields, values)


def _select(entries: Sequence[LayerEntry], pattern: str, field: str, where: str) -> Sequence[LayerEntry]:
    named = [entry for entry in entries if _is_named(entry.message.name, pattern)]
    if not named:
        names = [entry.message.name for entry in entries]
        raise NetError(f'no layer is called "{pattern}"', where=where, fix=f"use {choices(pattern, names)}")
    reading = [entry for entry in named if is_read_by(entry.message.type, field)]
    if not reading:
        types = dict.fromkeys(entry.message.type for entry in named)
        read = {kind: " and ".join(parameter_fields(kind)) or "no parameters" for kind in types}
        raise NetError(
            f'no layer called "{pattern}" reads "{field}"',
            where=where,
            because=", ".join(f"{kind} reads {fields}" for kind, fields in read.items()),
            fix=_other_messages(types),
        )
    return reading


def _other_messages(types: Iterable[str]) -> str | None:
    """Advice: the messages that these types read. None if they read none."""
    messages = dict.fromkeys(field for kind in types for field in parameter_fields(kind))
    return f"set a field of {' or '.join(messages)}" if messages else None


def _is_named(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _resolve(key: str, where: str) -> tuple[str, list[FieldDescriptor]]:
    """The layers to change, and the fields from LayerParameter inwards. Names of layers may contain dots."""
    parts = key.split(".")
    problem: ConversionError | None = None
    for place in range(1, len(parts)):
        try:
            return ".".join(parts[:place]), _fields(parts[place:], where)
        except NetError as error:
            # The innermost error is the most helpful: there, the message was found.
            if problem is None or parts[place] in message_class("LayerParameter").DESCRIPTOR.fields_by_name:
                problem = error
    raise problem or NetError(
        "is not a field of a layer", where=where, fix="write LAYER.FIELD=VALUE or LAYER.MESSAGE.FIELD=VALUE"
    )


def _fields(names: Sequence[str], where: str) -> list[FieldDescriptor]:
    descriptor, path = message_class("LayerParameter").DESCRIPTOR, []
    for place, name in enumerate(names):
        field = descriptor.fields_by_name.get(name)
        if field is None:
            candidates = choices(name, descriptor.fields_by_name)
            raise NetError(f'{descriptor.name} has no field "{name}"', where=where, fix=f"use {candidates}")
        inner = field.message_type
        is_last = place == len(names) - 1
        if is_last != (inner is None):
            raise NetError(
                f'"{name}" is {"a message" if inner else "a value"}',
                where=where,
                fix=f"name one of its fields: {choices('', inner.fields_by_name)}"
                if inner
                else f'leave out ".{".".join(names[place + 1 :])}"',
            )
        path.append(field)
        descriptor = inner
    return path


def _values(field: FieldDescriptor, value: FieldValue, where: str) -> list[Scalar]:
    texts = [_text(value)] if isinstance(value, (str, bool, int, float)) else list(map(_text, value))
    if is_repeated(field) and isinstance(value, str) and not _is_quoted(value):
        texts = value.split(",") if value.strip() else []
    if not is_repeated(field) and len(texts) != 1:
        raise NetError(
            f'"{field.name}" has one value, found {len(texts)}',
            where=where,
            fix=_field_text(field, texts[0] if texts else _example(field)),
        )
    return [_value(field, text.strip(), where) for text in texts]


def _value(field: FieldDescriptor, text: str, where: str) -> Scalar:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not _is_quoted(text):
        return text
    try:
        if text and not _is_one_value(text):
            raise BadValueError("one value", text)
        return scalar(field, text)
    except BadValueError as error:
        raise NetError(
            f"{field.name} is {error.actual if text else 'nothing'}, expected {error.expected}",
            where=where,
            fix=error.fix or _field_text(field, _example(field)),
        ) from error


def _is_one_value(text: str) -> bool:
    try:
        return [field.value for field in Fields(f"_: {text}", "").fields(())] == [text]
    except (BrokenTextError, UnreadableFileError):
        return False


def _field_text(field: FieldDescriptor, value: str) -> str:
    return f'set it as in "{field.name}={value}"'


def _example(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values[0].name)
    return "true" if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else "1"


def _set(message: Message, fields: Sequence[FieldDescriptor], values: Sequence[Scalar]) -> None:
    *outer, last = fields
    for field in outer:
        message = _inner(message, field)
    message.ClearField(last.name)
    if is_repeated(last):
        getattr(message, last.name).extend(values)
    else:
        setattr(message, last.name, values[0])
    message.SetInParent()


def _refuse_lists(layer: Message, fields: Sequence[FieldDescriptor], where: str) -> None:
    """Raise ``NetError`` where it is not clear in which message of several the field is to be set."""
    message = layer
    for field in fields:
        if is_repeated(field) and (count := len(getattr(message, field.name))) > 1:
            raise NetError(
                f'layer "{layer.name}" has {count} of "{field.name}", expected one',
                where=where,
                fix="change the file instead",
            )
        message = _inner(message, field)


def _inner(message: Message, field: FieldDescriptor) -> Message:
    """The message in this field; of a repeated field the first one, which is made if there is none."""
    inner: Any = getattr(message, field.name)
    if is_repeated(field):
        return inner[0] if inner else inner.add()
    return inner


def _text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value_text(value: FieldValue) -> str:
    if isinstance(value, (str, bool, int, float)):
        return _text(value)
    return ",".join(map(_text, value))


def _is_quoted(text: str) -> bool:
    return text.strip()[:1] in ("'", '"')

"""What a layer says of itself: the fields of its parameters, and those that fit into a box of a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import shortened
from prototrt.caffe_proto.schema import Message, is_repeated, parameter_field, parameter_fields
from prototrt.caffe_proto.text.scalars import text_from_bytes

_ELSEWHERE = ("name", "type", "bottom", "top", "blobs")
"""Fields of any layer that a picture shows in other ways."""
_WITHOUT_EFFECT = ("engine", "use_cudnn", "cudnn_exhaustive_search")
"""Fields that say which library computes a layer."""
_MOST_SHOWN = 16


@dataclass(frozen=True, slots=True)
class LayerField:
    """A field by its path, as in ``weight_filler.type``, and its value as a prototxt has it.

    ``text`` is empty for a field that has neither a value nor a default. A default is not stated.
    """

    name: str
    text: str
    is_explicit: bool


def fields_of(layer: Layer) -> list[LayerField]:
    """The parameters of the layer's type, defaults among them, and what else the layer states.

    An operator of Caffe2 has its arguments; its schema knows no defaults.
    """
    if isinstance(layer, Operator):
        return [LayerField(each.name, _argument(each), True) for each in layer.message.arg]
    own, usual = parameter_fields(layer.type), parameter_field(layer.type)
    shown = {each: value for each, value in layer.message.ListFields() if each.name not in _ELSEWHERE}
    if usual is not None:
        shown.setdefault(layer.message.DESCRIPTOR.fields_by_name[usual], getattr(layer.message, usual))
    fields: list[LayerField] = []
    others: list[LayerField] = []
    for descriptor in sorted(shown, key=lambda descriptor: descriptor.index):
        if descriptor.name in own and not is_repeated(descriptor):
            fields += _of_message(shown[descriptor])
        else:
            others += _of_field(descriptor, shown[descriptor])
    return [*fields, *others]


def settings_of(layer: Layer) -> list[str]:
    """The stated parameters that change what the layer computes, as in ``kernel_size 3``.

    Fillers, which only training reads, are left out, and messages with several fields.
    """
    if isinstance(layer, Operator):
        arguments = (each for each in layer.message.arg if each.name not in _WITHOUT_EFFECT)
        return [
            f"{each.name} {_argument(each)}"
            for each in arguments
            if not each.strings and not each.HasField("n")
        ]
    usual = parameter_field(layer.type)
    return [] if usual is None else list(_settings(getattr(layer.message, usual)))


def _settings(param: Message) -> Iterator[str]:
    for descriptor, value in param.ListFields():
        if descriptor.name in _WITHOUT_EFFECT:
            continue
        if descriptor.message_type is None:
            yield f"{descriptor.name} {_text(descriptor, value)}"
        elif descriptor.message_type.name != "FillerParameter" and not is_repeated(descriptor):
            inner = [each for each in _of_message(value) if each.is_explicit]
            if len(inner) == 1:
                yield f"{descriptor.name} {inner[0].text}"


def _of_message(message: Message) -> Iterator[LayerField]:
    values = dict(message.ListFields())
    for descriptor, default in _defaults(message.DESCRIPTOR):
        if descriptor in values:
            yield from _of_field(descriptor, values[descriptor])
        else:
            yield default


@cache
def _defaults(message: Descriptor) -> list[tuple[FieldDescriptor, LayerField]]:
    """Each field of a message, with what there is to say of it where it is not stated."""
    return [
        (
            each,
            LayerField(each.name, _text(each, each.default_value) if each.has_default_value else "", False),
        )
        for each in message.fields
    ]


def _of_field(descriptor: FieldDescriptor, value: Any) -> Iterator[LayerField]:
    """A field that is stated."""
    if descriptor.message_type is None:
        yield LayerField(descriptor.name, _text(descriptor, value), True)
    elif is_repeated(descriptor):
        for position, each in enumerate(value):
            yield from _below(f"{descriptor.name}[{position}]", each)
    else:
        yield from _below(descriptor.name, value)


def _below(path: str, message: Message) -> Iterator[LayerField]:
    """The fields of a message in a message. Its defaults would outnumber all others."""
    for each in _of_message(message):
        if each.is_explicit:
            yield LayerField(f"{path}.{each.name}", each.text, True)


def _text(descriptor: FieldDescriptor, value: Any) -> str:
    texts = [_scalar(descriptor, each) for each in (value if is_repeated(descriptor) else [value])]
    return texts[0] if len(texts) == 1 else _list(texts)


def _scalar(descriptor: FieldDescriptor, value: Any) -> str:
    if descriptor.enum_type is not None:
        named = descriptor.enum_type.values_by_number.get(value)
        return str(named.name) if named else str(value)
    return _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"  # the digits of float32
    text = text_from_bytes(value) if isinstance(value, bytes) else str(value)
    return shortened(text)


def _list(texts: Sequence[str]) -> str:
    more = f", ... ({len(texts)} in all)" if len(texts) > _MOST_SHOWN else ""
    return f"[{', '.join(texts[:_MOST_SHOWN])}{more}]"


def _argument(argument: Message) -> str:
    """The value of an argument of Caffe2: one of several fields holds it."""
    for descriptor, value in argument.ListFields():
        if descriptor.name == "name":
            continue
        if descriptor.message_type is not None:
            return f"a {descriptor.message_type.name}"
        return _list(list(map(_value_text, value))) if is_repeated(descriptor) else _value_text(value)
    return "[]"

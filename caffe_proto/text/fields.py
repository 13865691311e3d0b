"""The fields of Caffe's messages, as the reader of texts asks for them. Nets repeat a few, so answers are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.scalars import BadValueError, Scalar, plain_number, scalar_reader
from prototrt.caffe_proto.text.tokens import TokenKind, Tokens

_OTHER_NAMES = {("ConvolutionParameter", "hole"): "dilation"}
"""Fields of forks that Caffe adopted under another name: DeepLab's ``hole`` is Caffe's ``dilation``."""


@dataclass(frozen=True, slots=True)
class FieldDefinition:
    """What the reader asks of a field. Descriptors are slow to answer, and nets repeat a few fields."""

    descriptor: FieldDescriptor
    name: str
    is_repeated: bool
    is_message: bool
    is_string: bool

    def store(self, message: Message, value: Scalar) -> None:
        """Put a value into the field of a message; append it if the field is repeated."""
        if self.is_repeated:
            getattr(message, self.name).append(value)
        else:
            setattr(message, self.name, value)


@lru_cache(maxsize=1024)
def field_definition(descriptor: Descriptor, name: str) -> FieldDefinition | None:
    """The field of that name in Caffe, or of the name that a fork gives it."""
    field = descriptor.fields_by_name.get(_OTHER_NAMES.get((str(descriptor.name), name), name))
    if field is None:
        return None
    return FieldDefinition(
        field,
        field.name,
        is_repeated(field),
        is_message=field.message_type is not None,
        is_string=field.type == FieldDescriptor.TYPE_STRING,
    )


@lru_cache(maxsize=4096)
def value_of(field: FieldDescriptor, word: str | None) -> Scalar | None:
    """The value for which a word or a number stands; None if it does not suit the field. Nets repeat a few."""
    if word is None or field.message_type is not None:
        return None
    if (number := plain_number(field, word)) is not None:
        return number
    if field.enum_type is not None and word not in field.enum_type.values_by_name:
        return None
    try:
        tokens = Tokens(word, "")
        value = scalar_reader(field)(tokens)
    except (BadValueError, UnreadableFileError):
        return None
    return value if tokens.ahead.kind is TokenKind.END else None

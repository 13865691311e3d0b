"""Caffe's messages, loaded without conflicts with another ``caffe.proto`` in the same process.

See docs/decisions.md, 0001.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import message
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.internal import api_implementation

from prototrt.caffe_proto.common.wire import fields
from prototrt.caffe_proto.layer_types import LAYER_TYPES
from prototrt.caffe_proto.layer_types import layer_type as facts_of

# The fields of these messages exist only at run time, so there is nothing that a type checker could know.
Message: TypeAlias = Any

_DESCRIPTORS = Path(__file__).with_name("caffe.binpb")
_OF_ANY_LAYER = ("transform_param", "loss_param")
_IN_C: Any = getattr(api_implementation, "_c_module", None)
"""Protobuf's messages in C, if they are. Its modules for pools and classes would import all that it has in Python, and
make the classes of all messages."""


@cache
def private_pool(descriptors: Path) -> Any:
    """A pool with only the descriptors that ``make proto`` made from a .proto file."""
    files, pool = descriptors.read_bytes(), _IN_C.DescriptorPool() if _IN_C else _pool_in_python()
    for file in fields(files, 0, len(files)):  # the one field of a FileDescriptorSet
        pool.AddSerializedFile(files[file.start : file.end])
    return pool


def _pool_in_python() -> Any:
    from google.protobuf.descriptor_pool import DescriptorPool

    return DescriptorPool()


def class_of(name: str, descriptors: Path) -> Message:
    """The class of a message, as in ``class_of("caffe2.NetDef", path)``, by such a file."""
    descriptor = private_pool(descriptors).FindMessageTypeByName(name)
    if _IN_C:
        facts = {"DESCRIPTOR": descriptor, "__module__": None}
        return _IN_C.MessageMeta(descriptor.name, (message.Message,), facts)
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


@cache
def message_class(name: str) -> Message:
    """The class of a message of caffe.proto, as in ``message_class("NetParameter")``."""
    return class_of(f"caffe.{name}", _DESCRIPTORS)


def enum_name(enum: str, number: int) -> str | None:
    """The word for a number of an enum, as in ``enum_name("V1LayerParameter.LayerType", 4)``."""
    value = private_pool(_DESCRIPTORS).FindEnumTypeByName(f"caffe.{enum}").values_by_number.get(number)
    return value.name if value else None


@cache
def is_repeated(field: FieldDescriptor) -> bool:
    return _has_label(field, "repeated", 3)


@cache
def required_fields(descriptor: Descriptor) -> tuple[str, ...]:
    """The names of the fields without which a message is not complete."""
    return tuple(field.name for field in descriptor.fields if _has_label(field, "required", 2))


def _has_label(field: Message, word: str, number: int) -> bool:
    """Protobuf 6 gave labels their words, and protobuf 7 no longer knows their numbers."""
    is_label = getattr(field, f"is_{word}", None)
    return bool(field.label == number if is_label is None else is_label)


@cache
def parameter_fields(layer_type: str) -> tuple[str, ...]:
    """The fields of LayerParameter with the parameters of a type: ``("relu_param",)`` for ``"ReLU"``."""
    if fields := facts_of(layer_type).parameters:
        return fields
    return _fields_without_underscores().get(layer_type.lower() + "param", ())


@cache
def _fields_without_underscores() -> dict[str, tuple[str, ...]]:
    fields: dict[str, tuple[str, ...]] = {}
    for field in message_class("LayerParameter").DESCRIPTOR.fields:
        squashed = field.name.replace("_", "")
        fields[squashed] = (*fields.get(squashed, ()), field.name)
    return fields


def parameter_field(layer_type: str) -> str | None:
    """The usual one of these fields, if the type has parameters."""
    return next(iter(parameter_fields(layer_type)), None)


def is_layer_type(layer_type: str) -> bool:
    """Whether Caffe, or a fork whose messages are known, has a layer of this type."""
    return layer_type in LAYER_TYPES or bool(parameter_fields(layer_type))


@cache
def is_read_by(layer_type: str, field: str) -> bool:
    """Whether a layer of this type reads a field of LayerParameter. Fields that are not parameters are for all."""
    return not field.endswith("_param") or field in (*parameter_fields(layer_type), *_OF_ANY_LAYER)

"""Changes to protobuf messages that keep them messages: what a fuzzer of bytes hardly ever finds.

The descriptors say which fields there are. Numbers are small, so that most of what is made fits together,
and sometimes large or negative, so that checks are reached, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto.schema import Message, is_repeated

_SMALL = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6)
_LARGE = (7, 16, 99, 1 << 16, (1 << 31) - 1)
_NEGATIVE = (-1, -1, -2, -9)
_FLOATS = (0.0, 0.5, 1.0, 1.0, 2.0, -1.0, 0.1, 1e-5, 3e38, float("inf"), float("nan"))
_TEXTS = ("", "x", "constant", "bilinear", "xavier", "h")
_DEEPEST = 3


def fill(message: Message, random: Random, most: int = 4, depth: int = 0) -> None:
    """Set up to ``most`` fields to something."""
    fields = [field for field in message.DESCRIPTOR.fields if field.message_type is None or depth < _DEEPEST]
    for field in random.sample(fields, min(len(fields), random.randint(0, most))):
        if not is_repeated(field):
            _set(message, field, random, depth)
            continue
        for _ in range(random.randint(1, 3)):
            _append(message, field, random, depth)


def mutate(message: Message, random: Random) -> None:
    """Change one thing somewhere in it: a field, an element of a list, or something within either."""
    present = [field for field, _ in message.ListFields()]
    if not present or random.random() < 0.2:
        fill(message, random, most=1)
        return
    field = random.choice(present)
    if is_repeated(field):
        _mutate_list(message, field, random)
    elif random.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None:
        mutate(getattr(message, field.name), random)
    else:
        _set(message, field, random, _DEEPEST)


def _mutate_list(message: Message, field: FieldDescriptor, random: Random) -> None:
    """Remove, repeat, swap, add or change an element."""
    elements = getattr(message, field.name)
    place, other = random.randrange(len(elements)), random.randrange(len(elements))
    action = random.choice(("remove", "repeat", "swap", "add", "change", "change", "change"))
    if action == "remove":
        del elements[place]
    elif action == "repeat":
        elements.append(elements[place])
    elif action == "add":
        _append(message, field, random, 0)
    elif field.message_type is not None:
        if action == "change":
            mutate(elements[place], random)
        else:
            copy = type(elements[place])()
            copy.CopyFrom(elements[place])
            elements[place].CopyFrom(elements[other])
            elements[other].CopyFrom(copy)
    elif action == "change":
        elements[place] = scalar(field, random)
    else:
        elements[place], elements[other] = elements[other], elements[place]


def _set(message: Message, field: FieldDescriptor, random: Random, depth: int) -> None:
    if field.message_type is not None:
        child = getattr(message, field.name)
        child.SetInParent()
        fill(child, random, depth=depth + 1)
    else:
        setattr(message, field.name, scalar(field, random))


def _append(message: Message, field: FieldDescriptor, random: Random, depth: int) -> None:
    elements = getattr(message, field.name)
    if field.message_type is not None:
        fill(elements.add(), random, depth=depth + 1)
    else:
        elements.append(scalar(field, random))


def scalar(field: FieldDescriptor, random: Random) -> Any:
    """Something that the field can hold."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice([value.number for value in _enum(field).values])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = random.choice(_TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return random.choice(_FLOATS)
    signed = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
    return random.choice(_often(random, _SMALL, _LARGE + (_NEGATIVE if signed else ())))


def _often(random: Random, usual: Sequence[int], odd: Sequence[int]) -> Sequence[int]:
    return usual if random.random() < 0.9 else odd


def _enum(field: FieldDescriptor) -> Message:
    return field.enum_type

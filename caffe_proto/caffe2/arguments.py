"""The arguments of one operator, read by name and kind."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.text.scalars import text_from_bytes

_LISTS = ("floats", "ints", "strings", "nets", "tensors")
_WORDS = {"f": "a number", "i": "a whole number", "s": "a text", "n": "a net", "t": "a tensor"}


class Arguments:
    """The arguments of an operator. Each getter takes a default for an argument that is not stated.

    An argument holds one number, text or net, or a list of them; an empty list has no
    payload at all, only a name. Raises ``NetError`` for one of another kind.
    """

    def __init__(self, operator: Message) -> None:
        self._arguments = {argument.name: argument for argument in operator.arg}

    def has(self, name: str) -> bool:
        return name in self._arguments

    def integer(self, name: str, default: int) -> int:
        return int(self._single(name, "i", default))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.integer(name, int(default)))

    def number(self, name: str, default: float) -> float:
        return float(self._single(name, "f", default))

    def text(self, name: str, default: str) -> str:
        text = self._single(name, "s", default)
        return text_from_bytes(text) if isinstance(text, bytes) else str(text)

    def is_text(self, name: str) -> bool:
        return self.has(name) and bool(self._arguments[name].HasField("s"))

    def is_integer(self, name: str) -> bool:
        return self.has(name) and bool(self._arguments[name].HasField("i"))

    def net(self, name: str) -> Message | None:
        return self._single(name, "n", None)

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self._list(name, "ints"))

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(float(value) for value in self._list(name, "floats"))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(text_from_bytes(value) for value in self._list(name, "strings"))

    def _single(self, name: str, field: str, default: object) -> Message:
        argument = self._arguments.get(name)
        if argument is None:
            return default
        if not argument.HasField(field):
            raise _other_kind(argument, _WORDS[field])
        return getattr(argument, field)

    def _list(self, name: str, field: str) -> Sequence[Message]:
        argument = self._arguments.get(name)
        if argument is None:
            return ()
        if any(len(getattr(argument, other)) for other in _LISTS if other != field) or any(
            argument.HasField(single) for single in _WORDS
        ):
            raise _other_kind(argument, f"a list ({field})")
        return tuple(getattr(argument, field))


def _other_kind(argument: Message, expected: str) -> NetError:
    held = [word for field, word in _WORDS.items() if argument.HasField(field)]
    held += [f"a list ({field})" for field in _LISTS if len(getattr(argument, field))]
    kinds = " and ".join(held) or "nothing"
    return NetError(
        f'argument "{argument.name}" holds {kinds}, expected {expected}',
        fix=MEND_ARGUMENTS,
    )

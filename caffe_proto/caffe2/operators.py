"""Operators as surgery sees them: layers whose bottoms and tops are the blobs they read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.model import Layer
from prototrt.caffe_proto.schema import Message


@dataclass(frozen=True, slots=True, eq=False)
class Operator(Layer):
    """One operator of a Caffe2 net: a layer whose ``message`` is an OperatorDef.

    ``reads`` are the user's names of the bottoms: the inputs, and for a RecurrentNetwork
    also the outer blobs that its step net reads although they are not inputs.
    """

    reads: tuple[str, ...] = ()
    recurrence: RecurrentArguments | None = None

    message_class: ClassVar[Callable[[str], Message]] = staticmethod(message_class)

    __repr__ = Layer.__repr__

    @property
    def bottom_word(self) -> str:
        return "input"

    @property
    def top_word(self) -> str:
        return "output"

    @property
    def arguments(self) -> Arguments:
        return Arguments(self.message)

    def bottom_blob(self, index: int) -> str:
        return self.reads[index]

    def top_blob(self, index: int) -> str:
        return str(self.message.output[index])


@dataclass(frozen=True, slots=True)
class StateBuffer:
    """A buffer of a RecurrentNetwork, and which of the operator's inputs it starts with."""

    buffer: str
    initial: int


@dataclass(frozen=True, slots=True)
class Link:
    """In step t, ``inside`` is ``outside[t + offset : t + offset + window]``."""

    inside: str
    outside: str
    offset: int
    window: int


@dataclass(frozen=True, slots=True)
class Alias:
    """``target`` is ``source[offset:]``; a negative offset counts from the end."""

    source: str
    target: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentArguments:
    """The step net of a RecurrentNetwork, and its connections to the outer blobs.

    ``written`` maps the blobs that the step net writes to their last values in it;
    ``read`` are those it reads before it writes them.
    """

    operators: tuple[Operator, ...]
    timestep: str
    states: tuple[StateBuffer, ...]
    links: tuple[Link, ...]
    aliases: tuple[Alias, ...]
    written: dict[str, str]
    read: tuple[str, ...]

"""A network that keeps the calls which make it: TensorRT's objects answer, and each call is noted on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Array, Node, Value


@dataclass(frozen=True, slots=True, eq=False)
class ArrayOfCall:
    """An array for a call, and the constant that it is, unless a lowering made it."""

    array: Array
    value: Value | None
    held: Any
    """What TensorRT is given."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """A method of the network, or of a loop. ``result`` is a layer, a loop or the tensor of an input."""

    method: str
    owner: Any
    arguments: tuple[Any, ...]
    result: Any


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """An attribute of a layer; ``tensor`` for one of its inputs."""

    layer: RecordedLayer
    attribute: str
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class TensorName:
    """A name that a tensor is given."""

    tensor: RecordedTensor
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeCalls:
    """A primitive: what was done for it, in this order; the primitives of a body are among that."""

    node: Node | None
    steps: list[Step] = field(default_factory=list)

    @property
    def origin(self) -> Origin | None:
        return None if self.node is None else self.node.origin

    @property
    def layers(self) -> list[RecordedLayer]:
        """Its own layers, as they were made."""
        calls = [step for step in self.steps if isinstance(step, RecordedCall)]
        return [call.result for call in calls if isinstance(call.result, RecordedLayer)]


Step: TypeAlias = RecordedCall | Setting | TensorName | NodeCalls
Note: TypeAlias = Callable[[Step], None]


class StandIn:
    """Stands before an object of TensorRT, which answers what is not recorded."""

    def __init__(self, real: Any, note: Note) -> None:
        object.__setattr__(self, "real", real)
        object.__setattr__(self, "note", note)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class RecordedTensor(StandIn):
    """An ``ITensor``. ``layer`` made it, as its output ``place``; an input has none."""

    layer: RecordedLayer | None
    place: int

    def __setattr__(self, name: str, value: Any) -> None:
        assert name == "name", name
        if self.real.name != value:
            self.real.name = value
            self.note(TensorName(self, value))


class RecordedLayer(StandIn):
    """An ``ILayer``, whose outputs are the same objects at each request."""

    def __init__(self, real: Any, note: Note) -> None:
        super().__init__(real, note)
        object.__setattr__(self, "outputs", {})

    def get_output(self, place: int) -> RecordedTensor:
        if place not in self.outputs:
            self.outputs[place] = _tensor(self.real.get_output(place), self.note, self, place)
        made: RecordedTensor = self.outputs[place]
        return made

    def set_input(self, place: int, tensor: RecordedTensor) -> None:
        self.real.set_input(place, tensor.real)
        self.note(Setting(self, str(place), tensor))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("name", "metadata"):  # those of all layers of a node are written at its end
            setattr(self.real, name, value)
        elif name == "shape" or not _is_already(getattr(self.real, name), value):  # a Resize warns when asked
            setattr(self.real, name, value)
            self.note(Setting(self, name, value))


class RecordedOwner(StandIn):
    """An ``INetworkDefinition`` or an ``ILoop``: whose methods add layers."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("add_", "mark_")):
            return getattr(self.real, name)

        def call(*arguments: Any) -> Any:
            result = getattr(self.real, name)(*map(as_argument, arguments))
            kind = RecordedOwner if name == "add_loop" else RecordedLayer
            if result is not None and not name.startswith("mark_"):
                made = _tensor(result, self.note) if name == "add_input" else kind(result, self.note)
            else:
                made = result
            self.note(RecordedCall(name, self, arguments, made))
            return made

        return call


def _is_already(value: Any, expected: Any) -> bool:
    """Whether an attribute has this value by default. Sizes that nobody has set have no length."""
    if not isinstance(expected, tuple | list):
        return bool(value == expected)
    with suppress(ValueError, TypeError):
        return [*value] == [*expected]
    return False


def _tensor(real: Any, note: Note, layer: RecordedLayer | None = None, place: int = 0) -> RecordedTensor:
    made = RecordedTensor(real, note)
    object.__setattr__(made, "layer", layer)
    object.__setattr__(made, "place", place)
    return made


def as_argument(argument: Any) -> Any:
    """What TensorRT takes for an argument."""
    if isinstance(argument, StandIn):
        return argument.real
    if isinstance(argument, ArrayOfCall):
        return argument.held
    return [*map(as_argument, argument)] if isinstance(argument, list) else argument


class RecordedNetwork(Network):
    """A network whose ``calls`` are kept: those of inputs first, then node by node, then those of outputs."""

    def __init__(self, backend: Backend, *options: Any) -> None:
        super().__init__(backend, *options)
        self.calls = NodeCalls(None)
        self._open = self.calls
        self._constant: Value | None = None
        self.definition = RecordedOwner(self.definition, self._note)

    def _note(self, step: Step) -> None:
        self._open.steps.append(step)

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        outer, calls = self._open, NodeCalls(node)
        self._note(calls)
        self._open = calls
        try:
            with super().at(node):
                yield
        finally:
            self._open = outer

    def constant(self, value: Value) -> Tensor:
        self._constant = value
        try:
            return super().constant(value)
        finally:
            self._constant = None

    def weights(self, array: Array) -> ArrayOfCall:
        held = super().weights(array)
        return ArrayOfCall(np.asarray(array), self._constant or self._value_of(array), held)

    def _value_of(self, array: Array) -> Value | None:
        values = () if self.node is None else self.node.inputs
        return next((value for value in values if value.data is array), None)

"""Starting an engine: queued call by call, or replayed from CUDA graphs."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.device import CapturedGraph, CaptureError
from prototrt.converter.running.runtime.engine import Context
from prototrt.converter.running.runtime.memory import Memory

log = logging.getLogger(__name__)

GRAPHS_AT_MOST = 16
"""For eight sets of buffers: state changes places, so a step needs two graphs."""
CONTEXTS_AT_MOST = 8
"""Beside the first: for shapes that come back."""
STEPS_AT_MOST = 128
"""A graph holds each kernel of each step. Longer calls are queued."""
FAILURES_AT_MOST = 3
"""Captures in a row that fail before no more are tried."""

Addresses: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REMEMBERED_AT_MOST = 64
"""Keys without a value that may be used again."""
USES, USES_TO_DISPLACE = 2, 8
"""After so many uses a key gets a value: where there is room, and where another value has to go."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """The meaning of the places in a tuple of addresses: inputs, outputs, and targets of copies of some outputs.

    ``names`` are the inputs and outputs. ``partners`` has for each place the one with which it
    changes from step to step: a state's other half, else itself. ``copied`` are the places of
    outputs that feed state and are copied, after each step, for the caller as well.
    """

    names: Sequence[str]
    partners: Sequence[int]
    copied: Sequence[int]

    @classmethod
    def of(cls, signature: Signature) -> Bindings:
        names = [value.name for value in (*signature.inputs, *signature.outputs)]
        place = {name: index for index, name in enumerate(names)}
        for pair in signature.recurrences:
            one, other = pair.input.name, pair.output.name
            place[one], place[other] = place[other], place[one]
        copied = [names.index(value.name) for value in signature.exposed_states]
        partners = [*(place[name] for name in names), *range(len(names), len(names) + len(copied))]
        return cls(names, partners, copied)


class Steps(NamedTuple):
    """Consecutive runs: how many, and by how many bytes each address grows from one run to the next.

    ``copied_sizes``, in bytes, are those of the outputs that are copied.
    """

    length: int
    strides: tuple[int, ...]
    copied_sizes: tuple[int, ...]

    def addresses(self, first: Addresses, partners: Sequence[int]) -> Iterator[Addresses]:
        """Those of each step, in turn. State is read where the step before has written it."""
        places = (range(len(first)), partners)
        for step in range(self.length):
            yield tuple(
                first[place] + step * stride
                for place, stride in zip(places[step % 2], self.strides, strict=True)
            )


@dataclass(slots=True, eq=False)
class ShapedContext:
    """A context, and what was set: the shapes of inputs, and the addresses of inputs and outputs.

    ``output_shapes`` are those that TensorRT was asked for since the inputs have these shapes.
    ``number`` is another one whenever the shapes change.
    """

    context: Context
    number: int = 0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    output_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

    def output_shape(self, name: str) -> tuple[int, ...]:
        if name not in self.output_shapes:
            self.output_shapes[name] = self.context.shape(name)
        return self.output_shapes[name]

    def set_shapes(self, shapes: Shapes, stream: int) -> None:
        changed = {name: shape for name, shape in shapes.items() if self.shapes.get(name) != shape}
        if self.context.choose_profile(shapes, stream):
            self.shapes.clear()
            changed = dict(shapes)
        self.output_shapes.clear()
        for name, shape in changed.items():
            self.shapes.pop(name, None)
            self.context.set_shape(name, shape)
            self.shapes[name] = shape

    def set_addresses(self, names: Sequence[str], addresses: Addresses) -> None:
        for name, address in zip(names, addresses, strict=False):
            if self.addresses.get(name) != address:
                self.context.set_address(name, address)
                self.addresses[name] = address


class Launcher:
    """Runs an engine on one stream.

    A CUDA graph holds the addresses that it was captured with, so all of them together are its key: a call
    replays only a graph captured with exactly its buffers. Buffers are captured when they are used for the
    second time. A graph may not be used after the shapes of its context have changed: shapes that come back get
    a context of their own, if ``further_context`` makes contexts that share their working memory.
    """

    def __init__(
        self,
        first: Context,
        further_context: Callable[[], Context] | None,
        memory: Memory,
        stream: int,
        bindings: Bindings,
        use_graphs: bool,
    ) -> None:
        self._further_context, self._memory, self._stream = further_context, memory, stream
        self._bindings, self._use_graphs = bindings, use_graphs
        self._first = self._current = ShapedContext(first)
        self._own: ReuseCache[tuple[tuple[int, ...], ...], ShapedContext] = ReuseCache(CONTEXTS_AT_MOST)
        self._spare: ShapedContext | None = None
        self._graphs: ReuseCache[tuple[int, Addresses, Steps], CapturedGraph] = ReuseCache(GRAPHS_AT_MOST)
        self._last_shapes: Shapes = {}
        self._numbers = self._failures = 0

    @property
    def has_graphs(self) -> bool:
        return bool(self._graphs)

    @contextmanager
    def profile_layers(self) -> Iterator[list[tuple[str, float]]]:
        """Within the block every run is queued, and timed by TensorRT: layers and seconds."""
        before, self._use_graphs = self._use_graphs, False
        try:
            with self._current.context.profile_layers() as layers:
                yield layers
        finally:
            self._use_graphs = before

    def set_shapes(self, shapes: Shapes) -> None:
        """The shapes of all inputs."""
        if shapes is self._last_shapes:
            return
        if shapes != self._current.shapes:
            self._last_shapes = {}
            self._current = self._context_of(shapes)
        self._last_shapes = shapes

    def output_shape(self, name: str) -> tuple[int, ...]:
        """After the shapes of all inputs have been set."""
        return self._current.output_shape(name)

    def _context_of(self, shapes: Shapes) -> ShapedContext:
        """A context with these shapes: the first one, or their own if they have been used before."""
        if shapes == self._first.shapes:
            return self._first
        key = tuple(shapes.values())
        own = self._own.get(key)
        if own is not None:
            return own
        if self._further_context is None or not self._own.admits(key):
            return self._with_shapes(self._first, shapes)
        self._spare = self._spare or ShapedContext(self._further_context())
        own = self._with_shapes(self._spare, shapes)
        self._spare = self._own.put(key, own)
        return own

    def _with_shapes(self, shaped: ShapedContext, shapes: Shapes) -> ShapedContext:
        """The context with other shapes. Its graphs are dropped."""
        for graph in self._graphs.pop_where(lambda key: key[0] == shaped.number):
            self._memory.drop_graph(graph, self._stream)
        self._numbers += 1
        shaped.number = self._numbers  # what TensorRT does once for new shapes cannot be captured
        shaped.set_shapes(shapes, self._stream)
        return shaped

    def run(self, addresses: Addresses, steps: Steps) -> None:
        """Queue the steps, the first with these buffers for all inputs and outputs."""
        captures = self._use_graphs and steps.length <= STEPS_AT_MOST
        graph = self._graph(addresses, steps) if captures else None
        if graph is None:
            self._enqueue(addresses, steps)
        else:
            graph.launch(self._stream)

    def _graph(self, addresses: Addresses, steps: Steps) -> CapturedGraph | None:
        """The graph for these buffers, captured now if it is time; None to queue the run as usual."""
        key = (self._current.number, addresses, steps)
        graph = self._graphs.get(key)
        if graph is not None or not self._graphs.admits(key):
            return graph
        try:
            graph = self._capture(addresses, steps)
        except CaptureError as error:
            self._count_failure(error)
            return None
        self._failures = 0
        displaced = self._graphs.put(key, graph)
        if displaced is not None:
            self._memory.drop_graph(displaced, self._stream)
        return graph

    def _capture(self, addresses: Addresses, steps: Steps) -> CapturedGraph:
        if not self._current.context.can_capture(self._stream):
            self._failures = FAILURES_AT_MOST - 1
            raise CaptureError("TensorRT says that this engine cannot be captured")
        return self._memory.capture(self._stream, lambda: self._enqueue(addresses, steps))

    def _count_failure(self, error: CaptureError) -> None:
        """A capture may fail by chance, as when the caller's library frees memory meanwhile."""
        self._failures += 1
        self._use_graphs = self._failures < FAILURES_AT_MOST
        if self._use_graphs:
            log.info("a call is not captured: %s", error)
        else:
            log.warning("CUDA graphs are off: %s", error)

    def _enqueue(self, addresses: Addresses, steps: Steps) -> None:
        names, current = self._bindings.names, self._current
        for step in steps.addresses(addresses, self._bindings.partners):
            current.set_addresses(names, step)
            current.context.enqueue(self._stream)
            copies = step[len(names) :]
            for copy, place, size in zip(copies, self._bindings.copied, steps.copied_sizes, strict=True):
                self._memory.device.copy(copy, step[place], size, self._stream)


class ReuseCache(Generic[K, V]):
    """At most ``size`` values, by key.

    A key may get a value when it is used for the second time: those used once cost nothing. In a full cache the value
    that was not used for longest goes, once a new key has been used several times since then: where more keys than
    there is room for take turns, some keep their values, and the others get none.
    """

    def __init__(self, size: int) -> None:
        self._size, self._time = size, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._waiting: OrderedDict[K, tuple[int, int]] = OrderedDict()  # first use, number of uses

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which is used now."""
        self._time += 1
        entry = self._values.pop(key, None)
        if entry is None:
            return None
        self._values[key] = entry[0], self._time
        return entry[0]

    def admits(self, key: K) -> bool:
        """Whether a key without a value, which is used now, should get one."""
        first, uses = self._waiting.pop(key, (self._time, 0))
        is_full = len(self) == self._size
        if is_full and next(iter(self._values.values()))[1] > first:
            first, uses = self._time, 0  # all values are in use
        if uses + 1 >= (USES_TO_DISPLACE if is_full else USES):
            return True
        if len(self._waiting) == REMEMBERED_AT_MOST:
            self._waiting.popitem(last=False)
        self._waiting[key] = first, uses + 1
        return False

    def put(self, key: K, value: V) -> V | None:
        """Keep a value. Returns the one that had to go."""
        displaced = self._values.popitem(last=False)[1][0] if len(self) == self._size else None
        self._values[key] = value, self._time
        return displaced

    def pop_where(self, is_meant: Callable[[K], bool]) -> list[V]:
        """Forget the values of these keys; return them."""
        return [self._values.pop(key)[0] for key in [*self._values] if is_meant(key)]

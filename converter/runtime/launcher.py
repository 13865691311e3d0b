"""Starting an engine: queued call by call, or replayed from CUDA graphs."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from prototrt.converter.runtime.device import CapturedGraph, CaptureError
from prototrt.converter.runtime.engine import Context
from prototrt.converter.runtime.memory import Memory
from prototrt.converter.signatures.signature import Signature

log = logging.getLogger(__name__)

GRAPHS_AT_MOST = 8
"""State changes places, so a step needs two; a caller who also changes buffers needs a few more."""
REMEMBERED_AT_MOST = 64
"""Sets of buffers that were used once, and may be used again."""

Addresses: TypeAlias = tuple[int, ...]


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


class Launcher:
    """Runs a context on one stream.

    A CUDA graph holds the addresses that it was captured with, so all of them together are its key: a call
    replays only a graph captured with exactly its buffers. Buffers are captured when they are used for the
    second time; those used once cost nothing.
    """

    def __init__(
        self, context: Context, memory: Memory, stream: int, bindings: Bindings, use_graphs: bool
    ) -> None:
        self._context, self._memory, self._stream = context, memory, stream
        self._bindings, self._use_graphs = bindings, use_graphs
        self._graphs: OrderedDict[tuple[Addresses, Steps], CapturedGraph] = OrderedDict()
        self._seen: OrderedDict[tuple[Addresses, Steps], None] = OrderedDict()
        self._last_shapes: Mapping[str, tuple[int, ...]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    @property
    def has_graphs(self) -> bool:
        return bool(self._graphs)

    @contextmanager
    def without_graphs(self) -> Iterator[None]:
        """Within the block every run is queued."""
        before, self._use_graphs = self._use_graphs, False
        try:
            yield
        finally:
            self._use_graphs = before

    def set_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """The shapes of all inputs. Graphs of other shapes are dropped."""
        if shapes is self._last_shapes:
            return
        changed = {name: shape for name, shape in shapes.items() if self._shapes.get(name) != shape}
        if changed:
            self._last_shapes = {}
            self._graphs.clear()
            self._seen.clear()  # what TensorRT does once for new shapes cannot be captured
            self._memory.drop_graphs(self._stream)
            if self._context.choose_profile(shapes, self._stream):
                self._shapes.clear()
                changed = dict(shapes)
            for name, shape in changed.items():
                self._shapes.pop(name, None)
                self._context.set_shape(name, shape)
                self._shapes[name] = shape
        self._last_shapes = shapes

    def run(self, addresses: Addresses, steps: Steps) -> None:
        """Queue the steps, the first with these buffers for all inputs and outputs."""
        graph = self._graph(addresses, steps) if self._use_graphs else None
        if graph is None:
            self._enqueue(addresses, steps)
        else:
            graph.launch(self._stream)

    def _graph(self, addresses: Addresses, steps: Steps) -> CapturedGraph | None:
        """The graph for these buffers, captured now if it is time; None to queue the run as usual."""
        key = (addresses, steps)
        earlier = self._graphs.get(key)
        if earlier is not None:
            self._graphs.move_to_end(key)
            return earlier
        if key not in self._seen:
            self._remember(key)
            return None
        del self._seen[key]
        try:
            graph = self._captured(addresses, steps)
        except CaptureError as error:
            log.warning("CUDA graphs are off: %s", error)
            self._use_graphs = False
            return None
        if len(self._graphs) == GRAPHS_AT_MOST:
            self._memory.drop_graph(self._graphs.popitem(last=False)[1], self._stream)
        self._graphs[key] = graph
        return graph

    def _remember(self, key: tuple[Addresses, Steps]) -> None:
        if len(self._seen) == REMEMBERED_AT_MOST:
            self._seen.popitem(last=False)
        self._seen[key] = None

    def _captured(self, addresses: Addresses, steps: Steps) -> CapturedGraph:
        if not self._context.can_capture(self._stream):
            raise CaptureError("TensorRT says that this engine cannot be captured")
        return self._memory.capture(self._stream, lambda: self._enqueue(addresses, steps))

    def _enqueue(self, addresses: Addresses, steps: Steps) -> None:
        for step in steps.addresses(addresses, self._bindings.partners):
            self._set(step)
            self._context.enqueue(self._stream)
            copies = step[len(self._bindings.names) :]
            for copy, place, size in zip(copies, self._bindings.copied, steps.copied_sizes, strict=True):
                self._memory.device.copy(copy, step[place], size, self._stream)

    def _set(self, addresses: Addresses) -> None:
        for name, address in zip(self._bindings.names, addresses, strict=False):
            if self._addresses.get(name) != address:
                self._context.set_address(name, address)
                self._addresses[name] = address

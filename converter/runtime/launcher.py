"""Starting an engine: queued call by call, or replayed from CUDA graphs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from prototrt.converter.runtime.device import CapturedGraph, CaptureError
from prototrt.converter.runtime.engine import Context
from prototrt.converter.runtime.memory import Memory

log = logging.getLogger(__name__)

GRAPHS_AT_MOST = 8
"""State changes places, so a step needs two; a caller who also changes buffers needs a few more."""


class Launcher:
    """Runs a context on one stream.

    A CUDA graph holds the addresses that it was captured with. It is therefore found by all of
    them together: a call replays only what was captured with exactly its own buffers.
    """

    def __init__(self, context: Context, memory: Memory, stream: int, use_graphs: bool) -> None:
        self._context, self._memory, self._stream = context, memory, stream
        self._use_graphs = use_graphs
        self._graphs: dict[tuple[int, ...], CapturedGraph] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._is_warm = False

    def set_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """The shapes of all inputs. Graphs of other shapes are dropped."""
        changed = {name: shape for name, shape in shapes.items() if self._shapes.get(name) != shape}
        if not changed:
            return
        self._graphs.clear()
        self._memory.drop_graphs()
        self._is_warm = False
        for name, shape in changed.items():
            self._shapes.pop(name, None)
            self._context.set_shape(name, shape)
            self._shapes[name] = shape

    def run(self, addresses: Mapping[str, int]) -> None:
        """Queue one run, with these buffers for all inputs and outputs."""
        graph = self._graph(tuple(addresses.values()), addresses) if self._use_graphs else None
        if graph is not None:
            graph.launch(self._stream)
            return
        self._set(addresses)
        self._context.enqueue(self._stream)
        self._is_warm = True

    def _graph(self, key: tuple[int, ...], addresses: Mapping[str, int]) -> CapturedGraph | None:
        """The graph for these buffers, captured now if it can be; None to queue the run as usual."""
        # What TensorRT does once for new shapes cannot be captured: the first run is an ordinary one.
        if key not in self._graphs and self._is_warm and len(self._graphs) < GRAPHS_AT_MOST:
            self._set(addresses)
            try:
                self._graphs[key] = self._captured()
            except CaptureError as error:
                log.warning("CUDA graphs are off: %s", error)
                self._use_graphs = False
        return self._graphs.get(key)

    def _captured(self) -> CapturedGraph:
        if not self._context.can_capture(self._stream):
            raise CaptureError("TensorRT says that this engine cannot be captured")
        return self._memory.capture(self._stream, lambda: self._context.enqueue(self._stream))

    def _set(self, addresses: Mapping[str, int]) -> None:
        for name, address in addresses.items():
            if self._addresses.get(name) != address:
                self._context.set_address(name, address)
                self._addresses[name] = address

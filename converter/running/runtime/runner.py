"""One session on an engine: inputs to the GPU, a run, outputs back, state kept there."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.files.signatures.streams import StreamRows
from prototrt.converter.running.runtime.call import CallMaker, QueuedCall
from prototrt.converter.running.runtime.device import LEGACY_DEFAULT_STREAMS
from prototrt.converter.running.runtime.engine import Context, Engine
from prototrt.converter.running.runtime.launcher import Bindings, Launcher
from prototrt.converter.running.runtime.memory import Memory
from prototrt.converter.running.runtime.ports import Ports
from prototrt.converter.running.runtime.state_store import DeviceStateStore
from prototrt.surgery.ir import Array

log = logging.getLogger(__name__)


class EngineRunner:
    """Buffers, stream, context and state of one session.

    A call first checks everything, then queues, and counts only when nothing failed: until
    then the state is that of the call before. It waits for the GPU, unless the stream is the
    caller's and all inputs and outputs are on the GPU.
    """

    def __init__(self, engine: Engine, *, stream: Any = None, graphs: bool = True) -> None:
        self.signature, self._device = engine.signature, engine.device
        self._has_run = False
        with self._device.current():
            memory = self._memory = Memory(self._device)
            self._stream = memory.stream() if stream is None else memory.adopt(stream)
            self._free = weakref.finalize(self, memory.close, self._stream)
            self._free.atexit = False  # CUDA is gone by then, and all memory with it
            self._engine, workspace = engine, engine.workspace(self._stream)
            memory.share(workspace)
            self._turn = workspace.turn

            def context() -> Context:
                made = engine.context(workspace)
                memory.hold((engine, made))
                return made

            first, further = context(), None if workspace.size is None else context
            use_graphs = graphs and _can_use_graphs(engine, first, self._stream)
            bindings = Bindings.of(self.signature)
            self._launcher = Launcher(first, further, memory, self._stream, bindings, use_graphs)
            ports = Ports(self.signature, memory, self._stream)
            self._states = ports.states
            self._calls = CallMaker(self._launcher, ports, has_own_stream=stream is None)

    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        with self._active():
            return self._execute(self._calls.make(feeds, outputs))

    def run_steps(self, feeds: Mapping[str, Any], steps: int, outputs: Mapping[str, Any]) -> dict[str, Any]:
        with self._active():
            return self._execute(self._calls.make(feeds, outputs, steps))

    def prepare(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        with self._active():
            return partial(self._repeat, self._calls.make(feeds, outputs, is_repeated=True))

    def _repeat(self, call: QueuedCall) -> dict[str, Any]:
        """Run a prepared call again."""
        with self._active():
            return self._execute(call)

    @property
    def replays(self) -> bool:
        return self._launcher.has_graphs

    def profile(self, feeds: Mapping[str, Any]) -> list[tuple[str, float]]:
        with self._active():
            call = self._calls.make(feeds, {})
            with self._launcher.profile_layers() as layers:
                self._execute(call)
        return layers

    def reset(self, streams: Sequence[int] | None) -> None:
        with self._active():
            self._states.reset(streams)

    def get_state(self) -> dict[str, Array]:
        with self._active():
            return self._states.get()

    def set_state(self, state: Mapping[str, Array]) -> None:
        with self._active():
            self._states.set({name: np.ascontiguousarray(array) for name, array in state.items()})

    def store(self, streams: StreamRows, count: int) -> DeviceStateStore:
        with self._active():
            return DeviceStateStore(self._memory, self._states, self._stream, streams, count)

    def close(self) -> None:
        if self._free.alive:
            try:
                self._engine.kernels.save()
            finally:
                self._release()

    def _release(self) -> None:
        try:
            self._free()
        finally:
            with self._device.current():
                # TensorRT has its own memory on the GPU, for the context and for the engine.
                del self._calls, self._launcher, self._engine

    def _active(self) -> AbstractContextManager[None]:
        """Within the block this is the GPU of the thread. Raises ``ValueError`` once the session is closed."""
        if not self._free.alive:
            raise ValueError("the session is closed")
        return self._device.current()

    def _execute(self, call: QueuedCall) -> dict[str, Any]:
        """Queue copies to the GPU, the run, and copies back; wait for them where that is asked for."""
        form = call.form
        if call.indices:
            self.signature.refuse_indices(call.indices, self.signature.sizes(form.input_shapes))
        is_saved = False
        try:
            self._launcher.set_shapes(form.input_shapes)
            for stream in call.streams:
                self._device.wait(self._stream, stream)
            if form.steps.length > 1:
                self._states.save()
                is_saved = True
            self._queue(call)
            if call.waits:
                self._device.synchronize(self._stream)
        except BaseException:
            if is_saved:
                with suppress(EngineError):
                    self._states.restore()
            with suppress(EngineError):
                self._device.synchronize(self._stream)  # arrays must not go while copies of them are queued
            raise
        self._states.swap(form.output_shapes, form.steps.length)
        for name, route in form.results:
            route.finish(call.targets[name])
        if not self._has_run:
            self._has_run = True
            self._engine.kernels.save()
        return dict(call.results)

    def _queue(self, call: QueuedCall) -> None:
        with self._turn:
            form, inputs, targets = call.form, call.inputs, call.targets
            reads = [route.queue(inputs.get(name)) for name, route in form.inputs]
            writes = [route.address(targets.get(name)) for name, route in form.outputs]
            self._launcher.run((*reads, *writes), form.steps)
            for name, target in form.results:
                target.queue(targets[name])


def _can_use_graphs(engine: Engine, context: Context, stream: int) -> bool:
    """Whether CUDA graphs can work; if not, the log says why."""
    if not engine.device.can_capture:
        log.info("CUDA graphs are off: %s has none", engine.device.name)
        return False
    if stream in LEGACY_DEFAULT_STREAMS:
        log.warning(
            "CUDA graphs are off: the session has CUDA's default stream, which cannot be captured;"
            " give it another stream, such as torch.cuda.Stream()"
        )
        return False
    if context.tells_capture or engine.has_loops is False:
        return True
    log.info(
        "CUDA graphs are off: %s",
        "the engine has loops; built with sequence step or unroll, it has none"
        if engine.has_loops
        else "the manifest does not say whether the engine has loops",
    )
    return False

"""One net for many streams: those that are ready are computed in one call, each with its own state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock, RLock
from typing import Any, TypeVar, overload

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.files.signatures.streams import Arrays, Sizes, StreamRows
from prototrt.converter.running.sessions.session import ENGINE, Runnable, Session
from prototrt.surgery.ir import Array

S = TypeVar("S", bound=Hashable)
"""The name of a stream."""


class Ticket(Future[dict[str, Array]]):
    """The outputs for an input that was submitted. ``result()`` computes what waits, if nobody else does."""

    def __init__(self, complete: Callable[[Ticket, float | None], None]) -> None:
        super().__init__()
        self._complete = complete

    def result(self, timeout: float | None = None) -> dict[str, Array]:
        self._complete(self, timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._complete(self, timeout)
        return super().exception(0)


@dataclass(slots=True, eq=False)
class WaitingInput:
    """An input of a stream. ``starts`` means that the state is zero before it. Inputs of one call have equal sizes."""

    stream: OpenStream
    feeds: Arrays
    sizes: Sizes
    starts: bool
    ticket: Ticket


@dataclass(slots=True, eq=False)
class OpenStream:
    """A stream, the row of its state, and its inputs in order. The next input ``starts`` from zero if that is set."""

    row: int
    starts: bool = True
    waiting: deque[WaitingInput] = field(default_factory=deque)


class Sessions:
    """A net that serves many streams, such as callers or sensors.

    Each stream is called as a ``Session`` for one stream would be, and returns what that would return; but streams
    that are ready at the same time are computed in one call, of up to ``batch`` streams. ``source`` is what a
    ``Session`` is made of, with a batch N that varies, or a ``Session``, which the pool then closes. ``streams`` is how
    many may be open at a time: memory for their states is reserved at once. ``cont`` is the name of the input that is
    0 where a sequence begins: if a stream does not give it, it is 0 at the first step after ``open()`` and ``reset()``,
    and 1 after that. Unless it is said, it is the input ``"cont"``, if there is one.

    The inputs of one stream are computed in the order in which they were submitted. An input that fails fails those
    that wait behind it, and leaves the state as it was; other streams do not notice.

    All methods may be called from several threads. While one of them computes, the inputs of the others
    gather for the next call.
    """

    def __init__(
        self,
        source: Runnable | Session,
        streams: int,
        *,
        batch: int | None = None,
        cont: str | None = None,
    ) -> None:
        if streams < 1:
            raise ValueError(f"streams is {streams}, expected 1 or more")
        self._session = source if isinstance(source, Session) else Session(source)
        try:
            self._rows = StreamRows(self._session.signature, cont)
            sizes = self._rows.sizes
            self._most = min(sizes.max if batch is None else batch, sizes.max, streams)
            if batch is not None and not 1 <= batch <= sizes.max:
                raise ValueError(f"batch is {batch}, expected 1 to {sizes.max}, the largest N of the net")
            self._store = self._session._runner.store(self._rows, streams)
        except BaseException:
            self._session.close()
            raise
        self._streams: dict[Hashable, OpenStream] = {}
        self._ready: dict[OpenStream, None] = {}  # in the order in which they will be computed
        self._free_rows = list(range(streams))
        heapify(self._free_rows)
        self._count, self._numbers = streams, count()
        self._is_closed = False
        self._lock, self._turn = Lock(), RLock()  # _turn is held while a call is computed

    def __len__(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def __contains__(self, stream: object) -> bool:
        return stream in self._streams

    @overload
    def open(self) -> int: ...

    @overload
    def open(self, stream: S) -> S: ...

    def open(self, stream: Hashable = None) -> Hashable:
        """Open a stream, whose state is zero, under this name; without one, under a new number. Returns the name."""
        with self._lock:
            self._check_open()
            if stream is None:
                stream = next(number for number in self._numbers if number not in self._streams)
            elif stream in self._streams:
                raise ValueError(f"the stream {stream!r} is open already")
            if not self._free_rows:
                raise NetError(
                    f"all {self._count} streams are open", fix="close one, or make the pool with more streams"
                )
            self._streams[stream] = OpenStream(heappop(self._free_rows))
            return stream

    def submit(self, stream: Hashable, feeds: Mapping[str, Any]) -> Ticket:
        """Queue the inputs of one call, which are copied. Raises what ``Session.run()`` raises."""
        (ticket,) = self._submit({stream: feeds}).values()
        return ticket

    def run(self, stream: Hashable, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs of a stream for these inputs. Streams that other threads run meanwhile share the call."""
        return self.submit(stream, feeds).result()

    def step(self, feeds: Mapping[S, Mapping[str, Any]]) -> dict[S, dict[str, Array]]:
        """The outputs of some streams, by stream, for the inputs of each.

        Raises an error before anything is computed if some inputs do not fit. If a call fails, the others are
        computed all the same, and the first error is raised; ``submit()`` tells which streams have results.
        """
        tickets = self._submit(feeds)
        for ticket in tickets.values():
            self._complete(ticket)
        return {stream: ticket.result() for stream, ticket in tickets.items()}

    def flush(self) -> None:
        """Compute all that waits now."""
        with self._lock:
            tickets = [each.ticket for stream in self._ready for each in stream.waiting]
        for ticket in tickets:
            self._complete(ticket)
        with self._lock:
            for stream in [*self._ready]:
                while stream.waiting and stream.waiting[0].ticket.cancelled():
                    self._pop(stream)

    def reset(self, stream: Hashable) -> None:
        """Set the state of a stream to zero, after the inputs that wait."""
        with self._lock:
            self._open_stream(stream).starts = True

    def get_state(self, stream: Hashable) -> dict[str, Array]:
        """The state after all inputs that wait, as ``Session.get_state()`` gives it for one stream."""
        self.flush()
        with self._turn:
            each = self._open_stream(stream)
            return {} if each.starts else self._store.get(each.row)

    def set_state(self, stream: Hashable, state: Mapping[str, Any]) -> None:
        """Continue from this state, after all inputs that wait."""
        arrays = self._rows.signature.checked_state(state)
        self.flush()
        with self._turn:
            each = self._open_stream(stream)
            each.starts = not arrays
            if arrays:
                self._store.set(each.row, arrays)

    def close(self, stream: Hashable = None) -> None:
        """Close a stream; without one, close all of them, and free what the pool holds. What waits is cancelled."""
        with self._lock:
            names = [*self._streams] if stream is None else [stream]
            closed = [self._open_stream(name) for name in names]
            for name in names:
                heappush(self._free_rows, self._streams.pop(name).row)
            tickets = [waiting.ticket for each in closed for waiting in each.waiting]
            for each in closed:
                each.waiting.clear()
                self._ready.pop(each, None)
            self._is_closed = self._is_closed or stream is None
        for ticket in tickets:
            ticket.cancel()
        if stream is None:
            with self._turn:
                self._session.close()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the pool is closed")

    def _open_stream(self, stream: Hashable) -> OpenStream:
        self._check_open()
        if stream not in self._streams:
            raise NetError(f"there is no stream {stream!r}", fix="open() it first")
        return self._streams[stream]

    def _submit(self, feeds: Mapping[S, Mapping[str, Any]]) -> dict[S, Ticket]:
        """The tickets of inputs, which all fit."""
        fitting = {stream: self._rows.check_inputs(each) for stream, each in feeds.items()}
        with self._lock:
            streams = {name: self._open_stream(name) for name in feeds}
            tickets = {}
            for name, stream in streams.items():
                arrays, sizes = fitting[name]
                inputs = self._rows.with_cont(arrays, sizes, stream.starts)
                tickets[name] = Ticket(self._complete)
                stream.waiting.append(WaitingInput(stream, inputs, sizes, stream.starts, tickets[name]))
                stream.starts = False
                self._ready[stream] = None
            return tickets

    def _complete(self, ticket: Ticket, timeout: float | None = None) -> None:
        while not ticket.done():
            if not self._turn.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError(f"not computed within {timeout:g} s")
            try:
                if not ticket.done():
                    self._compute(self._next_batch())
            finally:
                self._turn.release()

    def _next_batch(self) -> list[WaitingInput]:
        """The first inputs of streams whose shapes agree. They wait no more."""
        with self._lock:
            batch: list[WaitingInput] = []
            for stream in [*self._ready]:
                if len(batch) == self._most:
                    break
                fits = not batch or batch[0].sizes == stream.waiting[0].sizes
                if fits and (first := self._pop(stream)):
                    batch.append(first)
            return sorted(batch, key=lambda each: each.stream.row)

    def _pop(self, stream: OpenStream) -> WaitingInput | None:
        """The first input of a stream, which waits no more; None if it was cancelled."""
        first = stream.waiting.popleft()
        del self._ready[stream]
        if stream.waiting:
            self._ready[stream] = None  # other streams come first
        if first.ticket.set_running_or_notify_cancel():
            return first
        if first.starts:
            (stream.waiting[0] if stream.waiting else stream).starts = True
        return None

    def _compute(self, batch: list[WaitingInput]) -> None:
        """Compute a batch, and its inputs one by one if that fails: one of them may be the reason."""
        if not batch:
            return
        try:
            results = self._call(batch)
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0], error)
            for each in batch if len(batch) > 1 else ():
                self._compute([each])
        except BaseException as error:
            for each in batch:
                self._fail(each, error)
            raise
        else:
            for each, result in zip(batch, results, strict=True):
                each.ticket.set_result(result)

    def _call(self, batch: list[WaitingInput]) -> list[dict[str, Array]]:
        """The outputs of each stream, whose state then moves."""
        rows = [each.stream.row for each in batch]
        size = self._size(len(batch))
        self._store.zero([each.stream.row for each in batch if each.starts])
        self._store.load(rows, size)
        results = self._session.run(self._rows.join([each.feeds for each in batch], size))
        self._store.keep(rows)
        return self._rows.split(results, len(batch))

    def _size(self, streams: int) -> int:
        """How many streams a call computes. An engine is given few sizes, since it compiles for each."""
        if self._session.on == ENGINE:
            streams = min(1 << (streams - 1).bit_length(), self._most)
        return max(streams, self._rows.sizes.min)

    def _fail(self, failed: WaitingInput, error: BaseException) -> None:
        """An input and those behind it have no results: they would follow another state."""
        with self._lock:
            behind = [each.ticket for each in failed.stream.waiting]
            failed.stream.waiting.clear()
            self._ready.pop(failed.stream, None)
        for ticket in (failed.ticket, *(each for each in behind if each.set_running_or_notify_cancel())):
            ticket.set_exception(error)

"""Running a list of entries: from the cache, or with several workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Protocol, TypeAlias

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.batch.cache import Cache, reason_of
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.worker import Worker

Listener: TypeAlias = Callable[[Outcome], object]
"""Hears of each outcome as soon as it is known."""


class LostPoolError(ConversionError):
    """The pool cannot be reached. No model is at fault."""

    exit_code = 4


class Pool(Protocol):
    """Where entries are converted. ``run`` is called from up to ``width`` threads at once."""

    @property
    def width(self) -> int: ...

    def run(self, entry: Entry) -> Outcome:
        """The outcome; raises ``LostPoolError`` if there is none and never will be."""

    def stop(self) -> None:
        """End at once what runs, from any thread."""

    def close(self) -> None: ...


class LocalPool:
    """Processes on this machine, one for each thread that asks."""

    def __init__(self, jobs: int) -> None:
        self.width = jobs
        self._own = threading.local()
        self._workers: list[Worker] = []

    def run(self, entry: Entry) -> Outcome:
        if not hasattr(self._own, "worker"):
            self._own.worker = Worker()
            self._workers.append(self._own.worker)
        outcome: Outcome = self._own.worker.run(entry)
        return outcome

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


def usable_cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_entries(
    entries: Sequence[Entry], pool: Pool, cache: Cache | None, keep_going: bool, listener: Listener
) -> list[Outcome]:
    """The outcomes in the entries' order; the listener receives each one as soon as it is known.

    Unless ``keep_going``, entries that have not begun when one fails are skipped. If the pool is lost, all
    remaining entries are skipped, with its exit code.
    """
    run = _BatchRun(pool, cache, keep_going)
    with ThreadPoolExecutor(pool.width) as threads:
        futures = {threads.submit(run.one, entry): index for index, entry in enumerate(entries)}
        outcomes: dict[int, Outcome] = {}
        try:
            for future in as_completed(futures):
                outcomes[futures[future]] = future.result()
                listener(future.result())
        except BaseException:  # Ctrl-C, above all: no thread may begin another entry
            run.ended.set()
            pool.stop()
            raise
    return [outcomes[index] for index in range(len(entries))]


class _BatchRun:
    """What the threads share."""

    def __init__(self, pool: Pool, cache: Cache | None, keep_going: bool) -> None:
        self.ended = threading.Event()
        self._pool = pool
        self._cache = cache
        self._keep_going = keep_going
        self._why = ""
        self._exit_code = 0

    def one(self, entry: Entry) -> Outcome:
        if self.ended.is_set():
            return Outcome(entry, Status.SKIPPED, self._exit_code, message=f"not started because {self._why}")
        try:
            outcome = self._outcome(entry)
        except LostPoolError as error:
            self._end(error.problem, error.exit_code)
            return Outcome(entry, Status.SKIPPED, error.exit_code, message=f"not converted: {error}")
        if not outcome.status.is_good and not self._keep_going:
            self._end("another model failed")
        return outcome

    def _end(self, why: str, exit_code: int = 0) -> None:
        """Let no further entry begin."""
        self._why, self._exit_code = why, exit_code
        self.ended.set()

    def _outcome(self, entry: Entry) -> Outcome:
        if entry.fault:
            return Outcome(entry, Status.FAILED, ConversionError.exit_code, message=entry.fault)
        key = self._cache.key(entry) if self._cache else None
        if self._cache is None or key is None:
            return self._pool.run(entry)
        texts: list[str] = []
        outcome = self._cache.fetch(key, entry, texts.append)
        if outcome is None:
            outcome = self._pool.run(entry)
            if outcome.status is Status.CONVERTED:
                outcome = _cached_outcome(self._cache, key, outcome)
        return replace(outcome, warnings=(*texts, *outcome.warnings))


def _cached_outcome(cache: Cache, key: str, outcome: Outcome) -> Outcome:
    """The conversion is done even where the cache cannot keep it."""
    try:
        cache.store(key, outcome)
    except (ConversionError, OSError) as error:
        warning = f"not kept in the cache: {reason_of(error)}"
        return replace(outcome, warnings=(*outcome.warnings, warning))
    return outcome

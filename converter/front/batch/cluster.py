"""Entries on the workers of a Dask cluster, which see the same files under the same paths."""

from __future__ import annotations

import logging
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.keys import FILES, with_files
from prototrt.converter.front.batch.runner import LostPoolError
from prototrt.converter.front.batch.versions import versions
from prototrt.converter.front.batch.worker import Worker
from prototrt.converter.options import BackendName

RETRIES = 3
"""How often an entry starts again after its worker died."""
_CONNECT_SECONDS = 10
_LEFT_SECONDS, _LOOKS = 60.0, 4
"""How long an entry waits once the last worker that could take it is gone, and how often that is looked at."""

_ADDRESS = re.compile(r"(\w+://)?[^/:\s]+:\d{1,5}|inproc://.+")

_LOCAL = re.compile(r"(\w+://)?(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")

_own = threading.local()


def is_exposed(address: str) -> bool:
    """Whether others than this machine may reach the scheduler, without a certificate.

    Dask sends pickled Python: who reaches its port runs code on the workers, and on the clients.
    """
    return not address.startswith(("tls://", "inproc://")) and _LOCAL.fullmatch(address) is None


class ClusterPool:
    """A Dask cluster. A worker with ``--resources "rtx=1"`` takes one model at a time that needs rtx.

    When the scheduler is gone, ``run`` and ``versions`` raise ``LostPoolError``, whatever Dask raises then.
    """

    def __init__(self, address: str, jobs: int | None = None) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ConversionError(
                Worded("{} needs Dask", Option("scheduler")), fix=pip_install("dask")
            ) from error
        if not _ADDRESS.fullmatch(address):
            raise ConversionError(
                "is not an address of a Dask scheduler", where=address, fix="write it as in tcp://HOST:8786"
            )
        self._late: type[Exception] = distributed.TimeoutError
        # Our messages say it, so Dask's log line is dropped.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self._address = address
        try:
            client: Any = distributed.Client  # its annotations are not complete
            self._client = client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # TLS without certificates is a TypeError, and so on
            raise LostPoolError(
                "no Dask scheduler answers",
                where=address,
                because=str(error).splitlines()[0] if str(error) else None,
                fix="start one with `dask scheduler`, and use the address that it prints",
            ) from error
        self.width = jobs or max(2 * sum(worker["nthreads"] for worker in self._workers()), 1)

    def run(self, entry: Entry) -> Outcome:
        from distributed import CancelledError, KilledWorker

        with self._errors_when_lost():
            if problem := self._why_nowhere(entry):
                return Outcome(entry, Status.FAILED, 4, message=problem)
            resources = dict.fromkeys(entry.needs, 1)
            call = pickle.dumps(_PickledRun(_absolute(entry)))
            future = self._client.submit(pickle.loads, call, resources=resources, retries=RETRIES, pure=False)
            try:
                if problem := self._why_never(entry, future):
                    future.cancel()
                    return Outcome(entry, Status.FAILED, 4, message=problem)
                outcome: Outcome = future.result()
                return replace(outcome, entry=entry)
            except (KilledWorker, CancelledError) as error:
                self._refuse_lost()
                message = f"{entry.prototxt}: each worker that took it died: {error}"
                return Outcome(entry, Status.CRASHED, 4, message=message)
            except Exception as error:  # whatever a worker without this prototrt raises, or answers
                self._refuse_lost()
                return Outcome(entry, Status.FAILED, 4, message=str(_other_version(entry.prototxt, error)))

    def _why_never(self, entry: Entry, future: Any) -> str | None:
        """Wait for the answer. Why there will be none, where no worker is left: Dask would wait for ever."""
        looks = 0
        while True:
            try:
                future.result(timeout=_LEFT_SECONDS / _LOOKS)
                return None
            except self._late:
                if future.done():
                    return None
                problem = self._why_nowhere(entry)
                looks = looks + 1 if problem else 0
                if looks == _LOOKS:
                    return problem

    def versions(self, backends: Iterable[BackendName]) -> dict[str, str]:
        """The versions on the workers, which decide the results; all of them if workers differ."""
        with self._errors_when_lost():
            try:
                answers = self._client.run(versions, list(backends)).values()
                names = sorted({name for one in answers for name in one})
                return {name: " | ".join(sorted({one[name] for one in answers})) for name in names}
            except Exception as error:
                self._refuse_lost()
                raise _other_version(self._address, error) from error

    @contextmanager
    def _errors_when_lost(self) -> Iterator[None]:
        """Dask's exceptions for a lost connection are many: KeyError, RuntimeError, CancelledError, OSError."""
        self._refuse_lost()
        try:
            yield
        except Exception:
            self._refuse_lost()
            raise

    def _refuse_lost(self) -> None:
        if self._client.status != "running":
            raise self._loss()

    def _loss(self) -> LostPoolError:
        return LostPoolError(
            "the Dask scheduler is gone",
            where=self._address,
            fix="start it and its workers, and run the command again",
        )

    def stop(self) -> None:
        self._client.close(timeout=1)

    def close(self) -> None:
        self._client.close()

    def _workers(self) -> list[dict[str, Any]]:
        # Not scheduler_info(): it gives no workers, without a word, where the scheduler has just died.
        try:
            scheduler_info = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        except OSError as error:
            raise self._loss() from error
        return list(scheduler_info["workers"].values())

    def _why_nowhere(self, entry: Entry) -> str | None:
        """Why no worker would ever take the entry: Dask would wait without a word."""
        workers = self._workers()
        if not workers:
            self._refuse_lost()
            return "the cluster has no workers\n  fix: start some with `dask worker SCHEDULER`"
        if any(all(need in worker["resources"] for need in entry.needs) for worker in workers):
            return None
        offered = sorted({name for worker in workers for name in worker["resources"]})
        resources = ",".join(f"{need}=1" for need in entry.needs)
        return (
            f"{entry.where}: no worker has all that {entry.name} needs: {', '.join(entry.needs)}\n"
            f"  because the workers have {', '.join(offered) or 'no resources'}\n"
            f'  fix: start one with `dask worker SCHEDULER --resources "{resources}"`'
        )


def _other_version(where: str, error: Exception) -> LostPoolError:
    return LostPoolError(
        f"a worker of the cluster cannot run prototrt {__version__}",
        where=where,
        because=f"{type(error).__name__}: {' '.join(str(error).split())}",
        fix="install this version of prototrt for each worker, with the same Python",
    )


def _absolute(entry: Entry) -> Entry:
    """The entry with paths that hold in any folder."""
    options = dict(entry.options)
    for name in FILES:
        options[name] = with_files(name, options[name], os.path.abspath)
    options |= {name: os.path.abspath(file) for name, file in entry.outputs.items()}
    weights = None if entry.weights is None else os.path.abspath(entry.weights)
    prototxt, target = os.path.abspath(entry.prototxt), type(entry.target)(os.path.abspath(entry.target))
    return replace(entry, prototxt=prototxt, weights=weights, target=target, options=options)


@dataclass(frozen=True)
class _PickledRun:
    """What runs an entry when it is read from a pickle.

    A worker that cannot import the function then answers with an error. As an argument of Dask's, it would end the
    worker, and the next one.
    """

    entry: Entry

    def __reduce__(self) -> tuple[Callable[[Entry], Outcome], tuple[Entry]]:
        return run_here, (self.entry,)


def run_here(entry: Entry) -> Outcome:
    """On a worker of the cluster, also in a separate process."""
    if not hasattr(_own, "worker"):
        _own.worker = Worker()
    outcome: Outcome = _own.worker.run(entry)
    return outcome

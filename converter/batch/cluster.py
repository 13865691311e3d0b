"""Entries on the workers of a Dask cluster, which see the same files under the same paths."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from prototrt.caffe_proto.errors import ConversionError
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.converter.batch.entry import Entry, Outcome, Status
from prototrt.converter.batch.keys import FILES, file_of, naming_file
from prototrt.converter.batch.versions import versions
from prototrt.converter.batch.worker import Worker

RETRIES = 3
"""How often an entry starts again after its worker died."""
_CONNECT_SECONDS = 10

_ADDRESS = re.compile(r"(\w+://)?[^/:\s]+:\d{1,5}|inproc://.+")

_own = threading.local()


class ClusterPool:
    """A Dask cluster. A worker with ``--resources "rtx=1"`` takes one model at a time that needs rtx."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ConversionError(
                Worded("{} needs Dask", Option("scheduler")), fix="pip install 'prototrt[dask]'"
            ) from error
        if not _ADDRESS.fullmatch(address):
            raise ConversionError(
                "is not an address of a Dask scheduler", where=address, fix="write it as in tcp://HOST:8786"
            )
        try:
            client: Any = distributed.Client  # its annotations are not complete
            self._client = client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # TLS without certificates is a TypeError, and so on
            raise ConversionError(
                "no Dask scheduler answers",
                where=address,
                because=str(error).splitlines()[0] if str(error) else None,
                fix="start one with `dask scheduler`, and use the address that it prints",
            ) from error
        self.width = jobs or max(2 * sum(worker["nthreads"] for worker in self._workers()), 1)

    def run(self, entry: Entry) -> Outcome:
        if problem := self._why_nowhere(entry):
            return Outcome(entry, Status.FAILED, 4, message=problem)
        from distributed import CancelledError, KilledWorker

        resources = dict.fromkeys(entry.needs, 1)
        future = self._client.submit(
            run_here, _absolute(entry), resources=resources, retries=RETRIES, pure=False
        )
        try:
            outcome: Outcome = future.result()
            return replace(outcome, entry=entry)
        except (KilledWorker, CancelledError) as error:
            message = f"{entry.prototxt}: each worker that took it died: {error}"
            return Outcome(entry, Status.CRASHED, 4, message=message)

    def versions(self, backends: Iterable[str]) -> dict[str, str]:
        """What is installed on the workers, which decides what comes out; all of it where they differ."""
        found = self._client.run(versions, list(backends)).values()
        names = sorted({name for one in found for name in one})
        return {name: " | ".join(sorted({one[name] for one in found})) for name in names}

    def stop(self) -> None:
        self._client.close(timeout=1)

    def close(self) -> None:
        self._client.close()

    def _workers(self) -> list[dict[str, Any]]:
        return list(self._client.scheduler_info(n_workers=-1)["workers"].values())

    def _why_nowhere(self, entry: Entry) -> str | None:
        """Why no worker would ever take the entry: Dask would wait without a word."""
        workers = self._workers()
        if not workers:
            return "the cluster has no workers\n  fix: start some with `dask worker SCHEDULER`"
        if any(all(need in worker["resources"] for need in entry.needs) for worker in workers):
            return None
        offered = sorted({name for worker in workers for name in worker["resources"]})
        wanted = ",".join(f"{need}=1" for need in entry.needs)
        return (
            f"{entry.where}: no worker has all that {entry.name} needs: {', '.join(entry.needs)}\n"
            f"  because the workers have {', '.join(offered) or 'no resources'}\n"
            f'  fix: start one with `dask worker SCHEDULER --resources "{wanted}"`'
        )


def _absolute(entry: Entry) -> Entry:
    """The entry with paths that hold in any folder."""
    options = dict(entry.options)
    for name in FILES:
        if file := file_of(name, options[name]):
            options[name] = naming_file(name, os.path.abspath(file))
    weights = None if entry.weights is None else os.path.abspath(entry.weights)
    prototxt, target = os.path.abspath(entry.prototxt), os.path.abspath(entry.target)
    return replace(entry, prototxt=prototxt, weights=weights, target=target, options=options)


def run_here(entry: Entry) -> Outcome:
    """On a worker of the cluster, also in a separate process."""
    if not hasattr(_own, "worker"):
        _own.worker = Worker()
    outcome: Outcome = _own.worker.run(entry)
    return outcome

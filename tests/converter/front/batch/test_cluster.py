"""Batches on a Dask cluster of this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.batch.cluster import ClusterPool, is_exposed
from prototrt.converter.front.batch.conversion import warnings_of
from prototrt.converter.front.batch.entry import Status
from prototrt.converter.front.batch.reports import BatchResult
from prototrt.converter.front.batch.runner import run_entries
from prototrt.converter.options import BatchOptions
from prototrt.tests.converter.front.batch.support import NET, entry, long_entry
from prototrt.tests.fresh_python import ROOT, run_python

VERSION = prototrt.__version__
pytestmark = [pytest.mark.trt, pytest.mark.slow, pytest.mark.usefixtures("distributed")]


@pytest.fixture(scope="session")
def distributed() -> Any:
    return pytest.importorskip("distributed", reason="needs Dask")


@pytest.fixture(scope="module")
def cluster(distributed: Any) -> Iterator[Any]:
    workers = {
        "plain": {"cls": distributed.Nanny, "options": {"nthreads": 1}},
        "rtx": {"cls": distributed.Nanny, "options": {"nthreads": 1, "resources": {"rtx": 1}}},
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": ":0"}}
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster:
        yield cluster


@pytest.fixture
def pool(cluster: Any) -> Iterator[ClusterPool]:
    pool = ClusterPool(cluster.scheduler_address)
    yield pool
    pool.close()


def test_models_are_converted(pool: ClusterPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entries = [
        replace(found, prototxt=f"{found.name}.prototxt", target=f"{found.name}.plan")
        for found in (entry(tmp_path, f"n{number}") for number in range(3))
    ]
    outcomes = run_entries(entries, pool, None, False, print)
    assert [outcome.entry for outcome in outcomes] == entries
    assert {outcome.status for outcome in outcomes} == {Status.CONVERTED}
    assert all((tmp_path / f"n{number}.plan").exists() for number in range(3))


def test_what_a_model_needs(pool: ClusterPool, tmp_path: Path) -> None:
    assert pool.run(entry(tmp_path, needs=("rtx",))).status is Status.CONVERTED
    outcome = pool.run(entry(tmp_path, needs=("sm_90", "rtx")))
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 4)
    assert outcome.message == (
        "models.yaml:2: no worker has all that small needs: sm_90, rtx\n"
        "  because the workers have rtx\n"
        '  fix: start one with `dask worker SCHEDULER --resources "sm_90=1,rtx=1"`'
    )


def test_a_hang_ends_the_model_only(pool: ClusterPool, tmp_path: Path) -> None:
    assert pool.run(long_entry(tmp_path, timeout=1.0)).status is Status.TIMED_OUT
    assert pool.run(entry(tmp_path)).status is Status.CONVERTED


def test_a_worker_that_dies_is_replaced(
    distributed: Any, cluster: Any, pool: ClusterPool, tmp_path: Path
) -> None:
    """The model begins again elsewhere; the first worker dies after one second of work."""
    (address,) = [nanny.worker_address for name, nanny in cluster.workers.items() if name == "rtx"]
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        pid = client.run(os.getpid, workers=[address])[address]
    threading.Timer(1.0, os.kill, (pid, 9)).start()
    outcome = pool.run(long_entry(tmp_path, needs=("rtx",), timeout=4.0))
    assert outcome.status is Status.TIMED_OUT  # it has begun a second time


def test_versions_are_those_of_the_workers(pool: ClusterPool) -> None:
    from prototrt.converter.front.batch.versions import versions

    assert pool.versions(["rtx"]) == versions(["rtx"])


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:port", "tcp://:8786"])
def test_an_address_of_nothing(address: str) -> None:
    with pytest.raises(ConversionError) as raised:
        ClusterPool(address)
    assert str(raised.value) == (
        f"{address}: is not an address of a Dask scheduler\n  fix: write it as in tcp://HOST:8786"
    )


def test_tls_without_certificates() -> None:
    """In a separate process: Dask leaves an incomplete client, and the next one may wait for it."""
    program = (
        "from prototrt.converter.front.batch.cluster import ClusterPool\n"
        "try: ClusterPool('tls://127.0.0.1:9')\n"
        "except Exception as error: print(error, flush=True)\n"
        "import os; os._exit(0)"
    )
    done = run_python("-c", program)
    assert done.stdout.startswith("tls://127.0.0.1:9: no Dask scheduler answers\n"), done.stderr


TLS = """
import sys
from distributed import LocalCluster
from prototrt.converter.front.batch.cluster import ClusterPool, is_exposed

if __name__ == "__main__":
    with LocalCluster(protocol="tls://", n_workers=1, processes=False, dashboard_address=None) as cluster:
        pool = ClusterPool(cluster.scheduler_address)
        print(cluster.scheduler_address, pool.versions(["rtx"])["prototrt"])
        pool.close()
"""


@pytest.mark.exhaustive
def test_tls_as_dask_is_configured(tmp_path: Path) -> None:
    """By the variables that docs/batch.md names: a certificate for each, all signed by one."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which makes the certificate")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=dask"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = {"CA_FILE": certificate}
    files |= {f"{who}__CERT": certificate for who in ("SCHEDULER", "WORKER", "CLIENT")}
    files |= {f"{who}__KEY": key for who in ("SCHEDULER", "WORKER", "CLIENT")}
    named = set(re.findall(r"DASK_\w+", (ROOT / "docs" / "batch.md").read_text()))
    variables = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": path for name, path in files.items()}
    assert named == {*variables, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"}
    variables["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "True"
    program = tmp_path / "program.py"
    program.write_text(TLS)
    address, version, *_ = run_python(program, variables=variables).stdout.split()
    assert address.startswith("tls://")
    assert version == prototrt.__version__


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("tcp://10.0.0.7:8786", True),
        ("scheduler:8786", True),
        ("tcp://127.0.0.1.example.com:8786", True),
        ("ucx://10.0.0.7:8786", True),
        ("tls://10.0.0.7:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("localhost:8786", False),
        ("tcp://[::1]:8786", False),
        ("inproc://10.0.0.7/1/1", False),
    ],
)
def test_who_else_may_reach_the_scheduler(address: str, exposed: bool) -> None:
    assert is_exposed(address) == exposed


def test_an_exposed_scheduler_is_warned_of() -> None:
    options = BatchOptions("out", scheduler="tcp://10.0.0.7:8786")
    result = BatchResult("models.yaml", datetime.now(timezone.utc), 0.0, [])
    assert warnings_of(options, result) == [
        "tcp://10.0.0.7:8786: whoever reaches this port can run code on the workers and here; use tls://, "
        "as docs/batch.md shows"
    ]
    assert warnings_of(replace(options, scheduler="tls://10.0.0.7:8786"), result) == []


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.converter.front.batch.cluster._CONNECT_SECONDS", 1)
    with pytest.raises(ConversionError) as raised:
        ClusterPool("tcp://127.0.0.1:9")
    assert raised.value.exit_code == 4
    first, *_, last = str(raised.value).splitlines()
    assert first == "tcp://127.0.0.1:9: no Dask scheduler answers"
    assert last == "  fix: start one with `dask scheduler`, and use the address that it prints"


def is_open(address: str) -> bool:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


@contextmanager
def dask(*workers: Mapping[str, str]) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and the processes: it, and a worker with each of these environments."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "dask"]
    ours = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    own = ["scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
    processes = [subprocess.Popen([*command, *own], stderr=subprocess.DEVNULL, env=ours)]
    try:
        while not is_open(address):  # a busy machine takes its time to start it
            assert processes[0].poll() is None
            time.sleep(0.1)
        for variables in workers:
            own = ["worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
            worker = subprocess.Popen([*command, *own], stderr=subprocess.DEVNULL, env={**ours, **variables})
            processes.append(worker)
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def pool_of(address: str, workers: int) -> ClusterPool:
    pool = ClusterPool(address, jobs=1)
    pool._client.wait_for_workers(workers, timeout=300)
    return pool


OTHERS = {
    "none": ("import sys; sys.modules['prototrt'] = None", "'prototrt' is not a package"),
    "an older one": (
        "import sys; sys.modules['prototrt.converter.front.batch.cluster'] = None",
        "import of prototrt.converter.front.batch.cluster halted",
    ),
    "a newer one": (
        "import prototrt.converter.front.batch.cluster as own; del own.run_here",
        "Can't get attribute 'run_here'",
    ),
    "another answer": (
        "import prototrt.converter.front.batch.cluster as own; own.run_here = lambda entry: 'ok'",
        "TypeError: replace() should be called on dataclass instances",
    ),
}
"""What a worker's Python runs at its start, and the reason in the verdict."""
WORKER_FAILS = "fix: install this version of prototrt for each worker, with the same Python"


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(*other, id=name, marks=() if name == "another answer" else pytest.mark.exhaustive)
        for name, other in OTHERS.items()
    ],
)
def test_a_worker_with_another_prototrt(tmp_path: Path, code: str, because: str) -> None:
    """The net has a verdict; neither is it lost, nor does the batch end."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([str(tmp_path / "own"), str(ROOT / ".dev")])
    with dask({"PYTHONPATH": path}) as (address, _):
        pool = pool_of(address, 1)
        (outcome,) = run_entries([entry(tmp_path)], pool, None, True, print)
        assert (outcome.status, outcome.exit_code) == (Status.FAILED, 4)
        first, why, fix = outcome.message.splitlines()
        assert first == f"{outcome.entry.prototxt}: a worker of the cluster cannot run prototrt {VERSION}"
        assert because in why
        assert fix.strip() == WORKER_FAILS
        if "not a package" in because:
            with pytest.raises(ConversionError) as raised:
                pool.versions(["rtx"])
            assert raised.value.exit_code == 4
            assert raised.value.problem == first.partition(": ")[2]
        pool.close()


@pytest.mark.exhaustive
def test_no_worker_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask would wait for another one without a word."""
    monkeypatch.setattr("prototrt.converter.front.batch.cluster._LEFT_SECONDS", 2.0)
    with dask({}) as (address, processes):
        pool = pool_of(address, 1)
        threading.Timer(3.0, processes[1].kill).start()
        long = long_entry(tmp_path)
        outcome = pool.run(long)
        assert (outcome.status, outcome.exit_code) == (Status.FAILED, 4)
        assert outcome.message == "the cluster has no workers\n  fix: start some with `dask worker SCHEDULER`"
        pool.close()


@pytest.mark.exhaustive
def test_a_model_that_kills_each_worker(tmp_path: Path) -> None:
    """One worker after the other dies; the last one lives on, and the next net is converted."""
    rules = tmp_path / "rules.py"
    rules.write_text("import os\nos.kill(os.getppid(), 9)\n")
    with dask({}, {}, {}) as (address, _):
        pool = pool_of(address, 3)
        outcome = pool.run(entry(tmp_path, "deadly", rules=str(rules)))
        assert (outcome.status, outcome.exit_code) == (Status.CRASHED, 4)
        assert outcome.message.startswith(f"{tmp_path / 'deadly.prototxt'}: each worker that took it died: ")
        assert pool.run(entry(tmp_path)).status is Status.CONVERTED
        pool.close()


@pytest.mark.parametrize(
    ("more", "status"),
    [({"memory": 30_000_000}, Status.OUT_OF_MEMORY), ({"cpu_time": 1.0}, Status.TIMED_OUT)],
)
def test_limits_on_a_cluster(pool: ClusterPool, tmp_path: Path, more: Any, status: Status) -> None:
    assert pool.run(long_entry(tmp_path, **more)).status is status
    assert pool.run(entry(tmp_path)).status is Status.CONVERTED


def test_hostile_names_on_a_cluster(pool: ClusterPool, tmp_path: Path) -> None:
    net = NET.replace('"fc"', '"\\n::error::\\033[2J\\342\\200\\256"')
    assert pool.run(entry(tmp_path, net=net)).status is Status.CONVERTED
    wrong = pool.run(entry(tmp_path, net=net.replace("InnerProduct", "Mystery\\n::error::")))
    assert (wrong.status, wrong.exit_code) == (Status.FAILED, 3)
    assert "\n::" not in wrong.message


@pytest.mark.exhaustive
def test_a_scheduler_that_dies(tmp_path: Path) -> None:
    """What is done is kept, and no model is blamed for the rest.

    One job at a time: with two, the worker might take the long model first, and convert it.
    """
    with dask({}) as (address, processes):
        pool = pool_of(address, 1)
        first = entry(tmp_path)
        entries = [first, long_entry(tmp_path, cpu_time=3.0), replace(first, name="later")]
        outcomes = run_entries(entries, pool, None, True, lambda outcome: processes[0].kill())
        pool.close()
    gone = (
        f"{address}: the Dask scheduler is gone\n  fix: start it and its workers, and run the command again"
    )
    assert [(outcome.status, outcome.exit_code) for outcome in outcomes] == [
        (Status.CONVERTED, 0),
        (Status.SKIPPED, 4),
        (Status.SKIPPED, 4),
    ]
    assert f"not converted: {gone}" in {outcome.message for outcome in outcomes}
    assert Path(first.target).exists()

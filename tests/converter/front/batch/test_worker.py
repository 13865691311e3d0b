"""Each model is isolated: what ends its process ends that model only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prototrt.converter.files.writing.publication import publication
from prototrt.converter.front.batch import worker as worker_module
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.keys import default_options
from prototrt.converter.front.batch.worker import Worker
from prototrt.tests.converter.front.batch.support import NET, entry, long_entry
from prototrt.tests.cut_weights import cut_short

pytestmark = pytest.mark.trt


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """Its process takes a second to start: one that has ended starts again for the next model."""
    worker = Worker()
    yield worker
    worker.close()


def converts(worker: Worker, folder: Path) -> Outcome:
    outcome = worker.run(entry(folder, "next"))
    assert outcome.status is Status.CONVERTED, outcome.message
    return outcome


def test_a_conversion_tells_what_was_made(worker: Worker, tmp_path: Path) -> None:
    outcome = converts(worker, tmp_path)
    size = sum(os.path.getsize(tmp_path / name) for name in ("next.plan", "next.plan.json"))
    assert (outcome.exit_code, outcome.message, outcome.warnings) == (0, "", ())
    counts = {"caffe_layers": 2, "nodes": 2, "bytes": size}
    assert outcome.facts == {**counts, "verification": None, "left_out": [], "further_files": []}


def test_one_process_takes_one_model_after_the_other(worker: Worker, tmp_path: Path) -> None:
    converts(worker, tmp_path)
    assert worker._process is not None
    first = worker._process.pid
    converts(worker, tmp_path)
    assert worker._process.pid == first


def test_a_mistake_in_the_model(worker: Worker, tmp_path: Path) -> None:
    wrong = entry(tmp_path, "wrong", NET.replace("InnerProduct", "Mystery"))
    outcome = worker.run(wrong)
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 3)
    assert outcome.message.startswith(f'{wrong.prototxt}:3: layer "fc" (Mystery): there is no rule for')
    converts(worker, tmp_path)


def test_options_that_contradict_each_other(worker: Worker, tmp_path: Path) -> None:
    outcome = worker.run(entry(tmp_path, onnx_lstm=True))
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 3)
    assert outcome.message == "models.yaml:2: onnx-lstm is for ONNX models, but FILE does not end in .onnx"


def test_our_own_mistake(worker: Worker, tmp_path: Path) -> None:
    outcome = worker.run(entry(tmp_path, define=5))  # which the list of models would refuse
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 1)
    assert outcome.message.startswith("internal error\nTraceback ")


def test_a_hang(worker: Worker, tmp_path: Path) -> None:
    slow = long_entry(tmp_path, timeout=1.0)
    outcome = worker.run(slow)
    assert (outcome.status, outcome.exit_code) == (Status.TIMED_OUT, 4)
    assert outcome.message == (
        f"{slow.prototxt}: not finished after 1 s\n  fix: raise its timeout in models.yaml:2"
    )
    assert os.listdir(tmp_path) == ["long.prototxt"]
    converts(worker, tmp_path)


def test_too_much_cpu_time(worker: Worker, tmp_path: Path) -> None:
    long = long_entry(tmp_path, cpu_time=1.0)
    outcome = worker.run(long)
    assert (outcome.status, outcome.exit_code) == (Status.TIMED_OUT, 4)
    assert outcome.message == (
        f"{long.prototxt}: it took more than 1 s of CPU time\n  fix: raise its cpu-time in models.yaml:2"
    )
    converts(worker, tmp_path)


def test_a_file_that_is_too_large(worker: Worker, tmp_path: Path) -> None:
    large = entry(tmp_path, "large", file_size=100)
    outcome = worker.run(large)
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 4)
    assert outcome.message == (
        f"{large.prototxt}: it would write a file of more than 0 MB\n  fix: raise its file-size in models.yaml:2"
    )
    assert not list(tmp_path.glob("*.plan*"))
    converts(worker, tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is watched on Linux only")
def test_too_much_memory(worker: Worker, tmp_path: Path) -> None:
    large = long_entry(tmp_path, memory=30_000_000, timeout=60.0)
    outcome = worker.run(large)
    assert (outcome.status, outcome.exit_code) == (Status.OUT_OF_MEMORY, 4)
    assert outcome.message == (
        f"{large.prototxt}: it took more than 30 MB\n  fix: allow more memory in models.yaml:2"
    )
    converts(worker, tmp_path)


@pytest.mark.parametrize(
    ("number", "status", "told"),
    [
        (signal.SIGSEGV, Status.CRASHED, "its process ended with signal SIGSEGV"),
        (
            signal.SIGKILL,  # what Linux sends where memory runs out
            Status.OUT_OF_MEMORY,
            "the machine does not have enough memory\n  fix: run fewer models at once",
        ),
    ],
)
def test_a_crash(worker: Worker, tmp_path: Path, number: int, status: Status, told: str) -> None:
    converts(worker, tmp_path)
    assert worker._process is not None
    threading.Timer(0.3, os.kill, (worker._process.pid, number)).start()
    doomed = long_entry(tmp_path)
    outcome = worker.run(doomed)
    assert (outcome.status, outcome.exit_code) == (status, 4)
    assert outcome.message == f"{doomed.prototxt}: {told}"
    converts(worker, tmp_path)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os._exit(3)", ": its process ended with exit code 3"),
        ("raise KeyboardInterrupt", "\n  KeyboardInterrupt"),
        ("import os; os.closerange(3, 40)", "\n  OSError: [Errno 9] Bad file descriptor"),
    ],
)
def test_a_process_that_ends_by_itself_is_not_killed(
    worker: Worker, tmp_path: Path, code: str, told: str
) -> None:
    """It would seem to have run out of memory."""
    (tmp_path / "rules.py").write_text(code)
    outcome = worker.run(entry(tmp_path, rules=str(tmp_path / "rules.py")))
    assert (outcome.status, outcome.exit_code) == (Status.CRASHED, 4)
    assert outcome.message.endswith(told)
    converts(worker, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize(
    ("own_end", "status"), [("time.sleep(600)", Status.TIMED_OUT), ("os._exit(3)", Status.CRASHED)]
)
def test_what_a_file_of_rules_starts_ends_with_the_process(
    worker: Worker, tmp_path: Path, own_end: str, status: Status
) -> None:
    """A child holds the pipe open by which outcomes come."""
    (tmp_path / "rules.py").write_text(
        "import os, time\n"
        "child = os.fork()\n"
        "if child == 0:\n    time.sleep(600)\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child))\n{own_end}\n"
    )
    outcome = worker.run(entry(tmp_path, rules=str(tmp_path / "rules.py"), timeout=10.0))
    assert outcome.status is status
    assert outcome.seconds < 60
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 60
    while not is_gone(child):  # it closes its files before it has ended
        assert time.monotonic() < until
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; its parent may not have heard of it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.parametrize("way", ["end", "stop", "close"])
def test_a_process_that_hangs_is_killed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may also have closed the pipe by which outcomes come, without a time limit."""
    monkeypatch.setattr(worker_module, "_SECONDS_TO_END", 0.1)
    hanging = [sys.executable, "-c", "import time; time.sleep(20)"]
    worker = Worker()
    worker._process = process = subprocess.Popen(hanging, start_new_session=True)
    {"end": lambda: Worker._ends(process), "stop": worker.stop, "close": worker.close}[way]()
    assert process.wait() != 0, "it has ended by itself"
    worker.close()


@pytest.mark.skipif(sys.platform == "win32", reason="its pipes have other numbers")
def test_a_hang_without_output_is_no_lack_of_memory(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_SECONDS_TO_END", 0.5)
    (tmp_path / "rules.py").write_text("import os, time\nos.closerange(3, 40)\ntime.sleep(60)")
    outcome = worker.run(entry(tmp_path, rules=str(tmp_path / "rules.py")))
    assert outcome.status is Status.CRASHED
    assert outcome.message.endswith(": its process closed its output, but did not end, and was killed")


def test_of_much_that_is_printed_the_end_is_quoted(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("import os\nos.write(2, b'x' * 5_000_000)\nos.abort()")
    outcome = worker.run(entry(tmp_path, rules=str(tmp_path / "rules.py")))
    assert outcome.status is Status.CRASHED
    assert 1000 < len(outcome.message) < 3000


def test_what_is_printed_does_not_come_between(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries print to stdout, and the message quotes the last line before a crash."""
    code = 'import os\nos.write(1, b"a library talks\\n")\n'
    (tmp_path / "tensorrt_rtx.py").write_text(code + "os.abort()\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = worker.run(entry(tmp_path))
    assert outcome.status is Status.CRASHED
    assert outcome.message.endswith(": its process ended with signal SIGABRT\n  a library talks")


def test_a_dead_process_leaves_no_half_written_files(worker: Worker, tmp_path: Path) -> None:
    converts(worker, tmp_path)
    with publication(tmp_path / "other.plan") as files, files.create(tmp_path / "other.plan"):
        (mine,) = tmp_path.glob(".*.part")
        (tmp_path / ".prototrt-0123456789abcdef.part").mkdir()
        worker.run(long_entry(tmp_path, timeout=0.2))
        assert list(tmp_path.glob(".*")) == [mine]


def test_weights_that_are_cut_short_are_no_crash(worker: Worker, tmp_path: Path) -> None:
    cut = cut_short(tmp_path)
    options = {**default_options(), "rules": str(cut.rules), "backend": "rtx"}
    outcome = worker.run(
        Entry("large", "models.yaml:2", str(cut.net), str(cut.weights), str(tmp_path / "a.plan"), options)
    )
    assert (outcome.status, outcome.exit_code, outcome.message) == (Status.FAILED, 3, cut.message)


PARENT = """
import sys, threading
from pathlib import Path
from prototrt.converter.front.batch.worker import Worker
from prototrt.converter.files.writing.publication import publication
from prototrt.tests.converter.front.batch.support import {entry}

worker = Worker()
print(worker._live_process().pid, flush=True)
outcome = worker.run({entry}(Path(sys.argv[1])))
print("done", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("entry_of", "state"),
    [("long_entry", "starting"), ("long_entry", "working"), ("entry", "waiting")],
)
def test_a_process_ends_with_its_parent(entry_of: str, state: str, tmp_path: Path) -> None:
    """However the parent ends, and whatever the process is at: it would hold its memory for ever."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PARENT.format(entry=entry_of), str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if state == "waiting":
            assert parent.stdout.readline() == b"done\n"
        elif state == "working":
            time.sleep(1.5)
        parent.kill()
    assert ends(pid)


def ends(pid: int) -> bool:
    """Within a minute; where it does not, it is ended here."""
    for _ in range(600):
        if not is_alive(pid):
            return True
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    return False


def is_alive(pid: int) -> bool:
    """Not counting the dead that nobody has asked after."""
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(told.strip()) and not told.startswith("Z")

"""A separate process for models, so that a crash, a hang or a lack of memory ends only one model."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from prototrt.caffe_proto.common.files import change_since, identity_of
from prototrt.caffe_proto.common.memory import usual_limit
from prototrt.converter.files.writing.publication import tidy
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.watch import Watch, death_at_limit, set_limits
from prototrt.converter.front.batch.work import out_of_memory, work
from prototrt.converter.running.processes import end_with, kill_with_children, python_command

_LAST_LINES, _LAST_BYTES = 5, 2_000
_SECONDS_TO_END = 5.0
"""For a process that has closed its stdout: it may still be ending by itself, and then says how."""


class Worker:
    """Runs one entry after the other in a process, and starts another when that has died.

    Used from one thread, except for ``stop``.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        self._stopped = False

    def run(self, entry: Entry) -> Outcome:
        """The outcome, whatever happens to the process."""
        began = time.perf_counter()
        read = {file: identity_of(file) for file in (entry.prototxt, entry.weights) if file is not None}
        process = self._live_process()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = Watch(process, entry.timeout, entry.memory or usual_limit())
        try:
            pickle.dump(entry, process.stdin)
            process.stdin.flush()
            outcome: Outcome = pickle.load(process.stdout)
            return outcome
        except (EOFError, OSError, pickle.UnpicklingError):
            had_to_be_killed = not self._ends(process)
            for folder in {Path(os.path.realpath(file)).parent for file in entry.places.values()}:
                tidy(folder)
            seconds = time.perf_counter() - began
            if process.returncode == -signal.SIGBUS and (error := change_since(read)):
                return Outcome(entry, Status.FAILED, error.exit_code, seconds, str(error))
            if had_to_be_killed and watch.verdict is None:
                message = f"{entry.prototxt}: its process closed its output, but did not end, and was killed"
                return Outcome(entry, Status.CRASHED, 4, seconds, f"{message}{self._last_words()}")
            status, message = self._death(entry, process.returncode, watch.verdict)
            return Outcome(entry, status, 4, seconds, message)
        finally:
            watch.stop()

    def stop(self) -> None:
        """End the process at once, from any thread."""
        self._stopped = True
        if self._process is not None:
            kill_with_children(self._process)

    def close(self) -> None:
        """Let the process go."""
        if self._process is not None:
            kill_with_children(self._process)
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                _close_quietly(stream)
        self._stderr.close()

    def _live_process(self) -> subprocess.Popen[bytes]:
        """The process, or a new one if none is alive."""
        if self._process is None or self._process.poll() is not None:
            self._stderr.seek(0)
            self._stderr.truncate()
            self._process = subprocess.Popen(
                python_command(f"from {__name__} import serve; serve({os.getpid()})"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,  # so that what a file of rules starts is killed with it
            )
        return self._process

    @staticmethod
    def _ends(process: subprocess.Popen[bytes]) -> bool:
        """Whether the process ends by itself, or at its limits; else it is killed."""
        try:
            process.wait(_SECONDS_TO_END)
            return True
        except subprocess.TimeoutExpired:
            kill_with_children(process)
            process.wait()
            return False

    def _death(self, entry: Entry, returncode: int, verdict: Status | None) -> tuple[Status, str]:
        """What the end of the process means."""
        if verdict is Status.TIMED_OUT:
            late = f"not finished after {entry.timeout:g} s\n  fix: raise its timeout in {entry.where}"
            return verdict, f"{entry.prototxt}: {late}"
        if death := death_at_limit(entry, returncode):
            return death[0], f"{entry.prototxt}: {death[1]}"
        last = self._last_words()
        was_killed = returncode == -signal.SIGKILL and not self._stopped  # so does Linux when memory runs out
        if verdict is Status.OUT_OF_MEMORY or "bad_alloc" in last or was_killed:
            return Status.OUT_OF_MEMORY, f"{entry.prototxt}: {out_of_memory(entry)}"
        how = f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"exit code {returncode}"
        return Status.CRASHED, f"{entry.prototxt}: its process ended with {how}{last}"

    def _last_words(self) -> str:
        """What the process printed last, each line indented."""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, end - _LAST_BYTES))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "".join(f"\n  {line}" for line in lines[-_LAST_LINES:])


def _close_quietly(stream: IO[bytes] | None) -> None:
    """Closing a pipe to the dead may fail on what was not sent."""
    if stream is not None:
        try:
            stream.close()
        except OSError:
            return


def serve(parent: int) -> None:
    """The process: reads entries from stdin, writes outcomes to stdout, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
    end_with(parent)
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    outcomes = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not write between the outcomes
    while True:
        try:
            entry = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        set_limits(entry)
        pickle.dump(work(entry), outcomes)
        outcomes.flush()


def _end_with(parent: int) -> None:
    """End when the parent has died: otherwise a hang would never end.

    The caller must name the process: it may have died before we could ask.
    """
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)

"""Each call to the operating system fails, ends the process, or is the last before Ctrl-C: in a process of its own."""

from __future__ import annotations

import _thread
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from types import FrameType
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError

NAMES = {"open", "write", "fsync", "flock", "mkdir", "rmdir", "rename", "replace", "unlink", "remove"}
LINKS_AND_LISTS = {"link", "symlink", "readlink", "listdir", "scandir"}
REFUSED, KILLED, NOT_REACHED, INTERRUPTED = 3, 9, 77, 130


class Fault(Enum):
    """How the call ends."""

    FAIL = "fails"
    KILL = "kills"
    INTERRUPT = "is the last before Ctrl-C"


def faults(action: Callable[[], object], fault: Fault, every: int = 1) -> Iterator[tuple[str, int]]:
    """Run ``action`` with the fault in its first call, in its second, and so on, until it has no further call.

    ``every`` 15 takes every 15th call only: one fault from the first, the next from the sixth, the last from the 11th.
    Gives the place of the fault, to be printed, and the exit code: 0 if the action did not raise, ``REFUSED``
    for a ``ConversionError``, ``KILLED``, ``INTERRUPTED``.
    """
    for number in calls_from(fault, every):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _run(action, fault, number, writing)
        os.close(writing)
        with open(reading, encoding="utf-8") as told:
            place = told.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == NOT_REACHED:
            assert number >= every, "the action has no calls"
            return
        assert code in (0, REFUSED, KILLED, INTERRUPTED), f"{place}: exit code {code}"
        yield f"call {number}, {place}, {fault.value}", code


def calls_from(fault: Fault, every: int) -> range:
    """The numbers of the calls that have this fault: together, the faults have thrice as many."""
    return range([*Fault].index(fault) * every // len(Fault), 10_000, every)


def _run(action: Callable[[], object], fault: Fault, number: int, told: int) -> None:
    """The child: it never returns."""
    code = NOT_REACHED
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    try:
        reached = inject(fault, number, told)
        action()
        code = 0 if reached else NOT_REACHED
    except ConversionError:
        code = REFUSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException as error:
        os.write(told, f" {type(error).__name__}: {error}".encode())
        code = 1
    finally:
        os._exit(code)


def _is_system_call(called: Any) -> bool:
    """Whether it is such a function, or such a method of a file: strings, too, have a ``replace``."""
    if isinstance(called.__self__, (io.BytesIO, io.StringIO)):
        return False
    home = called.__module__ or type(called.__self__).__module__
    return called.__name__ in NAMES | LINKS_AND_LISTS and home in ("posix", "fcntl", "io", "_io")


def inject(fault: Fault, number: int, told: int, home: str = "") -> list[str]:
    """Let the call with this number end with the fault, and write to the descriptor ``told`` where it was.

    Only calls made by modules with ``home`` in their path count. The list has an element once it has happened.
    """
    left, reached = [number], list[str]()

    def snap(frame: FrameType, event: str, called: Any) -> None:
        at = "c_return" if fault is Fault.INTERRUPT else "c_call"
        if event != at or reached or not _is_system_call(called):
            return
        if home not in frame.f_code.co_filename:
            return
        if left[0]:
            left[0] -= 1
            return
        reached.append(called.__name__)
        sys.setprofile(None)
        os.write(told, f"{called.__name__} in {frame.f_code.co_name}".encode())
        if fault is Fault.KILL:
            os._exit(KILLED)
        if fault is Fault.INTERRUPT:
            _thread.interrupt_main()  # as by the signal, without the stack on which libraries want signals handled
            return
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    threading.setprofile(snap)
    sys.setprofile(snap)
    return reached

"""Commands that are ended from outside: by a crash of a native library, or by a signal.

The command runs in a child process that is forked before anything is imported, which takes a millisecond.
Source of the need: TensorRT for RTX 1.7.1 ends the process for some networks, and the system ends a process
whose mapped weights are cut short. See docs/decisions.md, 0017.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.files import Identity, change_since, identity_of
from prototrt.converter.files import black_box
from prototrt.converter.running.processes import end_with

if TYPE_CHECKING:
    from prototrt.converter.front.commandline.failures import Failure

_EXIT_CODE = 4
_CRASHES = {
    "SIGABRT": "aborted",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGILL": "illegal instruction",
    "SIGKILL": "killed: most likely memory ran out",
    "SIGSEGV": "segmentation fault",
}


def survive(command: Callable[[], None]) -> None:
    """Run the command in a child process, and end as it ends; a crash is reported, with exit code 4.

    Signals that ask this process to end are passed on. What the child was writing is removed.
    """
    if not hasattr(os, "fork"):
        command()
        return
    black_box.share()
    read = {name: identity_of(name) for name in sys.argv[1:]}
    passed_on = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    parent, child = os.getpid(), os.fork()
    if child == 0:
        end_with(parent)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if callable(
                signal.getsignal(number)
            ):  # the parent tidies up after a child that a signal has ended
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        command()
        return
    status = _awaited(child, passed_on)
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    sys.exit(_exit_code(signal.Signals(os.WTERMSIG(status)), read))


def _awaited(child: int, passed_on: set[signal.Signals]) -> int:
    """The status of the child when it has ended. Ctrl-C reaches both processes, so it is not passed on."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if hasattr(signal, "sigwaitinfo"):
            info = signal.sigwaitinfo({*passed_on, signal.SIGCHLD})
            number, is_from_terminal = info.si_signo, info.si_signo == signal.SIGINT and info.si_code > 0
        else:  # as on macOS, which does not say who sent it
            number = signal.sigwait({*passed_on, signal.SIGCHLD})
            is_from_terminal = number == signal.SIGINT
        if number in passed_on and not is_from_terminal:
            os.kill(child, number)


def _exit_code(ended_by: signal.Signals, read: dict[str, Identity | None]) -> int:
    """Tell what ended the command; the exit code."""
    from prototrt.converter.files.writing.publication import tidy
    from prototrt.converter.front.commandline.failures import Failure, failure_of

    if folder := black_box.read(black_box.FOLDER):
        with suppress(ConversionError):  # another process writes there, and tidies up the next time
            tidy(folder)
    if ended_by.name not in _CRASHES:  # somebody asked for it
        return 128 + ended_by
    if ended_by.name == "SIGBUS" and (error := change_since(read)):
        return _print_failure(failure_of(error))
    task = black_box.read(black_box.TASK)
    where = f" while {task}" if task else ""
    problem = f"the command crashed{where} ({_CRASHES[ended_by.name]})"
    fix = "write an ONNX model instead (-o FILE.onnx), or try another release of TensorRT; -v shows TensorRT's log"
    return _print_failure(Failure.of("Crash", _EXIT_CODE, problem, fix))


def _print_failure(failure: Failure) -> int:
    failure.print("--json" in sys.argv)
    return failure.exit_code

"""``python -m prototrt``, and the installed commands from their first moment on.

The imports of a command take a tenth of a second. Ctrl-C may come during them, and ends with 130 there, too.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    sys.path.pop(0)  # the current folder: what lies there is not to be imported, not even by the next lines

import atexit
import gc
import os
import signal
from contextlib import suppress


def prototrt_main() -> None:
    """``prototrt``."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from prototrt import __version__

        with suppress(OSError):  # the full command says what is wrong
            print(f"prototrt, version {__version__}", flush=True)
            return
    _run("prototrt_main")


def convert_main() -> None:
    """``convert``."""
    _run("convert_main")


def _run(name: str) -> None:
    gc.set_threshold(_MANY_OBJECTS)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # until the command has children to end
            signal.signal(number, lambda number, frame: os._exit(128 + number))
    try:
        _ask_for_huge_pages()
        from prototrt.converter.front.commandline.stopping import Interrupt

        if (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):  # not where it is ignored, as by nohup
            signal.signal(signal.SIGINT, Interrupt())
        from prototrt import cli

        getattr(cli, name)()
    except KeyboardInterrupt:
        if sys.stderr is not None:  # as it is where the user has closed it
            print("stopped", file=sys.stderr)
        _end(_STOPPED)
    except SystemExit as end:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is known
        if end.code is None or isinstance(end.code, int):
            with suppress(OSError):  # Python says which stream it could not write
                _end(end.code or 0)
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _ask_for_huge_pages() -> None:
    """Start again where a file is large, so that memory comes in huge pages: see docs/decisions.md, 0017.

    The C library reads the setting once, when it is loaded. One of the user stays.
    """
    if sys.platform != "linux" or _TUNABLES in os.environ or not any(map(_is_large, sys.argv[1:])):
        return
    os.environ[_TUNABLES] = "glibc.malloc.hugetlb=1"
    with suppress(OSError):  # it is only slower then
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _is_large(word: str) -> bool:
    with suppress(OSError, ValueError):  # a word that is no file
        return os.path.getsize(word) >= _LARGE
    return False


_TUNABLES = "GLIBC_TUNABLES"
_LARGE = 1 << 26
"""Bytes of weights from which on huge pages save more than starting Python again costs."""
_STOPPED = 130
_MANY_OBJECTS = 100_000
"""New ones before Python's collector searches for garbage: those of imports stay, so that it would find nothing."""


def _end(code: int) -> None:
    """End at once: Python would take all modules apart, and end itself by SIGINT if that came within ``exec``."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    prototrt_main()

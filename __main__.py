"""``python -m prototrt``, and the installed commands from their first moment on.

The imports of a command take a tenth of a second. Ctrl-C may come during them, and ends with 130 there, too.
"""

from __future__ import annotations

import os
import signal
import sys


def prototrt_main() -> None:
    """``prototrt``."""
    _run("prototrt_main")


def convert_main() -> None:
    """``convert``."""
    _run("convert_main")


def _run(name: str) -> None:
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # until the command has children to end
            signal.signal(number, lambda number, frame: os._exit(128 + number))
    try:
        from prototrt.converter.commandline.stopping import Interrupt

        if (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):  # not where it is ignored, as by nohup
            signal.signal(signal.SIGINT, Interrupt())
        from prototrt import cli

        getattr(cli, name)()
    except KeyboardInterrupt:
        if sys.stderr is not None:  # as it is where the user has closed it
            print("stopped", file=sys.stderr)
        _stop()
    except SystemExit as end:
        if end.code == _STOPPED:
            _stop()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is known: let Python end in peace


_STOPPED = 130


def _stop() -> None:
    """End at once. Where the signal came within ``exec``, as of a dataclass, Python would end itself by SIGINT."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(_STOPPED)


if __name__ == "__main__":
    prototrt_main()

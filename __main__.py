"""``python -m prototrt``, and the installed commands from their first moment on.

The imports of a command take a tenth of a second. Ctrl-C may come during them, and ends with 130 there, too.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def prototrt_main() -> None:
    """``prototrt``."""
    try:
        from prototrt.cli import prototrt_main

        prototrt_main()
    except KeyboardInterrupt:
        _stop()


def convert_main() -> None:
    """``convert``."""
    try:
        from prototrt.cli import convert_main

        convert_main()
    except KeyboardInterrupt:
        _stop()


def _stop() -> NoReturn:
    if sys.stderr is not None:  # as it is where the user has closed it
        print("stopped", file=sys.stderr)
    sys.exit(130)


if __name__ == "__main__":
    prototrt_main()

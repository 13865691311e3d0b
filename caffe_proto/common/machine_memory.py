"""How much memory there is for this process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_OF_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The limit of a container, in the second and the first form of Linux' control groups."""
SHARE = 0.8


def usual_limit() -> int | None:
    """Bytes that one net may take: a share of the memory of the machine, or of the container. None if unknown."""
    limits = []
    with suppress(ValueError, OSError, AttributeError):  # the last on Windows
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _OF_CONTAINER:
        with suppress(OSError, ValueError):  # "max" is no limit
            limits.append(int(Path(file).read_text()))
    return int(SHARE * min(limits)) if limits else None

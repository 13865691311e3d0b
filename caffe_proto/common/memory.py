"""Memory: how much there is, sizes as people write them, and Python's collector at rest where it would find nothing."""

from __future__ import annotations

import gc
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prototrt.caffe_proto.common.errors import NetError

_DECIMAL = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS = _DECIMAL | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def bytes_from_text(text: str) -> int | None:
    """``4GB`` or ``500 MiB`` in bytes; None if the text is not a size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([^\W\d]\w*|)", text)
    if not match or match[2] not in _UNITS:
        return None
    count = float(match[1]) * _UNITS[match[2]]
    return int(count) if math.isfinite(count) else None


def text_of_bytes(count: int) -> str:
    """``2.5 GB``, ``800.0 MB``, ``3.1 kB``, ``12 bytes``: with the unit that leaves few digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


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


def refuse_beyond_memory(what: str, needed: int, where: str | None = None, size: int = 0) -> None:
    """Raise ``NetError`` for what a file of ``size`` bytes states, if it takes more than the file and the memory have.

    It is asked before the memory is taken: a few bytes can state any size.
    """
    most = usual_limit()
    if most is not None and needed > max(most, size):
        raise NetError(
            f"{what} takes {text_of_bytes(needed)}, expected at most {text_of_bytes(most)}",
            where=where,
            because=f"that is {100 * SHARE:.0f} % of the memory of this machine",
            fix="use smaller sizes, or a machine with more memory",
        )


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the collector, in all threads.

    For work that makes many objects that stay, such as the nodes of a large net: the collector would search
    them again and again, which takes a quarter of the time. If they are very many, they count as old
    afterwards, so that the next search for young garbage passes over them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _VERY_MANY:
                _age_all_objects()
            gc.enable()


_VERY_MANY = 50_000


def _age_all_objects() -> None:
    """Move all objects to the oldest generation, without looking at them."""
    if not gc.get_freeze_count():  # what a program has frozen stays so
        gc.freeze()
        gc.unfreeze()

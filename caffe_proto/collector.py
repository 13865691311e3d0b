"""Python's collector of cyclic garbage, at rest where it would find none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the collector, in all threads.

    For work that makes many objects that stay, such as the nodes of a large net: the collector would search
    them again and again, which takes a quarter of the time. Cyclic garbage waits until the work is done.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

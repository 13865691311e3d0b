"""Python's collector of cyclic garbage, at rest where it would find none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
                _let_all_be_old()
            gc.enable()


_VERY_MANY = 50_000


def _let_all_be_old() -> None:
    """Move all objects to the oldest generation, without looking at them."""
    if not gc.get_freeze_count():  # what a program has frozen stays so
        gc.freeze()
        gc.unfreeze()

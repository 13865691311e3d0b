"""Keeping a conversion in a cache, as a batch does."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.converter.files.writing.files import atomic_write
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status

VERSIONS = {"prototrt": "1", "rtx": "1.7"}


def keep(cache: Cache, entry: Entry, content: str = "an engine", read: Sequence[str] = ()) -> str:
    """As if the entry had been converted."""
    for path, text in ((entry.target, content), (f"{entry.target}.json", "{}")):
        with atomic_write(path) as stream:  # as conversions do, since the old file may also be the cache's
            stream.write(text.encode())
    key = cache.key(entry)
    assert key is not None
    cache.store(key, Outcome(entry, Status.CONVERTED, warnings=("odd",), facts={"further_files": read}))
    return key

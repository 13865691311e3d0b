"""Making a cache smaller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.front.batch.cache_folder import conversions, discard, is_cache, unfinished

_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class PrunedCache:
    """What was removed and what is left, in conversions and bytes."""

    removed: int
    removed_bytes: int
    kept: int
    kept_bytes: int

    @property
    def summary(self) -> str:
        kept = f"{self.kept} kept ({text_of_bytes(self.kept_bytes)})"
        return f"{self.removed} removed ({text_of_bytes(self.removed_bytes)}), {kept}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _CachedConversion:
    folder: Path
    used: float
    bytes: int


def prune(folder: str, older_than: float | None = None, max_bytes: int | None = None) -> PrunedCache:
    """Remove conversions not used for that many days, then the least recently used ones above that many bytes.

    Without either, remove everything. Batches may run at the same time: they find complete conversions, or none.
    """
    root = Path(folder)
    if not is_cache(root):
        raise ConversionError(
            "is not a prototrt cache",
            where=folder,
            fix=Worded("give the folder that a batch was given as {}", Option("cache")),
        )
    _remove_unfinished(root)
    kept_ones = sorted(_conversions(root), key=lambda kept: kept.used, reverse=True)
    gone = [
        kept for kept, total in _with_totals(kept_ones) if _is_too_much(kept, total, older_than, max_bytes)
    ]
    for kept in gone:
        discard(root, kept.folder)
    gone_bytes, all_bytes = sum(kept.bytes for kept in gone), sum(kept.bytes for kept in kept_ones)
    return PrunedCache(len(gone), gone_bytes, len(kept_ones) - len(gone), all_bytes - gone_bytes)


def _is_too_much(
    kept: _CachedConversion, total: int, older_than: float | None, max_bytes: int | None
) -> bool:
    if older_than is None and max_bytes is None:
        return True
    is_old = older_than is not None and kept.used < time.time() - older_than * _DAY
    return is_old or (max_bytes is not None and total > max_bytes)


def _with_totals(conversions: list[_CachedConversion]) -> Iterator[tuple[_CachedConversion, int]]:
    """Each with the bytes of itself and all that were used later."""
    total = 0
    for kept in conversions:
        total += kept.bytes
        yield kept, total


def _conversions(root: Path) -> Iterator[_CachedConversion]:
    for folder in conversions(root):
        try:
            size = sum(path.stat().st_size for path in folder.iterdir())
            yield _CachedConversion(folder, folder.stat().st_mtime, size)
        except OSError:  # pruned by another process meanwhile
            continue


def _remove_unfinished(root: Path) -> None:
    """What a killed batch left; a day is longer than any copy takes."""
    for folder in unfinished(root):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - _DAY:
                discard(root, folder)

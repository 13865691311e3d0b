"""Making a cache smaller."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.wording import Option, Worded, plural
from prototrt.converter.files.writing.ownership import KEPT_SUFFIX, is_ours
from prototrt.converter.files.writing.publication import MARK, tidy

log = logging.getLogger(__name__)

_DAY = 24 * 3600
_NAME = re.compile(rf"[0-9a-f]{{64}}{re.escape(KEPT_SUFFIX)}")

_OLD = re.compile("[0-9a-f]{64}")
"""The folder of a conversion that prototrt 0.2 kept."""


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


def prune(folder: str, older_than: float | None = None, max_bytes: int | None = None) -> PrunedCache:
    """Remove conversions not used for that many days, then the least recently used ones above that many bytes.

    Without either, remove everything. Batches may run at the same time: they find complete conversions, or none.
    """
    root = Path(folder)
    if (root / MARK).is_symlink() or not (root / MARK).is_file():
        raise ConversionError(
            "is not a prototrt cache",
            where=folder,
            fix=Worded("give the folder that a batch was given as {}", Option("cache")),
        )
    files = sorted(_conversions(root), key=lambda each: each[1].st_mtime, reverse=True)
    totals = accumulate(status.st_size for _, status in files)
    gone = [
        (file, status)
        for (file, status), total in zip(files, totals, strict=True)
        if _is_too_much(status, total, older_than, max_bytes)
    ]
    for file, _ in gone:
        with suppress(OSError):  # pruned by another process meanwhile
            file.unlink()
    if old := sorted(each for each in root.glob("[0-9a-f][0-9a-f]/*") if _OLD.fullmatch(each.name)):
        log.warning(
            "%s: has %s of prototrt 0.2, which this release does not use: remove by hand what is like %s",
            folder,
            plural(len(old), "folder"),
            old[0],
        )
    gone_bytes, all_bytes = (sum(status.st_size for _, status in each) for each in (gone, files))
    return PrunedCache(len(gone), gone_bytes, len(files) - len(gone), all_bytes - gone_bytes)


def _is_too_much(status: os.stat_result, total: int, older_than: float | None, max_bytes: int | None) -> bool:
    """``total`` are the bytes of this file and all that were used later."""
    if older_than is None and max_bytes is None:
        return True
    is_old = older_than is not None and status.st_mtime < time.time() - older_than * _DAY
    return is_old or (max_bytes is not None and total > max_bytes)


def _conversions(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The conversions of a cache: nothing else in there is ever removed, and no link is followed."""
    for folder in root.glob("[0-9a-f][0-9a-f]"):
        if folder.is_symlink() or not folder.is_dir():
            continue
        tidy(folder)
        for file in folder.iterdir():
            if _NAME.fullmatch(file.name) and not file.is_symlink() and is_ours(file):
                with suppress(OSError):  # pruned by another process meanwhile
                    yield file, file.stat()

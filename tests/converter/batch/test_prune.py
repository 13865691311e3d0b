"""Pruning a cache: what was longest of no use goes, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.batch.cache import Cache
from prototrt.converter.batch.entry import Entry
from prototrt.converter.batch.prune import prune
from prototrt.tests.converter.batch.cached import keep
from prototrt.tests.converter.batch.support import entry


def three(cache: Cache, tmp_path: Path) -> list[Path]:
    """Conversions of some 700 bytes, last used 10, 5 and 0 days ago."""
    folders = []
    for days in (10, 5, 0):
        key = keep(cache, entry(tmp_path, f"n{days}"), "x" * 100)
        folders.append(cache.folder / key[:2] / key)
        used = time.time() - days * 24 * 3600
        os.utime(folders[-1], (used, used))
    return folders


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, []),
        ({"older_than": 7}, [1, 2]),
        ({"older_than": 20}, [0, 1, 2]),
        ({"max_bytes": 1700}, [1, 2]),
        ({"max_bytes": 0}, []),
        ({"older_than": 7, "max_bytes": 900}, [2]),
    ],
)
def test_prune_removes_what_was_longest_of_no_use(
    cache: Cache, tmp_path: Path, asked: dict[str, int], left: list[int]
) -> None:
    folders = three(cache, tmp_path)
    sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in folders]
    assert all(600 < size < 800 for size in sizes)
    pruned = prune(str(cache.folder), **asked)
    assert [folder for folder in folders if folder.exists()] == [folders[index] for index in left]
    assert (pruned.kept, pruned.removed) == (len(left), 3 - len(left))
    assert pruned.kept_bytes == sum(sizes[index] for index in left)


def test_use_makes_a_conversion_young(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    os.utime(cache.folder / key[:2] / key, (1, 1))
    assert cache.fetch(key, small) is not None
    assert prune(str(cache.folder), older_than=1).removed == 0


def test_prune_touches_nothing_else(cache: Cache, tmp_path: Path) -> None:
    three(cache, tmp_path)
    (cache.folder / "ab").mkdir(exist_ok=True)
    (cache.folder / "ab" / "mine.txt").touch()
    prune(str(cache.folder))
    assert (cache.folder / "ab" / "mine.txt").exists()
    with pytest.raises(ConversionError) as raised:
        prune(str(tmp_path))
    assert str(raised.value) == (
        f"{tmp_path}: is not a prototrt cache\n  fix: give the folder that a batch was given as cache"
    )


def test_prune_removes_what_a_killed_batch_left(cache: Cache) -> None:
    old, new = cache.folder / "new" / "old", cache.folder / "new" / "new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (1, 1))
    prune(str(cache.folder))
    assert (old.exists(), new.exists()) == (False, True)

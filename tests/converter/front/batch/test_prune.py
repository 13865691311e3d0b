"""Pruning a cache: what was longest of no use goes, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.prune import prune
from prototrt.tests.converter.front.batch.cached import VERSIONS, keep
from prototrt.tests.converter.front.batch.support import entry
from prototrt.tests.faults import Fault, faults
from prototrt.tests.samples import sampled


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


NOT_A_CACHE = "is not a prototrt cache\n  fix: give the folder that a batch was given as cache"
KEY, UNFINISHED, MARK = "ab" + "0" * 62, "0" * 32, "written-by-prototrt"


def pruned(root: Path) -> None:
    """Everything that prune would ever remove: no matter when it was used."""
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    prune(str(root))
    prune(str(root), max_bytes=0)


def contents(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


FOREIGN = (
    "mine/thesis.txt",
    "new/thesis.txt",
    "new/mine/thesis.txt",
    "new/tmpabcdefgh/entry/made",
    f"new/{UNFINISHED}/thesis.txt",
    f"new/{UNFINISHED}/made",
    f"new/{UNFINISHED.replace('0', 'A')}/{MARK}",
    f"new/{UNFINISHED}0/{MARK}",
    "ab/thesis.txt",
    "ab/mine/thesis.txt",
    f"ab/{KEY}/made",
    f"ab/{KEY}/outcome.json",
    f"AB/{KEY.upper()}/{MARK}",
    f"abc/{KEY}/{MARK}",
    KEY,
)
"""Files of a user in a cache."""


@pytest.mark.parametrize("file", FOREIGN)
def test_prune_touches_nothing_else(cache: Cache, tmp_path: Path, file: str) -> None:
    three(cache, tmp_path)
    mine = cache.folder / file
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    pruned(cache.folder)
    assert mine.read_text() == "mine"
    assert not list(cache.folder.glob("*/*/made.json"))


@pytest.mark.parametrize("file", ["thesis.txt", "made/thesis.txt"])
@pytest.mark.parametrize("folder", [f"ab/{KEY}", f"new/{UNFINISHED}"])
def test_a_conversion_with_a_file_of_the_user_is_kept(cache: Cache, folder: str, file: str) -> None:
    mine = cache.folder / folder / file
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (cache.folder / folder / MARK).touch()
    before = contents(cache.folder)
    pruned(cache.folder)
    assert contents(cache.folder) == before


@pytest.mark.parametrize("place", ["new", "ab", f"ab/{KEY}", f"new/{UNFINISHED}"])
def test_links_in_a_cache_lead_nowhere(cache: Cache, tmp_path: Path, place: str) -> None:
    """Folders of another cache would pass for conversions, or a user's for unfinished ones."""
    home = tmp_path / "home"
    for folder in (home, home / KEY, home / UNFINISHED):
        folder.mkdir()
        (folder / MARK).touch()
        (folder / "made").touch()
    (cache.folder / "new").rmdir()
    (cache.folder / place).parent.mkdir(exist_ok=True)
    (cache.folder / place).symlink_to(home)
    before = contents(home)
    pruned(cache.folder)
    assert contents(home) == before
    assert (cache.folder / place).is_symlink()


def test_a_cache_whose_folder_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new").symlink_to("home")
    (tmp_path / "home").mkdir()
    with pytest.raises(ConversionError) as raised:
        Cache(str(tmp_path), VERSIONS)
    assert str(raised.value) == (
        f'{tmp_path}: cannot be used as cache: its folder "new" is a link\n  fix: give another folder as cache'
    )


def test_a_place_that_leads_out_of_the_cache_is_not_used(cache: Cache, small: Entry, tmp_path: Path) -> None:
    key = keep(cache, small)
    prune(str(cache.folder))
    (tmp_path / "home").mkdir()
    (cache.folder / key[:2]).rmdir()
    (cache.folder / key[:2]).symlink_to(tmp_path / "home")
    with pytest.raises(OSError, match="is a link"):
        keep(cache, small)
    assert contents(tmp_path / "home") == []


def test_a_place_with_a_file_of_the_user_is_not_used(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    folder = cache.folder / key[:2] / key
    (folder / "thesis.txt").touch()
    (folder / "outcome.json").write_text("{")
    with pytest.raises(OSError, match="holds what prototrt did not write"):
        keep(cache, small)
    assert (folder / "thesis.txt").exists()
    assert not any((cache.folder / "new").iterdir())


@pytest.mark.parametrize("folder", ["new/mine", f"new/{UNFINISHED}", f"ab/{KEY}", ""])
def test_a_folder_that_no_batch_made_is_no_cache(tmp_path: Path, folder: str) -> None:
    """Although it has a folder called new, and in it one that nobody has changed for days."""
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    before = contents(tmp_path)
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConversionError) as raised:
            prune(str(root), older_than=30)
        assert str(raised.value) == f"{root}: {NOT_A_CACHE}"
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_has_the_name_of_the_mark_and_is_none(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "cache" / MARK
    mark.parent.mkdir()
    mark.symlink_to(tmp_path / "mine") if kind == "link" else mark.mkdir()
    Cache(str(mark.parent), VERSIONS)
    assert not (tmp_path / "mine").exists()
    (tmp_path / "mine").touch()
    with pytest.raises(ConversionError, match="is not a prototrt cache"):
        prune(str(mark.parent))


def test_a_cache_of_version_0_2_is_known_by_its_conversions(
    cache: Cache, small: Entry, tmp_path: Path
) -> None:
    """It has no marks. A conversion whose notes are damaged has no proof, and stays."""
    key, damaged = keep(cache, small), keep(cache, entry(tmp_path, "damaged"))
    for mark in cache.folder.rglob(MARK):
        mark.unlink()
    (cache.folder / damaged[:2] / damaged / "outcome.json").write_text("{}")
    assert cache.fetch(key, small) is not None
    assert prune(str(cache.folder)).removed == 1
    assert not (cache.folder / key[:2] / key).exists()
    assert (cache.folder / damaged[:2] / damaged / "made").exists()
    with pytest.raises(ConversionError, match="is not a prototrt cache"):
        prune(str(cache.folder))
    Cache(str(cache.folder), VERSIONS)
    assert prune(str(cache.folder)).removed == 0


def test_a_cache_that_may_only_be_read_is_used(
    cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keep(cache, small)
    (cache.folder / MARK).unlink()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "touch", refused)
    assert Cache(str(cache.folder), VERSIONS).fetch(key, small) is not None


def test_prune_removes_what_a_killed_batch_left(cache: Cache) -> None:
    old, new = cache.folder / "new" / UNFINISHED, cache.folder / "new" / UNFINISHED.replace("0", "1")
    for folder in (old, new):
        folder.mkdir()
        for name in (MARK, "made", "made.json"):
            (folder / name).touch()
    os.utime(old, (1, 1))
    prune(str(cache.folder))
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("every", sampled(20))
def test_whatever_fails_the_cache_stays_one(
    memory_path: Path, tmp_path: Path, every: int, fault: Fault
) -> None:
    """A conversion is whole or a miss, and what is left of it is removed after a day."""
    cache = Cache(str(memory_path), VERSIONS)
    kept = entry(tmp_path)
    key = keep(cache, kept)

    def store_and_prune() -> None:
        try:
            cache.store(key, Outcome(kept, Status.CONVERTED))
            prune(str(memory_path), max_bytes=0)
            cache.store(key, Outcome(kept, Status.CONVERTED))
        except OSError as error:
            raise ConversionError("fails") from error

    for call, _ in faults(store_and_prune, fault, every):
        cache.store(key, Outcome(kept, Status.CONVERTED))
        assert cache.fetch(key, kept) is not None, call
        pruned(memory_path)
        left = [path for path in memory_path.rglob("*") if path.is_file() and path.name != MARK]
        assert not left, call

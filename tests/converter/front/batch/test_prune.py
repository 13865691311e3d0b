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
    """Conversions of some 600 bytes, last used 10, 5 and 0 days ago."""
    files = []
    for days in (10, 5, 0):
        key = keep(cache, entry(tmp_path, f"n{days}"), "x" * 100)
        files.append(Path(cache.place_of(key)))
        used = time.time() - days * 24 * 3600
        os.utime(files[-1], (used, used))
    return files


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, []),
        ({"older_than": 7}, [1, 2]),
        ({"older_than": 20}, [0, 1, 2]),
        ({"max_bytes": 1500}, [1, 2]),
        ({"max_bytes": 0}, []),
        ({"older_than": 7, "max_bytes": 900}, [2]),
    ],
)
def test_prune_removes_what_was_longest_of_no_use(
    cache: Cache, tmp_path: Path, asked: dict[str, int], left: list[int]
) -> None:
    files = three(cache, tmp_path)
    sizes = [file.stat().st_size for file in files]
    assert all(500 < size < 700 for size in sizes)
    pruned = prune(str(cache.folder), **asked)
    assert [file for file in files if file.exists()] == [files[index] for index in left]
    assert (pruned.kept, pruned.removed) == (len(left), 3 - len(left))
    assert pruned.kept_bytes == sum(sizes[index] for index in left)


def test_use_makes_a_conversion_young(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    os.utime(cache.place_of(key), (1, 1))
    assert cache.fetch(key, small) is not None
    assert prune(str(cache.folder), older_than=1).removed == 0


def test_conversions_of_another_layout_are_left_and_told(
    cache: Cache, small: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    keep(cache, small)
    old = cache.folder / "ab" / ("ab" + "1" * 62)
    old.mkdir(parents=True)
    assert prune(str(cache.folder)).removed == 1
    assert old.is_dir()
    assert caplog.messages == [
        f"{cache.folder}: has 1 folder of prototrt 0.2, which this release does not use: remove by hand what is"
        f" like {old}"
    ]


NOT_A_CACHE = "is not a prototrt cache\n  fix: give the folder that a batch was given as cache"
KEY, MARK = "ab" + "0" * 62, "written-by-prototrt"
OURS = b"A conversion in a cache, written by prototrt\n"


def pruned(root: Path) -> None:
    """Everything that prune would ever remove: no matter when it was used."""
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    prune(str(root))
    prune(str(root), max_bytes=0)


def contents(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("thesis.txt", b"mine"),
        ("mine/thesis.txt", b"mine"),
        ("ab/thesis.txt", b"mine"),
        (f"ab/{KEY}.conversion", b"mine"),
        (f"ab/{KEY}/made", OURS),
        (f"ab/{KEY}", OURS),
        (f"ab/{KEY.upper()}.conversion", OURS),
        (f"AB/{KEY}.conversion", OURS),
        (f"abc/{KEY}.conversion", OURS),
        (f"{KEY}.conversion", OURS),
        ("ab/mine.part/thesis.txt", b"mine"),
        ("ab/.prototrt-0123456789abcdef.part/thesis.txt", b"mine"),
    ],
)
def test_prune_touches_nothing_else(cache: Cache, tmp_path: Path, file: str, content: bytes) -> None:
    """Neither what has another name, nor what has another content."""
    files = three(cache, tmp_path)
    mine = cache.folder / file
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_bytes(content)
    pruned(cache.folder)
    assert mine.read_bytes() == content
    assert not [file for file in files if file.exists()]


@pytest.mark.parametrize("place", ["ab", f"ab/{KEY}.conversion"])
def test_links_in_a_cache_lead_nowhere(cache: Cache, tmp_path: Path, place: str) -> None:
    """A folder of another cache would pass for one of this."""
    home = tmp_path / "home"
    home.mkdir()
    (home / f"{KEY}.conversion").write_bytes(OURS)
    target = home if place == "ab" else home / f"{KEY}.conversion"
    (cache.folder / place).parent.mkdir(exist_ok=True)
    (cache.folder / place).symlink_to(target)
    before = contents(home)
    pruned(cache.folder)
    assert contents(home) == before
    assert (cache.folder / place).is_symlink()


def test_a_place_with_a_file_of_the_user_is_not_used(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    place = Path(cache.place_of(key))
    place.write_text("mine")
    with pytest.raises(ConversionError, match="prototrt did not write it"):
        keep(cache, small)
    assert place.read_text() == "mine"


@pytest.mark.parametrize("folder", ["new/mine", f"ab/{KEY}", ""])
def test_a_folder_that_no_batch_made_is_no_cache(tmp_path: Path, folder: str) -> None:
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


def test_a_cache_that_may_only_be_read_is_used(
    cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keep(cache, small)
    (cache.folder / MARK).unlink()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr(os, "utime", refused)
    assert Cache(str(cache.folder), VERSIONS).fetch(key, small) is not None


def test_prune_removes_what_a_killed_batch_left(cache: Cache) -> None:
    part = cache.folder / "ab" / ".prototrt-0123456789abcdef.part"
    (part / "new").mkdir(parents=True)
    (part / MARK).touch()
    (part / "new" / f"{KEY}.conversion").write_bytes(OURS)
    prune(str(cache.folder))
    assert contents(cache.folder / "ab") == []


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("every", sampled(20))
def test_whatever_fails_the_cache_stays_one(
    memory_path: Path, tmp_path: Path, every: int, fault: Fault
) -> None:
    """A conversion is whole or a miss, and what is left of it is removed."""
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

"""The cache: what is the same is not made again, and nothing false is ever found in it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from prototrt.caffe_proto.errors import ConversionError
from prototrt.converter.batch.cache import Cache
from prototrt.converter.batch.entry import Entry, Outcome, Status
from prototrt.converter.batch.prune import prune
from prototrt.converter.batch.versions import versions
from prototrt.converter.files import atomic_write
from prototrt.tests.converter.batch.support import NET, entry

VERSIONS = {"prototrt": "1", "rtx": "1.7"}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"), VERSIONS)


@pytest.fixture
def small(tmp_path: Path) -> Entry:
    return entry(tmp_path)


def keep(cache: Cache, entry: Entry, content: str = "an engine", read: Sequence[str] = ()) -> str:
    """As if the entry had been converted."""
    for path, text in ((entry.target, content), (f"{entry.target}.json", "{}")):
        with atomic_write(path) as stream:  # as conversions do, since the old file may be the cache's, too
            stream.write(text.encode())
    key = cache.key(entry)
    assert key is not None
    cache.store(key, Outcome(entry, Status.CONVERTED, warnings=("odd",), facts={"further_files": read}))
    return key


def test_what_was_kept_is_found(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    elsewhere = replace(small, target=small.target.replace("small", "other"))
    assert cache.key(elsewhere) == key
    found = cache.fetch(key, elsewhere)
    assert found is not None
    assert (found.status, found.warnings, found.facts) == (Status.CACHED, ("odd",), {"further_files": []})
    assert Path(elsewhere.target).read_text() == "an engine"
    assert Path(f"{elsewhere.target}.json").read_text() == "{}"


def test_files_are_linked(cache: Cache, small: Entry) -> None:
    """Neither time nor space for a second copy."""
    key = keep(cache, small)
    kept = cache.folder / key[:2] / key / "made"
    elsewhere = replace(small, target=small.target.replace("small", "other"))
    for _ in range(2):
        assert cache.fetch(key, elsewhere) is not None
    assert kept.samefile(small.target)
    assert kept.samefile(elsewhere.target)
    assert not list(Path(small.target).parent.glob(".*"))


def test_files_are_copied_where_they_cannot_be_linked(
    cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    key = keep(cache, small)
    Path(small.target).write_text("another engine")
    assert cache.fetch(key, small) is not None
    assert Path(small.target).read_text() == "an engine"
    assert not (cache.folder / key[:2] / key / "made").samefile(small.target)


def test_engine_that_was_written_into_is_made_again(cache: Cache, small: Entry) -> None:
    """It is the kept file, too."""
    key = keep(cache, small)
    Path(small.target).write_text("spoilt")
    assert cache.fetch(key, small) is None


def test_moved_cache_is_still_one(cache: Cache, small: Entry) -> None:
    """Archives keep other times than file systems do; then the contents count."""
    key = keep(cache, small)
    for kept in (cache.folder / key[:2] / key).iterdir():
        os.utime(kept, (1, 1))
    Path(small.target).unlink()
    assert cache.fetch(key, small) is not None
    (cache.folder / key[:2] / key / "made").write_text("an eNgine")  # as many bytes, at another time
    assert cache.fetch(key, small) is None


def test_nothing_is_found_at_first(cache: Cache, small: Entry) -> None:
    assert cache.fetch("0" * 64, small) is None


def test_everything_that_matters_changes_the_key(tmp_path: Path, small: Entry) -> None:
    def key(entry: Entry, **found: str) -> str | None:
        return Cache(str(tmp_path / "cache"), {**VERSIONS, **found}).key(entry)

    same = [key(small), key(small), key(replace(small, name="other", timeout=3.0, where="x:9"))]
    assert len(set(same)) == 1
    weights = tmp_path / "w.caffemodel"
    weights.write_bytes(b"1")
    others = [
        key(small, rtx="1.8"),
        key(small, prototrt="2"),
        key(replace(small, options={**small.options, "sequence": "loop"})),
        key(replace(small, weights=str(weights))),
        key(replace(small, target="a.onnx")),
        key(replace(small, options={**small.options, "inputs": str(weights)})),
        key(replace(small, options={**small.options, "state": "zero"})),
        key(replace(small, options={**small.options, "state": f"const:{weights}"})),
        key(entry(tmp_path, "renamed")),  # the manifest tells the name
    ]
    weights.write_bytes(b"2")
    others.append(key(replace(small, weights=str(weights))))
    others.append(key(entry(tmp_path, net=NET.replace("4", "5"))))
    assert None not in others
    assert len({same[0], *others}) == 1 + len(others)


def test_files_that_cannot_be_read_have_no_key(cache: Cache, small: Entry) -> None:
    assert cache.key(replace(small, weights="nowhere.caffemodel")) is None


def test_further_files_that_were_read_matter(tmp_path: Path, small: Entry) -> None:
    """A mean image is named in the net: its content is no part of the key."""

    def is_found() -> bool:
        cache = Cache(str(tmp_path / "cache"), VERSIONS)  # as in another run
        return cache.fetch(str(cache.key(small)), small) is not None

    mean = tmp_path / "mean.binaryproto"
    mean.write_text("one")
    keep(Cache(str(tmp_path / "cache"), VERSIONS), small, read=[str(mean)])
    assert is_found()
    mean.write_text("two")
    assert not is_found()
    mean.unlink()
    assert not is_found()


def test_each_file_is_read_once(cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cache.key(small)
    Path(small.prototxt).unlink()
    assert cache.key(small) == first


@pytest.mark.parametrize("damage", ["made", "made.json", "outcome.json"])
def test_damage_counts_as_missing(cache: Cache, small: Entry, damage: str) -> None:
    key = keep(cache, small)
    (cache.folder / key[:2] / key / damage).write_text("not this")
    Path(small.target).unlink()
    Path(f"{small.target}.json").unlink()
    assert cache.fetch(key, small) is None
    assert not Path(small.target).exists()
    keep(cache, small, "a new engine")
    Path(small.target).unlink()
    assert cache.fetch(key, small) is not None
    assert Path(small.target).read_text() == "a new engine"


def test_a_file_that_is_right_is_left_alone(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    os.utime(small.target, (1, 1))
    assert cache.fetch(key, small) is not None
    assert os.stat(small.target).st_mtime == 1


def test_concurrent_runs(tmp_path: Path, small: Entry) -> None:
    """Many store, fetch and prune the same conversion; what is found is always whole."""
    folder = str(tmp_path / "cache")
    wrong: list[str] = []
    hits: list[int] = []

    def one(number: int) -> None:
        own, cache = tmp_path / str(number), Cache(folder, VERSIONS)
        own.mkdir()
        mine = replace(small, target=str(own / "a.plan"))
        for turn in range(25):
            key = keep(cache, mine, "an engine" * 1000)
            Path(mine.target).unlink()
            if cache.fetch(key, mine) is not None:
                hits.append(number)
                if Path(mine.target).read_text() != "an engine" * 1000:
                    wrong.append(f"{number}, turn {turn}")
            if number == 0:
                prune(folder)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(4)))
    assert not wrong
    assert hits
    assert os.listdir(tmp_path / "cache" / "new") == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConversionError) as raised:
        Cache(str(tmp_path / "file"), VERSIONS)
    assert str(raised.value) == (
        f"{tmp_path / 'file'}: cannot be used as cache: Not a directory\n  fix: give another folder as cache"
    )


# ---------------------------------------------------------------- prune


def three(cache: Cache, tmp_path: Path) -> list[Path]:
    """Conversions of some 400 bytes, last used 10, 5 and 0 days ago."""
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
        ({"max_bytes": 1000}, [1, 2]),
        ({"max_bytes": 0}, []),
        ({"older_than": 7, "max_bytes": 500}, [2]),
    ],
)
def test_prune_removes_what_was_longest_of_no_use(
    cache: Cache, tmp_path: Path, asked: dict[str, int], left: list[int]
) -> None:
    folders = three(cache, tmp_path)
    sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in folders]
    assert all(340 < size < 500 for size in sizes)
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


# ---------------------------------------------------------------- versions


@pytest.mark.trt
def test_versions_name_what_decides() -> None:
    import prototrt

    found = versions(["rtx"])
    assert found["rtx"].startswith("rtx 1.")
    assert found["prototrt"].startswith(f"{prototrt.__version__} ")
    assert versions(["rtx"]) == found

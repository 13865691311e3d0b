"""The cache: what is the same is not made again, and nothing false is ever found in it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.errors import ConversionError
from prototrt.converter.batch.cache import Cache
from prototrt.converter.batch.entry import Entry, Outcome, Status
from prototrt.converter.batch.prune import prune
from prototrt.converter.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.converter.batch.versions import versions
from prototrt.converter.writing.files import atomic_write
from prototrt.tests.converter.batch.support import NET, entry
from prototrt.tests.faults import KILLED, Fault, faults

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
        with atomic_write(path) as stream:  # as conversions do, since the old file may also be the cache's
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
    """It is also the kept file."""
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
    (cache.folder / key[:2] / key / "made").write_text("an eNgine")  # the same size, at another time
    assert cache.fetch(key, small) is None


def test_a_header_is_kept(cache: Cache, small: Entry, tmp_path: Path) -> None:
    """Its namespace is its name, so a header of another name is another conversion; its folder is not in it."""

    def with_header(name: str) -> Entry:
        Path(name).parent.mkdir(exist_ok=True)
        return replace(small, options={**small.options, "emit_header": name})

    asked, elsewhere = with_header(str(tmp_path / "net.h")), with_header(str(tmp_path / "include" / "net.h"))
    Path(tmp_path, "net.h").write_text("constants")
    key = keep(cache, asked)
    assert cache.key(elsewhere) == key
    assert key not in (cache.key(small), cache.key(with_header(str(tmp_path / "other.h"))))
    for _ in range(2):
        assert cache.fetch(key, elsewhere) is not None
        assert Path(tmp_path, "include", "net.h").read_text() == "constants"
    assert cache.fetch(key, small) is None  # which asks for none
    assert cache.key(with_header(os.devnull)) is None


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
        key(entry(tmp_path, "renamed")),  # the manifest holds the name
    ]
    weights.write_bytes(b"2")
    others.append(key(replace(small, weights=str(weights))))
    others.append(key(entry(tmp_path, net=NET.replace("4", "5"))))
    assert None not in others
    assert len({same[0], *others}) == 1 + len(others)


def test_files_that_cannot_be_read_have_no_key(cache: Cache, small: Entry) -> None:
    assert cache.key(replace(small, weights="nowhere.caffemodel")) is None


def test_further_files_that_were_read_matter(tmp_path: Path, small: Entry) -> None:
    """A mean image is named in the net: its contents are not part of the key."""

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


def edited(change: Callable[[dict[str, Any]], object], honest: bool = True) -> Callable[[Path], None]:
    """Changes the notes of a conversion; ``honest`` notes have the right SHA-256."""

    def edit(folder: Path) -> None:
        found = json.loads((folder / "outcome.json").read_text())
        change(found["notes"])
        if honest:
            text = json.dumps(found["notes"], sort_keys=True)
            found["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (folder / "outcome.json").write_text(json.dumps(found))

    return edit


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace_file(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return replace_file


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "notes of another conversion": (
        edited(lambda notes: notes.update(key="0" * 64)),
        "it belongs to another conversion",
    ),
    "notes that were changed": (
        edited(lambda notes: notes.update(warnings=[]), honest=False),
        "its SHA-256 is another",
    ),
    "a file outside": (
        edited(lambda notes: notes["files"].update({"/../../stolen": notes["files"][""]})),
        "it holds files that no conversion writes: , .json, /../../stolen",
    ),
    "no engine": (
        edited(lambda notes: notes["files"].pop("")),
        "it holds files that no conversion writes: .json",
    ),
    "a file without facts": (
        edited(lambda notes: notes["files"].update({"": 1})),
        "a file in it is not described",
    ),
    "a size of true": (
        edited(lambda notes: notes["files"][""].update(size=True)),
        "a file in it is not described",
    ),
    "warnings that are no texts": (
        edited(lambda notes: notes.update(warnings=[1])),
        "it does not say what was kept",
    ),
    "a count that is none": (
        edited(lambda notes: notes["facts"].update(bytes="many")),
        "it does not say what was kept",
    ),
    "a verification that is none": (
        edited(lambda notes: notes["facts"].update(verification={"comparisons": [{}]})),
        "it does not say what was kept",
    ),
    "a further file without SHA-256": (
        edited(lambda notes: notes.update(further_files={"mean": 1})),
        "a file that was read for it has no SHA-256",
    ),
    "no object": (lambda folder: (folder / "outcome.json").write_text("[]"), "it does not say what was kept"),
    "many brackets": (
        lambda folder: (folder / "outcome.json").write_text("[" * 100_000),
        "its notes are nested too deeply",
    ),
    "no text": (
        lambda folder: (folder / "outcome.json").write_bytes(b"\xff\xfe\xfd"),
        "'utf-16-le' codec can't decode byte 0xfd in position 2: truncated data",
    ),
    "no notes": (lambda folder: (folder / "outcome.json").unlink(), "No such file or directory"),
    "a pipe for notes": (replaced("outcome.json", os.mkfifo), "this is a device or a pipe, expected notes"),
    "a pipe for an engine": (replaced("made", os.mkfifo), "made is damaged"),
    "a link for an engine": (
        replaced("made", lambda path: path.symlink_to("/etc/hostname")),
        "made is damaged",
    ),
    "a folder for an engine": (replaced("made", lambda path: path.mkdir()), "made is damaged"),
    "no engine at all": (lambda folder: (folder / "made").unlink(), "made is damaged"),
}


@pytest.mark.parametrize("case", ODD)
def test_what_makes_no_sense_is_told_and_not_used(cache: Cache, small: Entry, case: str) -> None:
    spoil, reason = ODD[case]
    key = keep(cache, small)
    folder = cache.folder / key[:2] / key
    elsewhere = replace(small, target=small.target.replace("small", "other"))
    spoil(folder)
    told: list[str] = []
    assert cache.fetch(key, elsewhere, told.append) is None
    assert told == [f"the cached conversion in {folder} is not used: {reason}"]
    assert not [
        name for name in os.listdir(Path(small.target).parent) if name.startswith(("other", "stolen", "."))
    ]
    keep(cache, small)
    assert cache.fetch(key, elsewhere, told.append) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
PLACES = st.sampled_from(
    [
        (),
        ("key",),
        ("files",),
        ("files", ""),
        ("files", "", "place"),
        ("warnings",),
        ("further_files",),
        ("facts",),
    ]
    + [("facts", name) for name in ("bytes", "left_out", "verification", "further_files")]
)


@given(PLACES, JSON)
def test_no_notes_end_a_batch(place: tuple[str, ...], value: object) -> None:
    """Whatever they hold, the results can be reported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache, small = Cache(str(folder / "cache"), VERSIONS), entry(folder)
        key = keep(cache, small)

        def change(notes: dict[str, Any]) -> None:
            inner: Any = {"": notes}
            for step in ("", *place)[:-1]:
                inner = inner[step]
            inner[("", *place)[-1]] = value

        edited(change if place else lambda notes: None)(cache.folder / key[:2] / key)
        if not place:
            (cache.folder / key[:2] / key / "outcome.json").write_text(json.dumps(value))
        outcome = cache.fetch(key, small, lambda text: None)
        if outcome is not None:
            result = BatchResult("models.yaml", datetime.now(timezone.utc), 1.0, [outcome])
            assert json_report(result)
            assert junit_report(result)
            assert markdown_report(result)


@pytest.mark.parametrize(
    ("verify", "spoils_in_place", "is_found"),
    [
        (None, True, True),
        (None, False, False),
        (True, True, False),
        (False, True, True),
        (False, False, True),
    ],
)
def test_files_are_hashed_as_asked(
    tmp_path: Path, small: Entry, verify: bool | None, spoils_in_place: bool, is_found: bool
) -> None:
    """By default those of a cache that was restored: an archive keeps times, but not the places on the disk."""
    cache = Cache(str(tmp_path / "cache"), VERSIONS, verify)
    key = keep(cache, small)
    made = cache.folder / key[:2] / key / "made"
    Path(small.target).unlink()
    times = made.stat()
    if not spoils_in_place:
        made.rename(made.with_name("away"))  # so that the new file cannot get its place
    made.write_text("an eNgine")
    os.utime(made, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (cache.fetch(key, small) is not None) == is_found


@pytest.mark.parametrize("fault", Fault)
def test_a_cache_is_whole_after_any_fault(memory_path: Path, fault: Fault) -> None:
    """Storing and fetching: each call to the system fails, or kills the process, once."""
    small = entry(memory_path)
    other = replace(small, target=small.target.replace("small", "other"))

    def store_and_fetch() -> None:
        cache = Cache(str(memory_path / "cache"), VERSIONS)
        with suppress(OSError):  # as the batch does
            cache.store(key, outcome)
        cache.fetch(key, other)

    cache = Cache(str(memory_path / "cache"), VERSIONS)
    key = keep(cache, small)
    outcome = Outcome(small, Status.CONVERTED)
    for place, code in faults(store_and_fetch, fault):
        assert (code == KILLED) == (fault is Fault.KILL), place
        found = {path.name: path.read_text() for path in memory_path.glob("other.*") if path.exists()}
        assert found in ({}, {"other.plan": "an engine", "other.plan.json": "{}"}), place
        for name in found:
            (memory_path / name).unlink()
        if cache.fetch(key, other) is None:
            cache.store(key, outcome)
            assert cache.fetch(key, other) is not None, place
        assert sorted(os.listdir(memory_path)) == [
            "cache",
            "other.plan",
            "other.plan.json",
            "small.plan",
            "small.plan.json",
            "small.prototxt",
        ], place
        for name in ("other.plan", "other.plan.json"):
            (memory_path / name).unlink()


def test_what_is_fetched_is_on_the_disk(cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    key = keep(cache, small)
    other = replace(small, target=small.target.replace("small", "other"))
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    assert cache.fetch(key, other) is not None
    folder = Path(other.target).parent
    assert synced == {os.stat(path).st_ino for path in (other.target, f"{other.target}.json", folder)}


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


# ---------------------------------------------------------------- versions


@pytest.mark.trt
def test_versions_name_what_decides() -> None:
    import prototrt

    found = versions(["rtx"])
    assert found["rtx"].startswith("rtx 1.")
    assert found["prototrt"].startswith(f"{prototrt.__version__} ")
    assert versions(["rtx"]) == found

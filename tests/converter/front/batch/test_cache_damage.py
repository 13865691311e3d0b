"""A cache with files that were damaged, edited or half written: what makes no sense is not used."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.tests.converter.front.batch.cached import VERSIONS, keep
from prototrt.tests.converter.front.batch.support import entry
from prototrt.tests.faults import KILLED, Fault, faults
from prototrt.tests.samples import sampled


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
    "a count of 400 digits": (
        edited(lambda notes: notes["facts"].update(bytes=10**400)),
        "it does not say what was kept",
    ),
    "a number that JSON does not have": (
        edited(lambda notes: notes["facts"].update(seconds=float("nan"))),
        "NaN is no number of JSON",
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


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("every", sampled(14))
def test_a_cache_is_whole_after_any_fault(memory_path: Path, every: int, fault: Fault) -> None:
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
    for place, code in faults(store_and_fetch, fault, every):
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

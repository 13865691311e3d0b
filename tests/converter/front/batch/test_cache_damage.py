"""A cache with files that were damaged, edited or half written: what makes no sense is not used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.tests.converter.front.batch.cached import VERSIONS, keep
from prototrt.tests.converter.front.batch.support import entry
from prototrt.tests.faults import KILLED, Fault, faults
from prototrt.tests.samples import sampled

Change = Callable[[bytes], bytes]


def edited(change: Callable[[dict[str, Any]], object], honest: bool = True) -> Change:
    """Changes the notes of a conversion; ``honest`` notes have the right SHA-256."""

    def edit(content: bytes) -> bytes:
        mark, head, rest = content.split(b"\n", 2)
        found = json.loads(head)
        change(found["notes"])
        if honest:
            found["sha256"] = hashlib.sha256(json.dumps(found["notes"], sort_keys=True).encode()).hexdigest()
        return b"\n".join([mark, json.dumps(found).encode(), rest])

    return edit


def with_head(head: bytes) -> Change:
    return lambda content: content.partition(b"\n")[0] + b"\n" + head


ODD: dict[str, tuple[Change, str]] = {
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
        "it holds other files than those that were asked for",
    ),
    "no engine": (
        edited(lambda notes: notes["files"].pop("")),
        "it holds other files than those that were asked for",
    ),
    "a file without facts": (
        edited(lambda notes: notes["files"].update({"": 1})),
        "it does not say what was kept",
    ),
    "a size that is none": (
        edited(lambda notes: notes["files"][""].update(size=float("inf"))),
        "it does not say what was kept",
    ),
    "no warnings": (edited(lambda notes: notes.pop("warnings")), "it does not say what was kept"),
    "no object": (with_head(b"[]\n"), "it does not say what was kept"),
    "many brackets": (with_head(b"[" * 100_000), "it is nested too deeply"),
    "no text": (
        with_head(b"\xff\xfe\xfd\n"),
        "Expecting value: line 1 column 1 (char 0)",
    ),
    "another engine": (
        lambda content: content.replace(b"an engine", b"an eNgine"),
        "a file in it is damaged",
    ),
    "an end that is missing": (lambda content: content[:-1], "a file in it is damaged"),
    "a file of somebody": (lambda content: b"mine", "prototrt did not write it"),
}


@pytest.mark.parametrize("case", ODD)
def test_what_makes_no_sense_is_told_and_not_used(cache: Cache, small: Entry, case: str) -> None:
    change, reason = ODD[case]
    key = keep(cache, small)
    kept = Path(cache.place_of(key))
    elsewhere = replace(small, target=small.target.replace("small", "other"))
    content = kept.read_bytes()
    kept.write_bytes(change(content))
    told: list[str] = []
    assert cache.fetch(key, elsewhere, told.append) is None
    assert told == [f"the cached conversion {kept} is not used: {reason}"]
    assert not [
        name for name in os.listdir(Path(small.target).parent) if name.startswith(("other", "stolen", "."))
    ]
    kept.write_bytes(content)
    assert cache.fetch(key, elsewhere, told.append) is not None


@pytest.mark.parametrize(
    ("make", "reason"),
    [(os.mkfifo, "this is a device or a pipe, expected a cached conversion"), (os.mkdir, "Is a directory")],
)
def test_what_is_no_file_is_not_used(
    cache: Cache, small: Entry, make: Callable[[str], None], reason: str
) -> None:
    key = keep(cache, small)
    os.unlink(cache.place_of(key))
    make(cache.place_of(key))
    told: list[str] = []
    assert cache.fetch(key, small, told.append) is None
    assert told == [f"the cached conversion {cache.place_of(key)} is not used: {reason}"]


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("every", sampled(14))
def test_a_cache_is_whole_after_any_fault(memory_path: Path, every: int, fault: Fault) -> None:
    """Storing and fetching: each call to the system fails, or kills the process, once."""
    small = entry(memory_path)
    other = replace(small, target=small.target.replace("small", "other"))

    def store_and_fetch() -> None:
        cache = Cache(str(memory_path / "cache"), VERSIONS)
        with suppress(ConversionError, OSError):  # as the batch does
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

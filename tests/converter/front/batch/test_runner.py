"""Many entries: order, skipping, the cache, interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.runner import LostPoolError, run_entries
from prototrt.tests.converter.front.batch.support import entry


class Pool:
    """Returns the given outcomes, and records the entries."""

    def __init__(self, width: int, work: Callable[[Entry], Outcome]) -> None:
        self.width = width
        self.asked: list[str] = []
        self.stopped = threading.Event()
        self._work = work

    def run(self, entry: Entry) -> Outcome:
        self.asked.append(entry.name)
        return self._work(entry)

    def stop(self) -> None:
        self.stopped.set()

    def close(self) -> None:
        """Nothing is open."""


def converted(entry: Entry) -> Outcome:
    Path(entry.target).write_text(entry.name)
    return Outcome(entry, Status.CONVERTED)


def second_fails(entry: Entry) -> Outcome:
    return Outcome(entry, Status.FAILED, 3, message="no") if entry.name == "n1" else converted(entry)


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return [entry(tmp_path, f"n{number}") for number in range(4)]


def statuses(outcomes: list[Outcome]) -> list[str]:
    return [outcome.status.value for outcome in outcomes]


def test_outcomes_come_in_the_entries_order(entries: list[Entry]) -> None:
    another = threading.Event()

    def first_is_last(entry: Entry) -> Outcome:
        assert entry.name != "n0" or another.wait(60)
        return converted(entry)

    heard: list[Outcome] = []

    def hear(outcome: Outcome) -> None:
        heard.append(outcome)
        another.set()

    outcomes = run_entries(entries, Pool(2, first_is_last), None, False, hear)
    assert [outcome.entry for outcome in outcomes] == entries
    assert heard[0].entry.name != "n0"
    assert sorted(outcome.entry.name for outcome in heard) == ["n0", "n1", "n2", "n3"]


def test_as_many_at_once_as_the_pool_is_wide(entries: list[Entry]) -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(entry: Entry) -> Outcome:
        both.wait()
        return converted(entry)

    assert statuses(run_entries(entries, Pool(2, meet), None, False, print)) == ["converted"] * 4


@pytest.mark.parametrize(
    ("keep_going", "expected"),
    [
        (False, ["converted", "failed", "skipped", "skipped"]),
        (True, ["converted", "failed", "converted", "converted"]),
    ],
)
def test_what_has_not_begun_when_one_fails(
    entries: list[Entry], keep_going: bool, expected: list[str]
) -> None:
    assert statuses(run_entries(entries, Pool(1, second_fails), None, keep_going, print)) == expected


def test_a_second_run_converts_nothing_but_what_failed(entries: list[Entry], tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"), {})
    first, second = Pool(1, second_fails), Pool(1, second_fails)
    run_entries(entries, first, cache, True, print)
    outcomes = run_entries(entries, second, cache, True, print)
    assert first.asked == ["n0", "n1", "n2", "n3"]
    assert second.asked == ["n1"]
    assert statuses(outcomes) == ["cached", "failed", "cached", "cached"]


def test_a_cache_that_is_full_is_a_warning(
    entries: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(cache: Cache, key: str, outcome: Outcome) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cache, "store", full)
    (outcome, *_) = run_entries(entries, Pool(1, converted), Cache(str(tmp_path / "c"), {}), False, print)
    assert outcome.status is Status.CONVERTED
    assert outcome.warnings == ("not kept in the cache: No space left on device",)


def test_an_interruption_stops_the_pool(entries: list[Entry]) -> None:
    def interrupted(outcome: Outcome) -> None:
        raise KeyboardInterrupt

    def until_stopped(entry: Entry) -> Outcome:
        assert entry.name == "n0" or pool.stopped.wait(60)
        return converted(entry)

    pool = Pool(1, until_stopped)
    with pytest.raises(KeyboardInterrupt):
        run_entries(entries, pool, None, True, interrupted)
    assert pool.stopped.is_set()
    assert len(pool.asked) < 4


def test_a_pool_that_is_lost_blames_no_model(entries: list[Entry]) -> None:
    def lost_at_second(entry: Entry) -> Outcome:
        if entry.name == "n1":
            raise LostPoolError("the pool is gone", where="here", fix="bring it back")
        return converted(entry)

    outcomes = run_entries(entries, Pool(1, lost_at_second), None, True, print)
    assert [(outcome.status.value, outcome.exit_code, outcome.message) for outcome in outcomes] == [
        ("converted", 0, ""),
        ("skipped", 4, "not converted: here: the pool is gone\n  fix: bring it back"),
        ("skipped", 4, "not started because the pool is gone"),
        ("skipped", 4, "not started because the pool is gone"),
    ]

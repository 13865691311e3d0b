"""Checks that crash or hang cost one row."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.checking.selftest.isolation import run_isolated, serve
from prototrt.converter.checking.selftest.rows import Check, NotHereError, Row, row_of

ROOT = Path(__file__).parents[4]


def fails() -> str:
    raise EngineError("no GPU", fix="buy one")


def is_wrong() -> str:
    raise AssertionError("1 is not\n2")


def is_not_here() -> str:
    raise NotHereError("there is no PyTorch")


def crashes() -> str:
    print("/home/jane/net.prototxt: out of memory", file=sys.stderr, flush=True)
    os._exit(11)


def hangs() -> str:
    time.sleep(60)
    return ""


CHECKS = {
    "good": [Check("fine", lambda: "it is"), Check("numbers", lambda: ("1", "2"))],
    "bad": [
        Check("first", lambda: "ok"),
        Check("crashes", crashes),
        Check("hangs", hangs),
        Check("fails", fails),
        Check("last", lambda: str(print("TensorRT says something"))),
    ],
    "empty": [],
}


def broken(*before: Check) -> Iterator[Check]:
    yield from before
    os._exit(3)


def rows_of(name: str, patience: float = 60) -> list[Row]:
    code = (
        "import sys; from prototrt.tests.converter.checking.selftest.test_isolation import *;"
        " name, skip = sys.argv[1:];"
        " checks = CHECKS.get(name) or broken(*CHECKS['good' if name == 'late' else 'empty']);"
        " serve(CHECKS['empty'] if name == 'empty' else checks, int(skip))"
    )
    environment = f"import sys; sys.path[:0] = [{str(ROOT / '.dev')!r}]; "
    command = [sys.executable, "-c", environment + code, name]
    return list(run_isolated(command, patience, time.monotonic() + 300))


def test_what_becomes_of_an_attempt() -> None:
    assert row_of(Check("a", fails)) == Row("a", "FAILED", ("no GPU fix: buy one",))
    assert row_of(Check("b", is_wrong)) == Row("b", "WRONG", ("1 is not 2",))
    assert row_of(Check("c", is_not_here)) == Row("c", "not tried", ("there is no PyTorch",))
    assert row_of(Check("d", lambda: str(1 // 0))) == Row(
        "d", "FAILED", ("ZeroDivisionError: integer division or modulo by zero",)
    )
    assert row_of(Check("e", lambda: "fine")).cells == ("e", "ok", "fine")


def test_rows_come_from_another_process() -> None:
    assert rows_of("good") == [Row("fine", "ok", ("it is",)), Row("numbers", "ok", ("1", "2"))]
    assert rows_of("empty") == []


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_row_each() -> None:
    assert rows_of("bad", patience=6) == [
        Row("first", "ok", ("ok",)),
        Row("crashes", "CRASHED", ("its process ended with status 11: <path>/net.prototxt: out of memory",)),
        Row("hangs", "CRASHED", ("it took more than 6 s",)),
        Row("fails", "FAILED", ("no GPU fix: buy one",)),
        Row("last", "ok", ("None",)),
    ]


def test_a_crash_between_checks_ends_where_nothing_is_gained() -> None:
    between = Row("between two checks", "CRASHED", ("its process ended with status 3",))
    assert rows_of("broken") == [between]
    *first, last, again = rows_of("late")
    assert [row.what for row in first] == ["fine", "numbers"]
    assert (last, again) == (between, between)


def test_a_row_is_told_before_the_next_is_row_of(capsys: pytest.CaptureFixture[str]) -> None:
    def checks() -> Iterator[Check]:
        yield Check("first", lambda: "done")
        raise EngineError("the second cannot even be made")

    with pytest.raises(EngineError):
        serve(checks(), 0)
    assert [line.split('"')[1] for line in capsys.readouterr().out.splitlines()] == ["begins", "row"]

"""The command around the GPU checks: options, tables, exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.driver import Gpu, find_driver
from prototrt.converter.machines.doctor import Diagnosis
from prototrt.tests.gpu import check
from prototrt.tests.gpu.isolation import isolated
from prototrt.tests.gpu.rows import Check, Row, tried

ROOT = Path(__file__).parents[2]
GPU = Gpu("a card", "9.0", 1 << 30)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "gpu" / "check.py", *arguments],
        env={"PYTHONPATH": str(ROOT / ".dev")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_gpu_it_says_so() -> None:
    if (driver := find_driver()) is not None and driver.gpus:
        pytest.skip("there is a GPU")
    result = command()
    assert (result.returncode, result.stderr) == (1, "there is no GPU here: nothing was checked\n")


def test_what_would_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert list(dict.fromkeys(line.partition(":")[0] for line in lines)) == list(check.SECTIONS)
    assert "speed: H 1024, T 128, N 16, fp16, loop" in lines
    assert len(set(lines)) == len(lines)
    assert check.main(["--list", "--only", "speed,verify"]) == 0
    sections = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(sections)) == ["speed", "verify"]


def test_a_section_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check.main(["--only", "verify,swiftness"])
    assert capsys.readouterr().err.endswith(
        "error: argument --only: there is no section swiftness: expected some of backends, stand-in,"
        " floors, kernels, sample, replays, speed, sessions, libraries, profiles, verify, goldens, plugins, pycuda\n"
    )


def test_tables_and_the_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis = Diagnosis("3.12", {"numpy": "2.0", "pycuda": None}, "CUDA 13.0", (GPU,), ())
    monkeypatch.setattr(check, "diagnose", lambda: diagnosis)
    monkeypatch.setattr(check, "clocks", lambda: "fast")
    rows = {
        "verify": [Row("verify", "ok", ("fine",)), Row("other", "not tried", ("a|b",))],
        "speed": [Row("H 8", "ok", tuple("1234567890")), Row("H 9", "CRASHED", ("status 11",))],
    }
    monkeypatch.setattr(check, "isolated", lambda command, patience: rows[command[-1]])
    assert check.main(["--only", "verify,speed"]) == 1
    assert capsys.readouterr().out == (
        "| machine |  |\n| --- | --- |\n| python | 3.12 |\n| driver | CUDA 13.0 |\n| numpy | 2.0 |\n"
        "| clocks | fast |\n| GPU | a card, compute capability 9.0 |\n\n"
        "## speed\n\n"
        "| LSTM |  | shortest | median | 99 % | in a row | wall | per step | cuDNN's call | ours / cuDNN |"
        " bytes' floor | flops' floor |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| H 8 | ok | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 0 |\n"
        "| H 9 | CRASHED | status 11 |  |  |  |  |  |  |  |  |  |\n\n"
        "## verify\n\n| check | verdict |  |\n| --- | --- | --- |\n"
        "| verify | ok | fine |\n| other | not tried | a/b |\n\n"
        "1 CRASHED, 1 not tried, 2 ok\n"
    )
    assert check.main(["--only", "verify"]) == 0


def test_where_no_engine_loads_none_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole error is quoted once, rather than a part of it two hundred times."""
    asked = []

    def rows_of(name: str, left: float) -> list[Row]:
        asked.append(name)
        return [Row(name, "FAILED" if name == "backends" else "ok", ("a reason",))]

    assert check.report(["backends", "floors", "sample", "goldens"], rows_of, 60) == 1
    assert asked == ["backends", "floors"]
    told = capsys.readouterr().out
    assert "## goldens\n\nnot tried: no engine loads here, see backends\n" in told
    assert told.endswith("\n1 FAILED, 2 not tried, 1 ok\n")
    long = "x" * 1000

    def fails() -> str:
        raise EngineError(long)

    assert tried(Check("first", fails, is_told_whole=True)).details == (long,)
    assert tried(Check("later", fails)).details == (long[:200],)
    assert all(each.is_told_whole for each in check.SECTIONS["backends"].checks(check.engine_session))


def test_what_there_is_no_time_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    given = {}

    def rows_of(name: str, left: float) -> Iterator[Row]:
        given[name] = left
        for number in range(3):
            now[0] += 200
            yield Row(f"{name} {number}", "ok")

    assert check.report(["floors", "kernels", "sample"], rows_of, 540) == 0
    told = capsys.readouterr().out
    assert given == {"floors": 540}
    assert "| floors 2 | ok |  |  |  |  |  |\n| the rest | not tried | the budget of 540 s is spent |" in told
    assert told.endswith("## sample\n\nnot tried: the budget of 540 s is spent\n\n3 not tried, 3 ok\n")


def test_a_section_runs_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    if (driver := find_driver()) is not None and driver.gpus:
        pytest.skip("there is a GPU")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / ".dev"))
    rows = list(isolated([sys.executable, check.__file__, "--serve", "sessions"], 60))
    assert {row.verdict for row in rows} == {"FAILED"}
    assert [text.partition(" fix: ")[0] for text in rows[0].details] == ["there is no NVIDIA driver"]
    assert len(rows) == 3

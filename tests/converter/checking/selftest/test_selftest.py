"""The self-test as a whole: which sections run, what a budget does, what files and summaries hold."""

from __future__ import annotations

import json
import os
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import EngineError, UnreadableFileError, VerificationError
from prototrt.converter.backends.driver import Gpu, find_driver
from prototrt.converter.checking.machines.doctor import Ability, Diagnosis
from prototrt.converter.checking.selftest import sections, selftest
from prototrt.converter.checking.selftest.goldens import ARCHIVE, PRECISIONS
from prototrt.converter.checking.selftest.isolation import run_isolated
from prototrt.converter.checking.selftest.privacy import anonymous
from prototrt.converter.checking.selftest.results import SectionResult, SelfTest, read
from prototrt.converter.checking.selftest.rows import Check, Row, row_of
from prototrt.converter.options import SECTION_NAMES
from prototrt.surgery import forks, layers
from prototrt.tests.command_line import run
from prototrt.tests.golden_cases import caffe_cases, fork_cases
from prototrt.tests.tools import make_selftest_goldens
from prototrt.tests.tools.make_selftest_goldens import members

RTX = Row("tensorrt-rtx", "ok", ("1.7",))
GPU = Row("GPU 0", "ok", ("a card",))
Rows = dict[str, list[Row]]


@pytest.fixture
def sections_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rows], list[str]]:
    """Let each section have these rows; the names of those that were asked for them."""

    def install(rows: Rows) -> list[str]:
        asked: list[str] = []

        def rows_of(command: list[str], patience: float, deadline: float) -> Iterator[Row]:
            asked.append(command[-2])
            return iter(rows.get(command[-2], [Row(command[-2], "ok")]))

        monkeypatch.setattr(selftest, "run_isolated", rows_of)
        return asked

    return install


# ---------------------------------------------------------------- which sections run


def test_without_a_gpu_the_rest_is_tried(sections_of: Callable[[Rows], list[str]]) -> None:
    asked = sections_of({"machine": [RTX]})
    result = prototrt.selftest()
    assert asked == ["machine", "torch", "builds", "reference", "onnxruntime"]
    assert [section.name for section in result.sections] == list(SECTION_NAMES)
    assert "## speed\n\nnot tried: there is no GPU; it would time LSTM engines" in result.markdown()
    *lines, last = result.summary
    assert last.startswith("Checks: 3 not tried, 5 ok, in ")
    assert lines == [
        "This machine: no GPU, no driver, tensorrt-rtx 1.7",
        "An engine loads and runs: not tried, there is no GPU",
        "Engines give Caffe's numbers: not tried, there is no GPU",
        "TensorRT for RTX builds the nets: yes, 1 of 1",
        "NumPy gives Caffe's numbers: yes, 1 of 1",
        "onnxruntime gives Caffe's numbers: yes, 1 of 1",
        "PyTorch gives Caffe's numbers: yes, 1 of 1",
        "Speed of an LSTM: not tried, there is no GPU",
    ]
    result.refuse()


def test_with_a_gpu_all_is_tried(sections_of: Callable[[Rows], list[str]]) -> None:
    timed = Row("H 256", "ok", ("9 us", "8 us", "20 us", "8 us", "4 us", "2.00"))
    wrong = [
        Row("lstm", "ok"),
        Row("rnn", "WRONG", ("h is off by 1",)),
        Row("gru", "not tried", ("no time",)),
    ]
    asked = sections_of({"machine": [RTX, GPU], "speed": [timed], "goldens": wrong})
    result = prototrt.selftest()
    assert asked == list(SECTION_NAMES)
    assert result.summary[0] == "This machine: a card, no driver, tensorrt-rtx 1.7"
    assert result.summary[2] == "Engines give Caffe's numbers: no, 1 of 2; rnn: h is off by 1; 1 not tried"
    assert result.summary[7] == "Speed of an LSTM: H 256: 9 us, 8 us as a CUDA graph, 4 us by cuDNN"
    with pytest.raises(VerificationError, match="goldens: rnn: WRONG, h is off by 1"):
        result.refuse()


def test_where_no_engine_loads_none_is_tried(sections_of: Callable[[Rows], list[str]]) -> None:
    """The whole error stands once in the report, rather than a part of it two hundred times."""
    asked = sections_of({"machine": [GPU], "backends": [Row("TensorRT", "FAILED", ("a reason",))]})
    result = prototrt.selftest()
    assert asked == ["machine", "backends", "torch", "builds", "reference", "onnxruntime"]
    assert "## goldens\n\nnot tried: no engine loads here, see backends; it would run" in result.markdown()
    long = "x" * 1000

    def fails() -> str:
        raise EngineError(long)

    assert row_of(Check("first", fails, keeps_whole_error=True)).details == (long,)
    assert row_of(Check("later", fails)).details == (long[:200],)
    assert all(check.keeps_whole_error for check in sections.SECTIONS["backends"].checks(Path()))


def test_a_crash_while_the_machine_is_looked_at_hides_no_gpu(
    sections_of: Callable[[Rows], list[str]],
) -> None:
    asked = sections_of({"machine": [Row("driver", "CRASHED", ("status 11",))]})
    prototrt.selftest(["speed"])
    assert asked == ["machine", "speed"]


def test_no_section_uses_up_the_time_of_all(
    monkeypatch: pytest.MonkeyPatch, sections_of: Callable[[Rows], list[str]]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    deadlines = {}

    def slow(command: list[str], patience: float, deadline: float) -> Iterator[Row]:
        deadlines[command[-2]] = deadline
        for number in range(30):
            now[0] += 10
            yield Row(f"GPU {number}", "ok")

    monkeypatch.setattr(selftest, "run_isolated", slow)
    result = prototrt.selftest(["backends", "goldens", "speed"], budget=80)
    assert deadlines == {"machine": 40, "backends": 65, "goldens": 75}
    rest = Row("the rest", "not tried", ("the time is used up",))
    assert [section.rows[-1] for section in result.sections[:3]] == [rest] * 3
    assert result.sections[3].reason == "the time is used up"


# ---------------------------------------------------------------- the sections themselves


def test_every_section_serves_checks_with_names_of_their_own(folder: Path) -> None:
    (folder / "index.json").write_bytes(members()["index.json"])
    assert set(sections.SECTIONS) == set(SECTION_NAMES)
    for name, section in sections.SECTIONS.items():
        names = [check.what for check in section.checks(folder)]
        assert names, name
        assert len(set(names)) == len(names), name
        assert len(section.columns) >= 3


def test_what_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    abilities = (Ability("build", "yes"), Ability("run", "no", "the driver is too old", "install another"))
    card = Gpu("a card", "9.0", 1 << 30)
    diagnosis = Diagnosis("3.12", {"numpy": "2.0", "pycuda": None}, "CUDA 13.0", (card,), abilities)
    monkeypatch.setattr(sections, "diagnose", lambda: diagnosis)
    monkeypatch.setattr(sections, "clocks", lambda: "fast")
    assert [row_of(check).cells for check in sections.machine()] == [
        ("python", "ok", "3.12"),
        ("driver", "ok", "CUDA 13.0"),
        ("numpy", "ok", "2.0"),
        ("pycuda", "not tried", "not installed"),
        ("clocks", "ok", "fast"),
        ("GPU 0", "ok", "a card, compute capability 9.0, 1024 MiB"),
        ("build", "ok", "yes"),
        ("run", "not tried", "the driver is too old"),
    ]


def test_a_section_runs_in_a_process_of_its_own(folder: Path) -> None:
    if (driver := find_driver()) is not None and driver.gpus:
        pytest.skip("there is a GPU")
    rows = list(run_isolated(sections.command_of("backends", folder), 60, 1e9))
    assert len(rows) == 2 * len(PRECISIONS)
    texts = {row.details[0].partition(" fix: ")[0] for row in rows if row.verdict != "not tried"}
    assert texts == {"there is no NVIDIA driver"}


# ---------------------------------------------------------------- the archive


def test_the_archive_has_the_goldens_of_the_repository() -> None:
    with tarfile.open(ARCHIVE) as archive:
        contents: dict[str, Any] = {entry.name: archive.extractfile(entry) for entry in archive}
        stored = {name: stream.read() for name, stream in contents.items()}
    assert stored == members(), "python -m prototrt.tests.tools.make_selftest_goldens makes them equal"
    assert ARCHIVE.stat().st_size < 400_000


def test_the_archive_has_every_family_that_has_goldens() -> None:
    chosen = {*make_selftest_goldens.CAFFE.split(), *make_selftest_goldens.FORKS.split()}
    for family, kinds in {**layers.FAMILIES, **forks.FAMILIES}.items():
        cases = [
            case
            for case in (*caffe_cases(), *fork_cases())
            if {*kinds.split()} & {*case.facts["layer_types"]}
        ]
        assert not cases or {*map(str, cases)} & chosen, f"{family}: add one of {', '.join(map(str, cases))}"


# ---------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "cannot open /home/jane/my nets/a.prototxt: no such file",
            "cannot open <path>/a.prototxt: no such file",
        ),
        (r"at C:\Users\Jane Doe\net.plan", r"at <path>/net.plan"),
        (r"on \\server\share\net.plan", r"on <path>/net.plan"),
        ("~/nets/a.py:3", "<path>/a.py:3"),
        ("JANE on jane-pc.home.example and jane-pc", "<user> on <host> and <host>"),
        ("janet has 1/2 of lstm/x and 3 / 4", "janet has 1/2 of lstm/x and 3 / 4"),
        ("error:/home/jane/a or file:///home/jane/b", "error:<path>/a or <path>/b"),
        ("https://www.nvidia.com/drivers", "https://www.nvidia.com/drivers"),
    ],
)
def test_nothing_of_the_user(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "jane")
    monkeypatch.setattr(socket, "gethostname", lambda: "jane-pc.home.example")
    assert anonymous(text) == shown


def test_an_error_names_no_path() -> None:
    def fails() -> str:
        open("/nowhere/at/all")  # noqa: SIM115  it cannot be opened
        return ""

    (detail,) = row_of(Check("a", fails)).details
    assert detail == "FileNotFoundError: [Errno 2] No such file or directory: '<path>/all'"


RESULT = SelfTest(
    "0.1.0",
    (
        SectionResult("machine", "look", ("check", "verdict", ""), (RTX,), 1.5),
        SectionResult("goldens", "run", ("check", "verdict", ""), (), 0.0, "there is no GPU"),
        SectionResult("speed", "time", ("LSTM", "", "median"), (Row("H 8|9", "CRASHED", ("\x1b[2J",)),), 2.0),
    ),
    3.5,
)


def test_a_file_of_results_is_read_back(folder: Path) -> None:
    RESULT.save("results.json")
    assert read("results.json") == RESULT
    shown = run("selftest", "--show", "results.json")
    assert (shown.exit_code, shown.output) == (0, RESULT.markdown())
    assert r"| H 8/9 | CRASHED | \x1b[2J |" in shown.output
    as_json = run("selftest", "--show", "results.json", "--json")
    assert json.loads(as_json.output) == json.loads(Path("results.json").read_text())


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("[]", "TypeError: list indices must be integers or slices, not str"),
        ("{}", "KeyError: 'format'"),
        ('{"format": 2}', "ValueError: its format is 2, expected 1"),
        ('{"format": 1, "prototrt": "0", "seconds": 1, "sections": [{}]}', "KeyError: 'name'"),
        ("no", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_file_of_something_else(text: str, because: str, folder: Path) -> None:
    Path("other.json").write_text(text)
    with pytest.raises(UnreadableFileError) as caught:
        read("other.json")
    assert str(caught.value) == (
        "other.json: this is not a file with the results of a self-test\n"
        f"  because of {because}\n  fix: give a file that prototrt.selftest() wrote"
    )


def test_the_command(folder: Path, sections_of: Callable[[Rows], list[str]]) -> None:
    asked = sections_of({"builds": [Row("lstm", "FAILED", ("too large",))]})
    result = run("selftest", "-o", "results.json", "--only", "builds", "--only", "speed")
    assert asked == ["machine", "builds"]
    assert result.exit_code == 5
    assert result.stderr == (
        "machine: look at what is installed, and what it can do\n"
        "speed: not tried, there is no GPU; it would time LSTM engines beside cuDNN\n"
        "builds: build an engine of every net with TensorRT for RTX\n"
        "error: builds: lstm: FAILED, too large\n"
        "  fix: send the developers the results: `prototrt selftest -o results.json`\n"
    )
    assert result.stdout.splitlines() == read("results.json").summary
    assert len(read("results.json").summary) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--show", "a.json", "-o", "b.json"],
            "Error: --show is for results that are there: leave out the other",
        ),
        (["--only", "swiftness"], "Error: Invalid value for '--only': 'swiftness' is not one of 'machine'"),
        (["--budget", "0"], "Error: Invalid value for '--budget': 0.0 is not in the range x>=1."),
    ],
)
def test_refusals(arguments: list[str], message: str, folder: Path) -> None:
    result = run("selftest", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert os.listdir() == []

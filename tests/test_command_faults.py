"""Whole commands of which each call to the system fails, or kills the process, once: files are new or as they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.cli import main
from prototrt.converter.batch import runner
from prototrt.converter.batch.entry import Entry, Outcome
from prototrt.converter.batch.work import work
from prototrt.tests.converter.batch.support import NET
from prototrt.tests.faults import KILLED, Fault, faults

TRAINED = """
layer {{ name: "in" type: "Data" top: "x" top: "y" data_param {{ batch_size: {size} }}
  transform_param {{ crop_size: 4 force_color: true }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param {{ num_output: 3 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "y" top: "loss" }}
"""
MODEL = "models:\n- {{prototxt: net.prototxt, name: net, format: onnx, random-weights: {size}}}\n"


WORKER_EVERY, PARENT_EVERY = 18, 150
"""How many calls lie between two faults where each of them takes a process of a second."""


class InThisProcess:
    """A worker whose calls to the system can be counted."""

    def run(self, entry: Entry) -> Outcome:
        return work(entry)

    def close(self) -> None: ...


IN_A_WORKER = """
import os, sys
from prototrt.tests.faults import Fault, inject
if "serve(" in " ".join(sys.orig_argv):
    told = os.open("told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    inject(Fault[os.environ["FAULT"]], int(os.environ["FAULT_AT"]), told, home="/converter/")
"""
"""A ``sitecustomize``, which Python runs when it starts: the calls of converter/ are counted in a worker alone."""


@pytest.fixture
def folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "Worker", InThisProcess)
    return models


@pytest.fixture
def models(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(memory_path)
    for size, name in enumerate(("old", "new"), 1):
        Path(f"{name}.prototxt").write_text(TRAINED.format(size=size))
        Path(f"{name}.yaml").write_text(MODEL.format(size=size))
    Path("net.prototxt").write_text(NET)
    return memory_path


def deploy(name: str) -> None:
    call("deploy", f"{name}.prototxt", "-o", "out/deploy.prototxt", "-q")


def batch(name: str) -> None:
    """Into an empty cache: what comes out of a full one is walked with the cache."""
    shutil.rmtree("cache", ignore_errors=True)
    call("batch", f"{name}.yaml", "-o", "out", "--jobs", "1", "--cache", "cache", "-q")


def call(*arguments: str) -> None:
    """Run the command. Raises ``ConversionError`` if it refuses, and what it crashes with."""
    result = CliRunner().invoke(main, arguments)
    if result.exit_code in (3, 4):
        raise ConversionError(result.output)
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"


def undisturbed(command: Callable[[str], None], name: str) -> dict[str, bytes]:
    """The files that it leaves, none of them hidden."""
    command(name)
    assert not [file for file in os.listdir("out") if file.startswith(".")]
    return files()


def files() -> dict[str, bytes]:
    """What a user sees."""
    return {path.name: path.read_bytes() for path in Path("out").glob("[!.]*") if path.exists()}


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(
    ("command", "every"),
    [
        pytest.param(deploy, 1, id="deploy"),
        pytest.param(batch, 43, id="batch", marks=pytest.mark.trt),
        pytest.param(batch, 1, id="batch-whole", marks=[pytest.mark.trt, pytest.mark.slow]),
    ],
)
def test_a_command_leaves_new_or_old_files(
    folder: Path, command: Callable[[str], None], every: int, fault: Fault
) -> None:
    (folder / "out").mkdir()
    new, old = undisturbed(command, "new"), undisturbed(command, "old")
    assert new.keys() == old.keys()
    assert new != old
    for place, code in faults(lambda: command("new"), fault, every):
        assert (code == KILLED) == (fault is Fault.KILL), place
        assert files() in ((old, new) if code else (new,)), place
        assert undisturbed(command, "old") == old, place


@pytest.mark.slow
@pytest.mark.trt
@pytest.mark.parametrize("fault", Fault)
def test_a_batch_leaves_new_or_old_files_whatever_befalls_its_worker(
    models: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    (models / "out").mkdir()
    new, old = undisturbed(batch, "new"), undisturbed(batch, "old")
    (models / "site").mkdir()
    (models / "site" / "sitecustomize.py").write_text(IN_A_WORKER)
    ends = {"new": 0, "old": 0}
    for number in range(0, 10_000, WORKER_EVERY):
        Path("told").unlink(missing_ok=True)
        with monkeypatch.context() as change:
            change.syspath_prepend(models / "site")
            change.setenv("FAULT", fault.name)
            change.setenv("FAULT_AT", str(number))
            failed = not succeeds(batch, "new")
        place = Path("told").read_text()
        if not place:
            break
        assert files() in ((old, new) if failed else (new,)), f"call {number}, {place}"
        ends["new" if files() == new else "old"] += 1
        assert undisturbed(batch, "old") == old, f"call {number}, {place}"
    assert ends["old"], "no fault hit a conversion"


@pytest.mark.slow
@pytest.mark.trt
@pytest.mark.parametrize("fault", Fault)
def test_a_batch_with_a_worker_of_its_own_leaves_new_or_old_files(models: Path, fault: Fault) -> None:
    (models / "out").mkdir()
    new, old = undisturbed(batch, "new"), undisturbed(batch, "old")
    for place, code in faults(lambda: batch("new"), fault, PARENT_EVERY):
        assert (code == KILLED) == (fault is Fault.KILL), place
        assert files() in ((old, new) if code else (new,)), place
        assert undisturbed(batch, "old") == old, place


def succeeds(command: Callable[[str], None], name: str) -> bool:
    try:
        command(name)
    except ConversionError:
        return False
    return True

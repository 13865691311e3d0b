"""Whole commands of which each call to the system fails, or kills the process, once: files are new or as they were."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.cli import main
from prototrt.converter.backends.onnx import file as onnx_file
from prototrt.converter.files.writing.publication import tidy
from prototrt.converter.front.batch import runner, versions
from prototrt.tests.converter.front.batch.support import NET, InThisProcess
from prototrt.tests.faults import INTERRUPTED, KILLED, Fault, calls_from, faults
from prototrt.tests.samples import sampled

TRAINED = """
layer {{ name: "in" type: "Data" top: "x" top: "y" data_param {{ batch_size: {size} }}
  transform_param {{ crop_size: 4 force_color: true }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param {{ num_output: 3 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "y" top: "loss" }}
"""
MODEL = "models:\n- {{prototxt: net.prototxt, name: net, format: onnx, random-weights: {size}}}\n"


FAULTS = [Fault.FAIL, Fault.KILL, pytest.param(Fault.INTERRUPT, marks=pytest.mark.exhaustive)]

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
    # Of the 570 files of our own code that the cache reads, one kind: they are all read alike.
    monkeypatch.setattr(versions, "_SOURCES", (".ptx",))
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
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    # 2: what cannot be read is not known to be ours, so it is refused.
    if result.exit_code in (2, 3, 4):
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


@pytest.mark.parametrize(
    "fault", [Fault.FAIL, Fault.KILL, pytest.param(Fault.INTERRUPT, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("command", "every"),
    [
        pytest.param(deploy, 5, id="deploy"),
        pytest.param(deploy, 1, id="deploy-whole", marks=pytest.mark.exhaustive),
        pytest.param(batch, 140, id="batch", marks=pytest.mark.trt),
        pytest.param(batch, 1, id="batch-whole", marks=[pytest.mark.trt, pytest.mark.exhaustive]),
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


PLAIN = """
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: {size} dim: 3 }} }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param {{ num_output: {size} }} }}
"""
WITH = ("--random-weights", "1", "-q")
COMMANDS = {
    "convert": [
        "convert",
        "{net}",
        *WITH,
        "-o",
        "out/net.onnx",
        "--target",
        "jetson",
        "--emit-header",
        "out/net.h",
    ],
    "calibrate": ["calibrate", "{net}", *WITH, "--inputs", "{name}.npz", "-o", "out/scales.json"],
    "survey": ["survey", "{net}", "-q", "-o", "out/survey.json"],
    "dot": ["dot", "{net}", "-q", "-o", "out/net.gv"],
    "run": ["run", "{net}", *WITH, "--inputs", "{name}.npz", "-o", "out/results.npz"],
    "to PyTorch": ["convert", "{net}", *WITH, "-o", "out/net.py"],
    "upgrade": ["upgrade", "{net}", *WITH, "-o", "out/net.prototxt", "-o", "out/net.caffemodel"],
    "weights": [
        "weights",
        "set",
        "rnn.prototxt",
        "rnn.caffemodel",
        "{name}-rnn.npz",
        "-q",
        "-o",
        "out/net.caffemodel",
    ],
}
IMAGES = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 2 } }
layer { name: "y" type: "Softmax" bottom: "fc" top: "y" }
"""
RNN = """
layer { name: "x" type: "Input" top: "x" top: "cont"
  input_param { shape { dim: 1 dim: 1 dim: 3 } shape { dim: 1 dim: 1 } } }
layer { name: "rnn" type: "RNN" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 2 } }
"""
INTO_A_FOLDER = {
    "triton": ["triton", "new-net.prototxt", *WITH, "--name", "net", "-o", "{folder}"],
    "deepstream": ["deepstream", "images.prototxt", *WITH, "-o", "{folder}"],
    "new-rule": ["new-rule", "images.prototxt", "fc", "-q", "-o", "{folder}/rule.py"],
}


@pytest.fixture
def plain_nets(models: Path) -> Path:
    """Two nets and their inputs; the weights of the model stand in a file of their own."""
    for size, name in enumerate(("old", "new"), 2):
        (models / f"{name}-net.prototxt").write_text(PLAIN.format(size=size))
        np.savez(models / f"{name}.npz", x=np.ones((size, 3), np.float32))
        np.savez(models / f"{name}-rnn.npz", **{"rnn/W_xh": np.full((2, 3), size, np.float32)})  # type: ignore[arg-type]
    Path("images.prototxt").write_text(IMAGES)
    Path("rnn.prototxt").write_text(RNN)
    call("upgrade", "rnn.prototxt", *WITH, "-o", "rnn.upgraded.prototxt", "-o", "rnn.caffemodel")
    (models / "out").mkdir()
    return models


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("every", sampled(45))
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_every_call_of_a_command_fails_and_kills(
    plain_nets: Path, arguments: Sequence[str], every: int, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "EXTERNAL_FROM", 0)
    monkeypatch.setattr(onnx_file, "_INSIDE", 0)

    def command(name: str) -> None:
        call(*(argument.format(net=f"{name}-net.prototxt", name=name) for argument in arguments))

    new, old = undisturbed(command, "new"), undisturbed(command, "old")
    assert new.keys() == old.keys()
    assert new != old
    counts = Counter[int]()
    for place, code in faults(lambda: command("new"), fault, every):
        counts[code] += 1
        assert (code == KILLED) == (fault is Fault.KILL), place
        if code or arguments[0] != "survey":  # which tells of a net that it cannot read
            assert files() in ((old, new) if code else (new,)), place
        else:
            assert json.loads(files()["survey.json"]), place
        assert undisturbed(command, "old") == old, place
    print(f"{arguments[0]}, {fault.value}: {sum(counts.values())} calls, {dict(counts)}")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("every", sampled(45))
@pytest.mark.parametrize(
    ("command", "into"),
    [("triton", "out"), ("triton", "out/new"), ("deepstream", "out/new"), ("new-rule", "out")],
)
def test_every_call_leaves_a_whole_folder_or_none(
    plain_nets: Path, command: str, into: str, every: int, fault: Fault
) -> None:
    folder = Path(into)

    def write() -> None:
        call(*(argument.format(folder=into) for argument in INTO_A_FOLDER[command]))

    def model() -> dict[str, bytes]:
        paths = folder.rglob("*") if folder.exists() else ()
        found = {
            path for path in paths if path.is_file() and not path.relative_to("out").parts[0].startswith(".")
        }
        return {str(path): path.read_bytes() for path in found}

    def empty() -> None:
        shutil.rmtree("out")
        Path("out").mkdir()

    write()
    whole, count = model(), 0
    assert whole
    empty()
    for place, code in faults(write, fault, every):
        count += 1
        assert (code == KILLED) == (fault is Fault.KILL), place
        assert model() in (({}, whole) if code else (whole,)), place
        tidy("out")
        hidden = {name for name in os.listdir("out") if name.startswith(".")}
        assert hidden <= {".prototrt-lock"}, place  # which the next writer takes and removes
        empty()
    print(f"{command} into {into}, {fault.value}: {count} calls")


@pytest.mark.slow
@pytest.mark.trt
@pytest.mark.parametrize(
    "fault", [Fault.FAIL, pytest.param(Fault.KILL, marks=pytest.mark.exhaustive), FAULTS[-1]]
)
@pytest.mark.parametrize("every", sampled(30, least=18))  # each takes a process of a second
def test_a_batch_leaves_new_or_old_files_whatever_befalls_its_worker(
    models: Path, every: int, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    (models / "out").mkdir()
    new, old = undisturbed(batch, "new"), undisturbed(batch, "old")
    (models / "site").mkdir()
    (models / "site" / "sitecustomize.py").write_text(IN_A_WORKER)
    ends = {"new": 0, "old": 0}
    for number in calls_from(fault, every):
        Path("told").unlink(missing_ok=True)
        with monkeypatch.context() as change:
            change.setenv("PYTHONPATH", os.pathsep.join([str(models / "site"), *filter(None, sys.path)]))
            change.setenv("FAULT", fault.name)
            change.setenv("FAULT_AT", str(number))
            failed = not succeeds(batch, "new")
        place = Path("told").read_text()
        if not place:
            break
        assert files() in ((old, new) if failed else (new,)), f"call {number}, {place}"
        ends["new" if files() == new else "old"] += 1
        assert undisturbed(batch, "old") == old, f"call {number}, {place}"
    # A worker leaves Ctrl-C to the batch.
    assert bool(ends["old"]) == (fault is not Fault.INTERRUPT), "no fault hit a conversion"


@pytest.mark.slow
@pytest.mark.trt
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("every", sampled(300, least=25))
def test_a_batch_with_a_worker_of_its_own_leaves_new_or_old_files(
    models: Path, every: int, fault: Fault
) -> None:
    (models / "out").mkdir()
    new, old = undisturbed(batch, "new"), undisturbed(batch, "old")
    for place, code in faults(lambda: batch("new"), fault, every):
        assert (code == KILLED) == (fault is Fault.KILL), place
        assert files() in ((old, new) if code else (new,)), place
        assert undisturbed(batch, "old") == old, place


def succeeds(command: Callable[[str], None], name: str) -> bool:
    try:
        command(name)
    except ConversionError:
        return False
    return True

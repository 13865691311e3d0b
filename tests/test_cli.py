"""What a user types, sees, and gets as exit code, whatever the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_origin

import numpy as np
import pytest
from click.testing import CliRunner

import prototrt
from prototrt.converter.front import steps
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.surgery import pipeline
from prototrt.surgery.ir import Graph
from prototrt.surgery.runner import PassList
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.fresh_python import run_python

# ---------------------------------------------------------------- the frame


def test_help_imports_nothing_slow() -> None:
    code = """
import sys
from prototrt.cli import main
main(["--help"], standalone_mode=False)
slow = {"google.protobuf", "h5py", "numpy", "rich", "tensorrt", "tensorrt_rtx"} & set(sys.modules)
sys.exit(f"imported {slow}" if slow else 0)
"""
    assert run_python("-c", code, check=False).stderr == ""


@pytest.mark.parametrize("command", [[], ["convert"], ["dot"], ["inspect"], ["run"], ["verify"]])
def test_help_documents_the_exit_codes(command: list[str]) -> None:
    text = done(*command, "--help").output
    for code in ("0    done", "2    the", "3    the", "4    TensorRT", "5    a check", "1    internal error"):
        assert code in text


def test_version() -> None:
    assert done("--version").output == f"prototrt, version {prototrt.__version__}\n"
    result = CliRunner().invoke(convert, ["--version"])
    assert result.output == f"prototrt, version {prototrt.__version__}\n"


def test_a_file_in_the_place_of_a_command(tmp_path: Path) -> None:
    file = tmp_path / "my net.prototxt"
    file.touch()
    result = run(str(file))
    assert result.exit_code == 2
    assert result.output.endswith(
        f"\nError: '{file}' is a file, expected a command\n"
        f"  fix: prototrt inspect '{file}' shows what it is and what to do with it\n"
    )
    assert "\nError: No such command 'conver'." in run("conver").output


def test_public_names_are_found_and_others_are_not() -> None:
    for name in prototrt.__all__:
        found = getattr(prototrt, name)
        assert get_origin(found) is Literal or found.__name__.rpartition(".")[2] == name
    assert set(prototrt.__all__) <= set(dir(prototrt))
    with pytest.raises(AttributeError, match="module 'prototrt' has no attribute 'nothing'"):
        prototrt.nothing  # noqa: B018  what a user might write


@pytest.mark.parametrize(
    ("flags", "passes", "mine"), [([], False, True), (["-vv"], True, True), (["-q"], False, False)]
)
def test_verbosity(flags: list[str], passes: bool, mine: bool, tmp_path: Path) -> None:
    """-vv tells of passes, -q not even of warnings."""
    np.savez(tmp_path / "in.npz", data=np.zeros((40, 1, 32, 16)), cont=np.zeros((40, 1)))
    files = ["--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    result = done(
        "run", DEPLOY, "--random-weights", "1", "--output", "lstm1", "--output", "conv1", *files, *flags
    )
    assert ("prototrt.surgery.runner: " in result.stderr) is passes
    assert (
        result.stdout == f"{tmp_path / 'out.npz'}: 1 call on onnx, lstm1 40x1x64, conv1 40x12x32x16\n"
    ) is mine


def test_warnings_are_told_unless_quiet(tmp_path: Path) -> None:
    net = tmp_path / "odd.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }\n'
        'layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" param { mystery: 1 }\n'
        " inner_product_param { num_output: 3 } }\n"
    )
    assert run("inspect", str(net)).exit_code == 3
    assert done("inspect", str(net), "--allow-unknown").stderr.startswith(f"warning: {net}:2: ")
    assert done("inspect", str(net), "--allow-unknown", "-q").stderr == ""


# ---------------------------------------------------------------- usage errors: 2

USAGE = {
    "no weights": (
        ["convert", DEPLOY, "-o", "a.plan"],
        f"the model has no weights\n  fix: give WEIGHTS, such as {WEIGHTS}, or --random-weights 0 to try the"
        " topology alone",
    ),
    "two sorts of weights": (
        ["inspect", DEPLOY, WEIGHTS, "--random-weights", "1"],
        "WEIGHTS and --random-weights are given, expected one of them\n  fix: leave one of them out",
    ),
    "no output file": (
        ["convert", DEPLOY, WEIGHTS],
        "Missing option '-o'. Name the file to write, as in -o net.plan",
    ),
    "a misspelt option": (
        ["convert", DEPLOY, WEIGHTS, "-o", "a.plan", "--precison", "fp16"],
        "No such option '--precison'. Did you mean --precision?",
    ),
    "a part of an option": (
        ["batch", "models.yaml", "-o", "out", "--junit", "report.xml"],
        "No such option '--junit'. Did you mean --report-junit?",
    ),
    "an unknown option": (["convert", DEPLOY, "--zzzz"], "No such option '--zzzz'."),
    "a shape with commas": (
        ["inspect", DEPLOY, "--shape", "x:1,3,8,8"],
        "Invalid value for '--shape': \"x:1,3,8,8\" is not a shape: write the blob's name, a colon, and sizes of 1"
        " or more with x between them, as in x:1x3x8x8",
    ),
    "a shape of letters": (
        ["inspect", DEPLOY, "--shape", "data:NxCxHxW"],
        "Invalid value for '--shape': \"data:NxCxHxW\" has letters for sizes: write numbers, as in"
        " data:1x3x224x224, or brackets around those that vary, as in data:[N]x3x224x224",
    ),
    "a shape without a name": (
        ["inspect", DEPLOY, "--shape", "1x3"],
        "Invalid value for '--shape': \"1x3\" is not a shape: write the blob's name, a colon, and sizes of 1"
        " or more with x between them, as in data:1x3",
    ),
    "a shape after an equals sign": (
        ["inspect", DEPLOY, "--shape", "data=20x1x32x16"],
        "Invalid value for '--shape': \"data=20x1x32x16\" is not a shape: write the blob's name, a colon, and"
        " sizes of 1 or more with x between them, as in data:20x1x32x16",
    ),
    "an option in the place of a number": (
        ["convert", DEPLOY, "--random-weights", "-o", "a.onnx"],
        "the value of --random-weights is missing before -o\n  fix: type --random-weights SEED, as in"
        " --random-weights 1",
    ),
    "an option in the place of a choice": (
        ["convert", DEPLOY, WEIGHTS, "--cont", "-o", "a.onnx"],
        "the value of --cont is missing before -o\n  fix: type --cont [keep|drop], as in --cont drop",
    ),
    "an option in the place of words": (
        ["convert", DEPLOY, WEIGHTS, "--dynamic", "--strict", "-o", "a.onnx"],
        "the value of --dynamic is missing before --strict\n  fix: type --dynamic WAY,..., as in --dynamic batch",
    ),
    "an option in the place of a shape": (
        ["convert", DEPLOY, WEIGHTS, "--shape", "-o", "a.onnx"],
        "the value of --shape is missing before -o\n  fix: type --shape NAME:SIZExSIZE..., as in --shape"
        " data:1x3x224x224",
    ),
    "an option in the place of a file to read": (
        ["convert", DEPLOY, WEIGHTS, "--rules", "--precision", "fp16", "-o", "a.onnx"],
        "the value of --rules is missing before --precision\n  fix: type --rules FILE.py",
    ),
    "an option in the place of the file to write": (
        ["convert", DEPLOY, WEIGHTS, "-o", "--debug"],
        "the value of -o is missing before --debug\n  fix: type -o FILE, as in -o net.plan",
    ),
    "nothing in the place of the file to write": (
        ["convert", DEPLOY, WEIGHTS, "-o"],
        "the value of -o is missing at the end\n  fix: type -o FILE, as in -o net.plan",
    ),
    "the file to write without its option": (
        ["convert", DEPLOY, WEIGHTS, "x.onnx"],
        "x.onnx is one file too many\n  fix: if it is the file to write, type -o x.onnx",
    ),
    "the file to write without an option that need not be given": (
        ["deploy", DEPLOY, "new.prototxt"],
        "new.prototxt is one file too many\n  fix: if it is the file to write, type -o new.prototxt",
    ),
    "the file to write in the place of weights": (
        ["convert", DEPLOY, "x.onnx", "--random-weights", "1"],
        "x.onnx: there is no such file\n  fix: if it is the file to write, type -o x.onnx",
    ),
    "the file to write in the place of weights, where it need not be given": (
        ["dot", DEPLOY, "my net.html"],
        "my net.html: there is no such file\n  fix: if it is the file to write, type -o 'my net.html'",
    ),
    "one more file that is no result": (
        ["convert", DEPLOY, WEIGHTS, "x.html"],
        "Missing option '-o'. Name the file to write, as in -o net.plan",
    ),
    "no weights to list": (
        ["weights", "list", "net.prototxt"],
        "Missing argument 'WEIGHTS'. MODEL is net.prototxt",
    ),
    "no old weights": (
        ["weights", "set", "net.prototxt", "my net.safetensors", "-o", "x.caffemodel"],
        "Missing argument 'SOURCE'. MODEL is net.prototxt, WEIGHTS is my net.safetensors\n  fix: type prototrt weights"
        " set net.prototxt OLD.caffemodel 'my net.safetensors' -o NEW.caffemodel; or, if my net.safetensors has all"
        " parameters, prototrt upgrade net.prototxt 'my net.safetensors' -o NEW.prototxt",
    ),
    "a way with a longer name": (
        ["verify", DEPLOY, WEIGHTS, "--on", "onnxruntime"],
        "--on is 'onnxruntime', expected one of reference, network, onnx, onnx-lstm, torch, tensorrt-python,"
        " opencv, openvino, openvino-f32, engine\n  fix: use --on onnx",
    ),
    "a shape with a zero": (
        ["inspect", DEPLOY, "--shape", "data:1x0"],
        "Invalid value for '--shape': \"data:1x0\" is not a shape: write the blob's name, a colon, and sizes"
        " of 1 or more with x between them, as in data:1x3x224x224",
    ),
    "a folder that is not there": (
        ["convert", DEPLOY, WEIGHTS, "-o", "nowhere/a.plan"],
        'Invalid value for \'-o\': cannot write "nowhere/a.plan": the folder "nowhere" does not exist',
    ),
    "no calls": (
        ["run", DEPLOY, WEIGHTS, "--inputs", "in.npz", "-o", "out.npz", "--calls", "0"],
        "Invalid value for '--calls': 0 is not in the range 1<=x<=1000000.",
    ),
    "negative weights": (
        ["inspect", DEPLOY, "--random-weights", "-1"],
        "Invalid value for '--random-weights': -1 is not in the range x>=0.",
    ),
    "a negative seed": (
        ["verify", DEPLOY, WEIGHTS, "--seed", "-1"],
        "Invalid value for '--seed': -1 is not in the range x>=0.",
    ),
    "a verification without a page": (
        ["dot", DEPLOY, "--verification", "checks.json", "-o", "net.svg"],
        "--verification is for pages: also give -o FILE.html",
    ),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_errors(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = USAGE[case]
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"\nError: {message}\n")
    assert result.stdout == ""
    assert os.listdir(tmp_path) == []


OVERWRITES = {
    "model": (["dot", "net", "-o", "net"], "net"),
    "model, by a link": (["dot", "net", "-o", "other name"], "net"),
    "weights, by an ONNX model's": (["convert", "net", "m.onnx.data", "-o", "m.onnx"], "m.onnx.data"),
    "rules": (["convert", "net", "weights", "--rules", "in.npz", "-o", "in.plan"], "in.npz"),
    "a verification": (["dot", "net", "--verification", "v.html", "-o", "v.html"], "v.html"),
    "a training net": (["deploy", "net", "-o", "net"], "net"),
    "weights": (["convert", "net", "weights", "-o", "./weights"], "weights"),
    "weights, by the manifest": (["convert", "net", "a.plan.json", "-o", "a.plan"], "a.plan.json"),
    "inputs": (["run", "net", "weights", "--inputs", "in.npz", "-o", "in.npz"], "in.npz"),
    "states": (["convert", "net", "weights", "--state", "const", "in.npz", "-o", "in.plan"], "in.npz"),
}


@pytest.mark.parametrize("case", OVERWRITES)
def test_no_command_writes_over_what_it_reads(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("net", "weights", "a.plan.json", "m.onnx.data", "in.npz", "v.html"):
        Path(name).write_text("precious")
    os.link("net", "other name")
    os.link("in.npz", "in.plan")
    arguments, file = OVERWRITES[case]
    result = run(*arguments)
    assert result.exit_code == 2
    message = f'Error: -o would overwrite "{file}", which is read\n  fix: give another output file\n'
    assert result.stderr.endswith(message)
    assert Path(file).read_text() == "precious"


# ---------------------------------------------------------------- failures


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def load(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(steps, "load", load)


RUN_IT = "build an engine from it with trtexec; if prototrt wrote it, `prototrt run` runs it"


@pytest.mark.parametrize(
    ("given", "kind", "further"),
    [
        ("sub/net.py", "a Python program", ""),
        ("sub/net.onnx", "an ONNX model", f"; or {RUN_IT}"),
        ("sub/net.onnx.json", "JSON", ""),
    ],
)
@pytest.mark.parametrize("command", ["dot", "verify"])
def test_the_net_of_a_file_that_prototrt_wrote_is_named(
    command: str, given: str, kind: str, further: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/deploy.prototxt").write_bytes(Path(DEPLOY).read_bytes())
    for file in ("sub/net.py", "sub/net.onnx"):
        assert run("convert", "sub/deploy.prototxt", WEIGHTS, "-o", file).exit_code == 0
    result = run(command, given)
    assert (result.exit_code, result.stderr) == (
        3,
        f"error: {given}: this is {kind}, expected a prototxt\n"
        f"  fix: give the net that it was converted from: sub/deploy.prototxt digits.caffemodel{further}\n",
    )


def test_any_program_instead_of_a_net(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('\n"""Trains a net."""\n')
    result = run("verify", str(tmp_path / "train.py"))
    assert (result.exit_code, result.stderr) == (
        3,
        f"error: {tmp_path}/train.py: this is a Python program, expected a prototxt\n"
        "  fix: give the prototxt first and the weights second\n",
    )


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    target = tmp_path / "a.plan"
    result = run("convert", "nowhere.prototxt", WEIGHTS, "-o", str(target))
    assert result.exit_code == 3
    assert result.stderr.startswith("error: nowhere.prototxt: ")
    assert "Traceback" not in result.output
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "code"), [("ConversionError", 3), ("BuildError", 4), ("VerificationError", 5)]
)
def test_errors_choose_the_exit_code(monkeypatch: pytest.MonkeyPatch, error: str, code: int) -> None:
    from prototrt.caffe_proto.common import errors

    failing(monkeypatch, getattr(errors, error)("it is wrong", where="net.prototxt:7", fix="mend it"))
    result = run("inspect", DEPLOY)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: net.prototxt:7: it is wrong\n  fix: mend it\n"


def test_our_own_mistake_is_an_apology(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, RuntimeError("no such thing"))
    result = run("inspect", DEPLOY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "internal error: RuntimeError: no such thing\n"
        "Please run the command again with --debug and report its output.\n"
    )


def test_too_little_memory_is_no_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, MemoryError("Unable to allocate 149. GiB"))
    result = run("inspect", DEPLOY)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "error: the machine does not have enough memory for this net\n"
        "  fix: use a machine with more memory, or smaller shapes and layers\n"
    )


@pytest.mark.parametrize("arguments", [["--debug", "inspect", DEPLOY], ["inspect", DEPLOY, "--debug"]])
def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    failing(monkeypatch, RuntimeError("no such thing"))
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize("flags", [[], ["--debug"]], ids=["plain", "debug"])
def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch, flags: list[str]) -> None:
    """With --debug the graph before it is printed, too."""

    def forget_the_first_node(graph: Graph) -> Graph:
        return graph.with_nodes(graph.nodes[1:])

    monkeypatch.setattr(pipeline, "CANONICAL", PassList("canonical", (forget_the_first_node,)))
    result = run("dot", DEPLOY, "--stage", "rewritten", *flags)
    problem = "the pass forget_the_first_node breaks the graph: bn1 reads conv1@conv1 before it is written"
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"internal error: PassError: {problem}\n" in result.stderr
    shown = "\nThe graph before forget_the_first_node:\ngraph digits(" in result.stderr
    assert shown is bool(flags)


def test_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    result = run("inspect", DEPLOY)
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


@pytest.mark.parametrize("name", ["n" * 260, "n" * 252])
def test_a_name_that_is_too_long(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with the suffix of a manifest, or while it is written under another name."""
    monkeypatch.chdir(tmp_path)
    result = run("convert", DEPLOY, WEIGHTS, "-o", name)
    assert result.exit_code == 2
    assert result.stderr.endswith(": its name is too long\n")
    assert run("cache", "prune", name).exit_code == 3

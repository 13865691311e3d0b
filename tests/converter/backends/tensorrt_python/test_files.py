"""What is written: the program, which anybody can run, and the files beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prototrt
from prototrt import Precision
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import VaryingSize
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.converter.backends.tensorrt_python.programs import of_file, of_program, ours
from prototrt.tests.fresh_python import ROOT, run_python
from prototrt.tests.golden_cases import case_called, fork_cases, rewritten
from prototrt.tests.samples import first_of_each
from prototrt.tests.small_nets import inputs_of, loaded, op

pytestmark = pytest.mark.trt

TARGET = ("--target", "tensorrt-python")
GOLDEN = Path(__file__).with_name("lstm.py.txt")
LSTM = (ROOT / "docs/how-it-works.md").read_text().split("```protobuf\n")[1].split("```")[0]
"""The net that the documentation follows through the stages."""


def digits(folder: Path, *options: str, file: str = "build.py") -> Path:
    done("convert", DEPLOY, WEIGHTS, "-o", str(folder / file), *TARGET, *options)
    return folder / file


def built(program: Path, *arguments: str) -> bytes:
    """The plan that a program builds, with NumPy and TensorRT alone."""
    plan = program.with_name("built.plan")
    plan.unlink(missing_ok=True)
    blocked = "import sys; sys.modules['prototrt'] = None; sys.argv = sys.argv[1:]; import runpy;"
    code = f"{blocked} runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", code, str(program), "-o", str(plan), *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd="/")
    return plan.read_bytes()


def plan_of(folder: Path, *options: str) -> bytes:
    """In a process of its own: TensorRT numbers some things of a plan through all builds of a process."""
    command = ["convert", DEPLOY, WEIGHTS, "-o", str(folder / "ours.plan"), "--backend", "rtx", *options]
    run_python("-m", "prototrt", *command)
    return (folder / "ours.plan").read_bytes()


def test_the_plan_of_the_sample_is_ours(tmp_path: Path) -> None:
    assert built(digits(tmp_path)) == plan_of(tmp_path)


LEVELS = (
    *("--builder-optimization-level", "1"),
    *("--profiling-verbosity", "detailed"),
    *("--mem-pool-size", "workspace=64MiB"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("converted", "arguments", "building"),
    [
        (["--precision", "fp16"], ["--tf32"], ["--tf32"]),
        (["--dynamic", "time"], [], []),
        (
            ["--dynamic", "time"],
            ["--profile", "T=1:1:1", "--profile", "T=1:16:64"],
            ["--profile", "T=1..1", "--profile", "T=1..16..64"],
        ),
        (
            ["--keep-batch-norm"],
            [*LEVELS, "--compute-capabilities", "8.6", "8.9"],
            [*LEVELS, "--compute-capabilities", "8.6,8.9"],
        ),
    ],
)
def test_options_of_the_program_are_ours(
    converted: list[str], arguments: list[str], building: list[str], tmp_path: Path
) -> None:
    plan, expected = built(digits(tmp_path, *converted), *arguments), plan_of(tmp_path, *converted, *building)
    if "--dynamic" in converted:  # TensorRT does not always give the same bytes for sizes that vary
        assert len(plan) == len(expected)
    else:
        assert plan == expected


def quantized(name: str, precision: Precision) -> Graph:
    """A graph in other types; without a demand for weights, the range of each value is 1."""
    return prototrt.rewrite(case_called(name).load(), precision=precision, require_weights=False)


@pytest.mark.parametrize("precision", ["bf16", "int8", "fp8"])
def test_precisions(precision: Precision, tmp_path: Path) -> None:
    for name in ("net_lenet", "lstm_t5_n3"):
        graph = quantized(name, precision)
        assert of_program(graph, tmp_path) == ours(graph)


@pytest.mark.parametrize(
    ("name", "dynamic"), [("lstm_t5_n3", "time"), ("lstm_t5_n3", "batch"), ("net_fcn", "size")]
)
def test_sizes_that_vary(name: str, dynamic: VaryingSize, tmp_path: Path) -> None:
    graph = prototrt.rewrite(case_called(name).load(), dynamic=[dynamic])
    assert graph.symbols
    assert of_program(graph, tmp_path) == ours(graph)


def test_text_and_documentation(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The page shows the program of the LSTM as it is written, but for what is the same in all programs."""
    (tmp_path / "lstm.prototxt").write_text(LSTM)
    graph = prototrt.rewrite(prototrt.load(tmp_path / "lstm.prototxt", random_weights=1))
    prototrt.export_tensorrt_python(graph, tmp_path / "build.py")
    text = (tmp_path / "build.py").read_text().replace(prototrt.__version__, "VERSION")
    page = ROOT / "docs/tensorrt-python.md"
    if request.config.getoption("--update-goldens"):
        GOLDEN.write_text(text)
        shown = (
            "```python\n" + re.findall(r"^def fill.*?\n(?=\n\n)", text, re.DOTALL | re.MULTILINE)[0] + "```"
        )
        page.write_text(
            re.sub(r"```python\ndef fill.*?```", lambda _: shown, page.read_text(), flags=re.DOTALL)
        )
    assert text == GOLDEN.read_text()
    (shown,) = re.findall(r"^```python\n(def fill.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert f"\n{shown}\n" in text


def test_another_activation(tmp_path: Path) -> None:
    """The line that the page changes makes the network of the field that it names."""
    page = (ROOT / "docs/tensorrt-python.md").read_text()
    (changed,) = re.findall(r"^```python\n(c_activated = .*)\n```$", page, re.MULTILINE)
    (override,) = re.findall(r"--set '(.*?)'", page)
    (tmp_path / "lstm.prototxt").write_text(LSTM)
    networks = []
    for overrides in ({}, dict([override.split("=")])):
        model = prototrt.load(tmp_path / "lstm.prototxt", random_weights=1, overrides=overrides)
        networks.append(prototrt.rewrite(model))
    prototrt.export_tensorrt_python(networks[0], tmp_path / "build.py")
    text = (tmp_path / "build.py").read_text()
    (line,) = [line for line in text.splitlines() if line.strip().startswith("c_activated = ")]
    (tmp_path / "build.py").write_text(text.replace(line.strip(), changed))
    assert of_file(tmp_path / "build.py") == ours(networks[1]) != ours(networks[0])


@pytest.mark.slow
def test_ruff_accepts_every_file(tmp_path: Path) -> None:
    for case in first_of_each(fork_cases(), lambda case: case.families):
        graph = rewritten(case, case.arrays("inputs")[0])
        prototrt.export_tensorrt_python(graph, tmp_path / f"{case}.py")
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    result = subprocess.run([*command, "--no-cache"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_command_writes_three_files(tmp_path: Path) -> None:
    result = done("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "build.py"), *TARGET, "--verify")
    assert "56 nodes -> a program for 81 TensorRT layers\n" in result.stdout
    assert "verified tensorrt-python in 2 calls" in result.stdout
    following = result.stdout.splitlines()[-1]
    assert following == (
        "next     copy build.py and build.safetensors to the machine with the GPU, and type there:"
        " python build.py -o build.plan"
    )
    assert {file.name for file in tmp_path.iterdir()} == {"build.py", "build.py.json", "build.safetensors"}
    facts = json.loads((tmp_path / "build.py.json").read_text())
    assert facts["tensorrt_python"] == {"weights": "build.safetensors", "tensors": 14}
    assert {role: file["file"] for role, file in facts["files"].items()} == {
        "product": "build.py",
        "weights": "build.safetensors",
    }
    digits(tmp_path)  # our own files are replaced


def test_what_a_look_at_the_file_finds(tmp_path: Path) -> None:
    digits(tmp_path)
    looked = done("inspect", str(tmp_path / "build.py")).stdout
    assert "build.py: a program that builds an engine through TensorRT's API, which prototrt wrote" in looked
    assert "lstm1_h_T -> lstm1_h_0" in looked
    assert "weights in a safetensors file" in done("inspect", str(tmp_path / "build.safetensors")).stdout


def test_weights_of_others_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "net.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    graph = prototrt.rewrite(case_called("net_lenet").load())
    with pytest.raises(prototrt.OptionsError, match=r"net\.safetensors\", which prototrt did not write"):
        prototrt.export_tensorrt_python(graph, tmp_path / "net.py")
    assert not (tmp_path / "net.py").exists()


def test_weights_lie_where_their_types_may_lie(tmp_path: Path) -> None:
    """Bytes stand after numbers of several bytes."""
    graph = quantized("net_lenet", "int8")
    prototrt.export_tensorrt_python(graph, tmp_path / "net.py")
    content = (tmp_path / "net.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    facts = json.loads(content[8 : 8 + length])
    facts.pop("__metadata__")
    assert {fact["dtype"] for fact in facts.values()} == {"F16", "I8"}
    sizes = {"F16": 2, "I8": 1}
    assert all((8 + length + fact["data_offsets"][0]) % sizes[fact["dtype"]] == 0 for fact in facts.values())


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        (
            "net.plan",
            TARGET,
            "--target tensorrt-python writes a program, but FILE does not end in .py\n"
            "  because the program builds the engine with the TensorRT that it finds\n"
            "  fix: choose a FILE that ends in .py\n",
        ),
        (
            "net.py",
            (*TARGET, "--tf32"),
            "--tf32 is for engines, but FILE ends in .py\n"
            "  fix: give it to the program, whose help lists the builder's options\n",
        ),
        (
            "net.py",
            (*TARGET, "--backend", "rtx"),
            "--target tensorrt-python and --backend rtx contradict each other\n"
            "  because the program builds the engine with the TensorRT that it finds\n"
            "  fix: leave out one of them\n",
        ),
        ("net.py", (*TARGET, "--tile", "plugin"), "--tile plugin is for engines, but FILE ends in .py\n"),
        (
            "net.py",
            ("--target", "rtx"),
            "--target rtx writes an engine, but FILE ends in .py\n"
            "  fix: choose a FILE that ends in .plan, or use --target tensorrt-python\n",
        ),
        ("net.py", ("--keep-batch-norm",), "--keep-batch-norm is for engines, but FILE ends in .py"),
    ],
)
def test_options_that_do_not_fit(file: str, options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / file), *options)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("target", ["datacenter", "jetson"])
def test_other_targets_say_that_there_is_a_program(target: str, tmp_path: Path) -> None:
    lines = done(
        "convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "n.onnx"), "--target", target
    ).stdout.splitlines()
    assert (
        "note     --target tensorrt-python writes a program instead, which builds our network there without ONNX"
    ) in lines


def test_a_profile_of_an_unknown_size(tmp_path: Path) -> None:
    program = digits(tmp_path, "--dynamic", "time")
    command = [sys.executable, str(program), "--profile", "B=1:2:3"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr.splitlines()[-1]) == (1, "B is no size that varies: T")
    assert not program.with_suffix(".plan").exists()


def test_a_constant_output_and_small_numbers(tmp_path: Path) -> None:
    """What no layer computes is an output as well, and numbers that TensorRT's layers need stand in the text."""
    net = inputs_of({"x": (2, 3)}) + op("Power", "power_param { power: 1.5 scale: -0.1 shift: 3 }")
    graph = prototrt.rewrite(loaded(tmp_path, net))
    assert of_program(graph, tmp_path) == ours(graph)
    text = (tmp_path / "build.py").read_text()
    assert "np.full((1, 1), -0.1, np.float32)" in text
    assert "weights[" not in text.split("def fill")[1].split("def number_of_bytes")[0]


def test_states_that_are_zero_are_arrays_for_the_program(tmp_path: Path) -> None:
    """They are one number that is stored once, which TensorRT's bindings do not take."""
    bottoms = ("x", "cont", "lengths")
    text = inputs_of({"x": (1, 1, 3), "cont": (1, 1), "lengths": (1,)}) + op(
        "LSTM", "recurrent_param { num_output: 2 sequence_lengths: true past_end: HOLD }", bottoms
    )
    model = loaded(tmp_path, text, random_weights=1)
    compared = prototrt.verify(
        model, ways=["tensorrt-python"], rewriting=prototrt.RewriteOptions(state="zero")
    )
    assert compared.verdict.startswith("PASS")

"""Nets for machines that are not this one: what is written, what is refused, and what comes next."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.checking.machines.targets import find_target
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.options import BuildOptions, ConvertOptions
from prototrt.converter.product import Product
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.golden_cases import case_called, rewritten
from prototrt.tests.small_nets import inputs_of, loaded, op

RANGES = ("--min-shapes", "data:1x1x32x16,cont:1x1", "--max-shapes", "data:100x1x32x16,cont:100x1")
SHAPES = [
    "--minShapes=data:1x1x32x16,cont:1x1",
    "--optShapes=data:40x1x32x16,cont:40x1",
    "--maxShapes=data:100x1x32x16,cont:100x1",
]


def digits(folder: Path, *options: str, suffix: str = "onnx") -> list[str]:
    """The lines that ``convert`` prints for the digits sample."""
    return done(
        "convert", DEPLOY, WEIGHTS, "-o", str(folder / f"digits.{suffix}"), *options
    ).stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["--noTF32"]),
        (["--tf32"], []),
        (["--precision", "fp16"], ["--stronglyTyped", "--noTF32"]),
        ([*RANGES], ["--noTF32", *SHAPES]),
    ],
)
def test_the_script_hands_trtexec_what_is_printed(
    options: list[str], words: list[str], tmp_path: Path
) -> None:
    *_, following, printed = digits(tmp_path, "--target", "jetson", *options)
    assert (
        following
        == "next     copy digits.onnx and digits.onnx.sh to the Jetson, and type there: sh digits.onnx.sh"
    )
    command = ["trtexec", "--onnx=digits.onnx", "--saveEngine=digits.plan", *words]
    assert printed == f"         it runs {shlex.join(command)}"
    assert json.loads((tmp_path / "digits.onnx.json").read_text())["trtexec"] == command
    assert given_to_trtexec(tmp_path / "digits.onnx.sh", "--verbose") == [*command[1:], "--verbose"]


def given_to_trtexec(script: Path, *further: str) -> list[str]:
    """The arguments that a script hands to trtexec, called from elsewhere."""
    tools = script.parent / "tools"
    tools.mkdir()
    (tools / "trtexec").write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\nls > seen\n')
    (tools / "trtexec").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["sh", str(script), *further], env=environment, cwd="/", check=True, capture_output=True, text=True
    )
    assert script.name in (script.parent / "seen").read_text(), "it runs beside the model"
    return told.stdout.split("\0")[:-1]


def test_the_script_names_the_state(tmp_path: Path) -> None:
    digits(tmp_path, "--target", "datacenter")
    assert (
        (tmp_path / "digits.onnx.sh").read_text()
        == f"""\
#!/bin/sh
# Builds digits.plan from digits.onnx. Run this on the machine that will run the engine.
# Written by prototrt {prototrt.__version__}. Further arguments go to trtexec.
#
# State: after each call, copy the output into the input. Begin with zeros.
#   lstm1_h_T -> lstm1_h_0 (1x1x64)
#   lstm1_c_T -> lstm1_c_0 (1x1x64)
#   lstm2_h_T -> lstm2_h_0 (1x1x48)
#   lstm2_c_T -> lstm2_c_0 (1x1x48)
cd -- "$(dirname -- "$0")" || exit
PATH=$PATH:/usr/src/tensorrt/bin # where NVIDIA's packages put trtexec
command -v trtexec > /dev/null || {{
    echo "trtexec is not installed here: it comes with TensorRT" >&2
    exit 127
}}
exec trtexec \\
    --onnx=digits.onnx \\
    --saveEngine=digits.plan \\
    --noTF32 "$@"
"""
    )


def test_the_script_says_that_trtexec_is_missing(tmp_path: Path) -> None:
    digits(tmp_path, "--target", "datacenter")
    environment = {"PATH": "/bin"}
    told = subprocess.run(
        ["/bin/sh", str(tmp_path / "digits.onnx.sh")],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stderr) == (127, "trtexec is not installed here: it comes with TensorRT\n")


def named(name: str, folder: Path) -> Graph:
    """A net with an input of that name, whose batch varies."""
    model = loaded(folder, inputs_of({name: (2, 3)}) + op("ReLU", bottoms=[name]))
    return prototrt.rewrite(model, min_shapes={name: (1, 3)}, max_shapes={name: (8, 3)})


@pytest.mark.parametrize(
    ("name", "written"),
    [("a b$(id)", "a b$(id):1x3"), ("x:0", "'x:0':1x3"), ("a,b", "'a,b':1x3"), ("`x`", "`x`:1x3")],
)
def test_names_reach_trtexec_as_they_are(name: str, written: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    Product(file=str(file), converting=ConvertOptions(target="jetson")).write(named(name, tmp_path))
    assert f"--minShapes={written}" in given_to_trtexec(tmp_path / "net.onnx.sh")


def test_a_name_that_trtexec_cannot_read_is_refused(tmp_path: Path) -> None:
    product = Product(file=str(tmp_path / "net.onnx"), converting=ConvertOptions(target="jetson"))
    with pytest.raises(ConversionError) as caught:
        product.write(named("it's", tmp_path))
    assert str(caught.value) == (
        'input "it\'s": trtexec cannot read a name with a quote\n'
        "  fix: rename the input, or give it a fixed shape: then trtexec needs no name"
    )
    assert not (tmp_path / "net.onnx").exists()


def test_a_name_in_the_script_cannot_become_a_command(tmp_path: Path) -> None:
    net = (Path(DEPLOY).parent / "deploy_stream.prototxt").read_text()
    (tmp_path / "net.prototxt").write_text(net.replace('name: "lstm1"', r'name: "l\necho taken over\n"'))
    model = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    Product(file=str(tmp_path / "net.onnx"), converting=ConvertOptions(target="jetson")).write(
        prototrt.rewrite(model)
    )
    assert "\necho" not in (tmp_path / "net.onnx.sh").read_text()


@pytest.mark.parametrize(
    ("target", "module", "runs_on"),
    [
        ("onnx", "onnxruntime", "onnxruntime"),
        ("opencv", "cv2", "OpenCV 5"),
        ("openvino", "openvino", "OpenVINO"),
    ],
)
def test_the_next_program_opens_the_model(target: str, module: str, runs_on: str, tmp_path: Path) -> None:
    pytest.importorskip(module, reason="opens the model")
    lines = digits(tmp_path, "--target", target)
    assert f"runs on  {runs_on}" in lines
    program, *arguments = shlex.split(lines[-1].removeprefix("next     "))
    assert program == "python"
    assert arguments[1].startswith(f"import {module};")
    opened = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert "lstm" in opened.stdout, opened.stderr
    assert sorted(os.listdir(tmp_path)) == ["digits.onnx", "digits.onnx.json"]


@pytest.mark.trt
def test_rtx_is_a_backend(tmp_path: Path) -> None:
    *lines, following = digits(tmp_path, "--target", "rtx", suffix="plan")
    assert (
        following == "next     on a PC with such a GPU: prototrt run digits.plan --inputs in.npz -o out.npz"
    )
    assert not any("auto" in line for line in lines)
    assert json.loads((tmp_path / "digits.plan.json").read_text())["tensorrt"]["flavour"] == "rtx"


def served(**options: Any) -> Graph:
    """An LSTM whose sizes vary as these options say."""
    return prototrt.rewrite(case_called("lstm_t5_n3").load(), **options)


ONE_STEP = {"x": (1, 1, 6), "cont": (1, 1)}
STREAMS = {"x": (1, 8, 6), "cont": (1, 8)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"min_shapes": ONE_STEP, "max_shapes": {"x": (9, 1, 6), "cont": (9, 1)}, "shapes": ONE_STEP},
            'input "x": the number of steps T varies, which is not for target="triton"\n'
            "  because a server joins requests of many sequences, and all have the same number of steps\n"
            "  fix: give T one size in min_shapes and max_shapes; with T = 1 each step has its answer at once",
        ),
        (
            {"min_shapes": ONE_STEP, "max_shapes": STREAMS, "shapes": ONE_STEP},
            'input "x": the batch N is not its first axis, which target="triton" needs\n'
            "  because a server joins requests on the first axis\n"
            '  fix: use layout="batch-first"',
        ),
    ],
)
def test_a_server_joins_requests(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    product = Product(file=str(tmp_path / "a.onnx"), converting=ConvertOptions(target="triton"))
    with pytest.raises(ConversionError) as caught:
        product.write(served(**options))
    assert str(caught.value) == message
    assert os.listdir(tmp_path) == []


def test_triton_gets_the_batch_first(tmp_path: Path) -> None:
    graph = served(min_shapes=ONE_STEP, max_shapes=STREAMS, shapes=ONE_STEP, layout="batch-first")
    product = Product(file=str(tmp_path / "a.onnx"), converting=ConvertOptions(target="triton"))
    manifest = product.write(graph)
    assert {binding["shape"][0] for binding in manifest["inputs"]} == {"N"}
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "a.onnx.json", "a.onnx.sh"]


def test_triton_has_a_command_of_its_own(tmp_path: Path) -> None:
    lines = digits(tmp_path, "--target", "triton")
    assert lines[-3:-1] == [
        "next     prototrt triton MODEL WEIGHTS -o REPOSITORY writes all that Triton needs",
        "or       copy digits.onnx and digits.onnx.sh to the machine with Triton, and type there: sh digits.onnx.sh",
    ]


@pytest.mark.parametrize(("target", "opset"), [("jetpack4", 13), ("jetpack5", 17), ("jetpack6", 17)])
def test_a_model_for_an_old_jetson(target: str, opset: int, tmp_path: Path) -> None:
    *_, printed = digits(tmp_path, "--target", target, "--mem-pool-size", "workspace:64MiB")
    pool = "--workspace=64" if target == "jetpack4" else "--memPoolSize=workspace:64"
    command = ["trtexec", "--onnx=digits.onnx", "--saveEngine=digits.plan", "--noTF32", pool]
    assert printed == f"         it runs {shlex.join(command)}"
    assert json.loads((tmp_path / "digits.onnx.json").read_text())["onnx"]["opset"] == opset


@pytest.mark.parametrize("target", ["opencv", "openvino"])
def test_a_model_for_another_program_has_no_loop(target: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    net, file = str(case_called("lstm_t5_n3").folder / "model.prototxt"), str(tmp_path / "lstm.onnx")
    lines = done("convert", net, "--random-weights", "1", "-o", file, "--target", target, "--verify").stdout
    assert not any("trtexec " in line for line in lines.splitlines() if line.startswith("next"))
    nodes = onnx.load(file).graph.node
    assert {"Scan", "Loop", "If"}.isdisjoint(node.op_type for node in nodes)


BUILT_THERE = "because trtexec builds the engine from an ONNX model, on the"


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        (
            "a.plan",
            ["--target", "jetson"],
            "--target jetson writes an ONNX model, but FILE does not end in .onnx\n"
            f"  {BUILT_THERE} Jetson\n"
            "  fix: choose a FILE that ends in .onnx, or build on the Jetson with --backend enterprise"
            " instead of --target jetson\n",
        ),
        (
            "a.onnx",
            ["--target", "rtx"],
            "--target rtx writes an engine, but FILE ends in .onnx\n"
            "  fix: choose a FILE that ends in .plan, or use --target onnx\n",
        ),
        (
            "a.onnx",
            ["--target", "jetson", "--backend", "rtx"],
            "--target jetson and --backend rtx contradict each other\n"
            f"  {BUILT_THERE} Jetson\n"
            "  fix: leave out one of them\n",
        ),
        (
            "a.plan",
            ["--target", "rtx", "--backend", "enterprise"],
            "--target rtx and --backend enterprise contradict each other\n"
            "  because it builds for a GeForce or RTX GPU\n"
            "  fix: leave out one of them\n",
        ),
        (
            "a.onnx",
            ["--target", "onnx", "--backend", "rtx"],
            "--target onnx and --backend rtx contradict each other\n"
            "  because onnxruntime needs no engine\n"
            "  fix: leave out one of them\n",
        ),
        (
            "a.onnx",
            ["--target", "onnx", "--tf32"],
            "--tf32 is for engines, but FILE ends in .onnx\n"
            "  fix: choose a FILE that ends in .plan, or use --target datacenter for an engine elsewhere\n",
        ),
        (
            "a.onnx",
            ["--target", "jetson", "--precision", "bf16"],
            "--target jetson does not take --precision bf16\n"
            "  because a Jetson Orin has no float8, and the parser of its TensorRT 10.3 reads ONNX up to opset 20,"
            " which has no bfloat16\n"
            "  fix: use --precision fp16\n",
        ),
        (
            "a.onnx",
            ["--target", "jetpack5", "--precision", "fp16"],
            "--target jetpack5 does not take --precision fp16\n"
            "  because its trtexec chooses the types itself: write float32, and build with sh FILE.sh --fp16\n"
            "  fix: use --precision fp32\n",
        ),
        (
            "a.onnx",
            ["--target", "jetpack4", "--builder-optimization-level", "3"],
            "--builder-optimization-level is not for --target jetpack4\n"
            "  because TensorRT has that from 8.6 on\n"
            "  fix: leave it out\n",
        ),
        (
            "a.onnx",
            ["--target", "opencv", "--tf32"],
            "--tf32 is for engines, but FILE ends in .onnx\n"
            "  fix: choose a FILE that ends in .plan, or use --target datacenter for an engine elsewhere\n",
        ),
    ],
)
def test_options_that_contradict_the_target(
    file: str, options: list[str], message: str, tmp_path: Path
) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / file), *options)
    assert result.stderr.partition("Error: ")[2] == message
    assert result.exit_code == 2
    assert os.listdir(tmp_path) == []


def test_a_net_that_the_parser_lacks_is_refused(tmp_path: Path) -> None:
    case = case_called("filter")
    graph = rewritten(case, case.arrays("inputs")[0])
    product = Product(file=str(tmp_path / "a.onnx"), converting=ConvertOptions(target="datacenter"))
    with pytest.raises(ConversionError) as caught:
        product.write(graph)
    assert str(caught.value).partition("(Filter): ")[2] == (
        "its output size depends on input values\n"
        "  because sizes in an engine depend only on the sizes of its inputs\n"
        '  fix: run it as `prototrt.Session(...)` does with on="reference",'
        ' or cut the net before it with outputs=["BLOB"]'
    )
    assert os.listdir(tmp_path) == []


def entry(tmp_path: Path, keys: str) -> Any:
    (tmp_path / "list.yaml").write_text(f"models:\n- prototxt: {DEPLOY}\n  weights: {WEIGHTS}\n{keys}")
    return read_models(str(tmp_path / "list.yaml"), "out")[0]


@pytest.mark.parametrize(("target", "suffix"), [("jetson", ".onnx"), ("rtx", ".plan")])
def test_a_list_of_models_has_targets(target: str, suffix: str, tmp_path: Path) -> None:
    assert Path(entry(tmp_path, f"  target: {target}\n").target).suffix == suffix


@pytest.mark.parametrize(
    ("machine", "target"),
    [
        ("orin-nano", "jetson"),
        ("Xavier", "jetpack5"),
        ("nano", "jetpack4"),
        ("T4", "datacenter"),
        ("rtx4090", "rtx"),
        ("jetson-nano", "jetpack4"),
    ],
)
def test_a_machine_stands_for_its_target(machine: str, target: str, tmp_path: Path) -> None:
    chosen = ConvertOptions(target=machine).target
    assert chosen is not None
    assert find_target(chosen).name == target
    assert entry(tmp_path, f"  target: {machine}\n").options["target"] == chosen


def test_a_list_of_models_refuses_a_format_that_the_target_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"target: rtx writes an engine, but FILE ends in \.onnx"):
        entry(tmp_path, "  target: rtx\n  format: onnx\n")


def test_building_is_not_asked_of_this_machine(tmp_path: Path) -> None:
    """Options of the engine reach trtexec, although the file is an ONNX model."""
    product = Product(
        file=str(tmp_path / "a.onnx"),
        building=BuildOptions(tf32=True),
        converting=ConvertOptions(target="datacenter"),
    )
    assert "--noTF32" not in product.write(named("x", tmp_path))["trtexec"]


@pytest.mark.parametrize(
    ("machine", "runs_on"),
    [
        ("t4", "TensorRT 10.0 or newer on NVIDIA T4"),
        ("v100", "TensorRT 10.0 to 10.4 on NVIDIA V100"),
        ("p40", "TensorRT 8.6 on Tesla P40"),
        ("k80", "TensorRT 8.5 on Tesla K80"),
        ("b200", "TensorRT 10.8 or newer on NVIDIA B200"),
        ("gb10", "TensorRT 10.13 or newer on DGX Spark (GB10)"),
        ("RTX 2080 Ti", "TensorRT 10.0 or newer on GeForce RTX 2080"),
        ("thor", "TensorRT 10.13 on a Jetson Thor, as in JetPack 7.0, 7.1"),
        ("drive-orin", "TensorRT 8.5 on a DRIVE Orin, as in DRIVE OS 6.0"),
        ("drive-thor", "TensorRT 10.10 or newer on DRIVE Thor"),
    ],
)
def test_a_machine_has_its_release(machine: str, runs_on: str, tmp_path: Path) -> None:
    assert digits(tmp_path, "--target", machine)[0] == f"runs on  {runs_on}"


def test_a_jetson_has_the_targets_of_its_other_systems(tmp_path: Path) -> None:
    assert (
        "note     use --target jetpack7 with JetPack 7.2, --target jetpack6 with JetPack 6.0,"
        " --target jetpack5 with JetPack 5.1"
    ) in digits(tmp_path, "--target", "orin-nano")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--target", "t4", "--precision", "bf16"],
            "--target t4 does not take --precision bf16\n"
            "  because NVIDIA T4 has compute capability 7.5, and bfloat16 needs 8.0 or newer\n"
            "  fix: use --precision fp16\n",
        ),
        (
            ["--target", "A100", "--precision", "fp8"],
            "--target a100 does not take --precision fp8\n"
            "  because NVIDIA A100 has compute capability 8.0, and float8 needs 8.9 or newer\n"
            "  fix: use --precision fp16\n",
        ),
        (
            ["--target", "p40", "--precision", "fp16"],
            "--target p40 does not take --precision fp16\n"
            "  because its trtexec chooses the types itself, and compute capability 6.1 has no float16: write float32\n"
            "  fix: use --precision fp32\n",
        ),
        (
            ["--target", "p40", "--strip-weights"],
            "--strip-weights is not for --target p40\n"
            "  because TensorRT has that from 10.0 on\n"
            "  fix: leave it out\n",
        ),
        (
            ["--target", "tk1"],
            "no engine can be built for --target tk1\n"
            "  because Jetson TK1 has compute capability 3.2, which no TensorRT from 8.2 on supports\n"
            "  fix: use --target onnx\n",
        ),
        (
            ["--target", "orin-nano", "--precision", "fp16", "--use-dla-core", "0"],
            "--use-dla-core is not for --target orin-nano\n"
            "  because Jetson Orin Nano has no DLA\n"
            "  fix: leave it out\n",
        ),
        (
            ["--target", "jetson", "--use-dla-core", "0"],
            "--use-dla-core does not take --precision fp32\n"
            "  because a DLA computes float16 and int8 only, and the engine has the types of the model\n"
            "  fix: use --precision fp16 or --precision int8\n",
        ),
        (
            ["--target", "jetpack7", "--precision", "bf16", "--use-dla-core", "0"],
            "--use-dla-core does not take --precision bf16\n"
            "  because a DLA computes float16 and int8 only, and the engine has the types of the model\n"
            "  fix: use --precision fp16 or --precision int8\n",
        ),
        (
            ["--target", "rtx4091"],
            "Invalid value for '--target': 'rtx4091' is not one of 'rtx', 'datacenter', 'jetson', 'jetpack4',"
            " 'jetpack5', 'jetpack6', 'jetpack7', 'triton', 'onnx', 'opencv', 'openvino', 'tensorrt-python'."
            " Did you mean rtx4090 or rtx5090 or rtx4080?\n",
        ),
    ],
)
def test_what_a_machine_lacks_is_refused(options: list[str], message: str, tmp_path: Path) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "a.onnx"), *options)
    assert result.stderr.partition("Error: ")[2] == message
    assert result.exit_code == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "asked", "gpu"),
    [
        (["--target", "rtx3090"], "--target rtx3090", "GeForce RTX 3090"),
        (["--compute-capabilities", "8.6"], "--compute-capabilities 8.6", "a GPU of that kind"),
    ],
)
def test_an_engine_for_gpus_without_float8_is_refused(
    options: list[str], asked: str, gpu: str, tmp_path: Path
) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "a.plan"), "--precision", "fp8", *options)
    assert result.stderr.partition("Error: ")[2] == (
        f"{asked} does not take --precision fp8\n"
        f"  because {gpu} has compute capability 8.6, and float8 needs 8.9 or newer\n"
        "  fix: use --precision fp16\n"
    )
    assert os.listdir(tmp_path) == []


def test_an_unknown_machine_in_python() -> None:
    with pytest.raises(ConversionError) as caught:
        ConvertOptions(target="rtx4091")
    assert str(caught.value) == (
        "target is 'rtx4091', expected one of rtx, datacenter, jetson, jetpack4, jetpack5, jetpack6, jetpack7, triton,"
        ' onnx, opencv, openvino, tensorrt-python\n  fix: use target="rtx4090"'
    )


@pytest.mark.parametrize("target", ["jetpack4", "jetpack5", "jetpack6", "xavier"])
def test_a_dla_computes_in_float16_where_trtexec_chooses_the_types(target: str, tmp_path: Path) -> None:
    *_, printed = digits(tmp_path, "--target", target, "--use-dla-core", "1")
    assert printed.endswith(
        "trtexec --onnx=digits.onnx --saveEngine=digits.plan --noTF32 --fp16 --useDLACore=1"
    )

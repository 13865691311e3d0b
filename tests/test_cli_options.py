"""Options of the command line that no other test of a command gives."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import click
import pytest

from prototrt.cli import main
from prototrt.converter.files.writing.ownership import KEPT_MARK
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.converter.front.commandline.options.sections import SECTIONS
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run

STATES = """
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'always' type: 'ReLU' bottom: 'data' top: 'a' }
layer { name: 'training' type: 'TanH' bottom: 'a' top: 'b' include { phase: TRAIN } }
layer { name: 'detailed' type: 'Sigmoid' bottom: 'a' top: 'c' include { min_level: 2 } }
layer { name: 'extra' type: 'AbsVal' bottom: 'a' top: 'd' include { stage: 'more' } }
"""
MANY_STEPS = """
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 65 dim: 1 dim: 2 } } }
layer { name: 'cont' type: 'Input' top: 'cont' input_param { shape { dim: 65 dim: 1 } } }
layer { name: 'rnn' type: 'RNN' bottom: 'x' bottom: 'cont' top: 'y' recurrent_param { num_output: 2 } }
"""
SCALED = """
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } }
        transform_param { scale: 0.5 } }
layer { name: 'relu' type: 'ReLU' bottom: 'data' top: 'y' }
"""


def test_help_shows_every_option_once_under_its_heading() -> None:
    text = done("convert", "--help").stdout
    headings = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert headings == [
        "Options",
        "Sizes of the inputs",
        "Recurrent layers",
        "Precision",
        "The net",
        "The ONNX model, and files beside the result",
        "TensorRT's builder",
        "Printing and help",
    ]
    assert text.partition("\nOptions:\n")[2].startswith("  -o FILE ")  # the only required one
    shown = re.findall(r"^  ((?:-[-\w]+, )*-[-\w]+)", text, re.MULTILINE)
    stated = [", ".join(option.opts) for option in convert.params if isinstance(option, click.Option)]
    assert sorted(shown) == sorted([*stated, "-h, --help"])


def test_headings_name_options_that_exist() -> None:
    known = {parameter.name for command in main.commands.values() for parameter in command.params}
    named = [name for names in SECTIONS.values() for name in names.split()]
    assert set(named) <= known
    assert len(set(named)) == len(named)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ([], ["data", "always"]),
        (["--phase", "train"], ["data", "always", "training"]),
        (["--level", "2"], ["data", "always", "detailed"]),
        (["--net-stage", "more"], ["data", "always", "extra"]),
        (["--phase", "TRAIN", "--level", "3"], ["data", "always", "training", "detailed"]),
    ],
    ids=str,
)
def test_the_state_of_a_net_chooses_its_layers(options: list[str], layers: list[str]) -> None:
    Path("net.prototxt").write_text(STATES)
    facts = json.loads(done("inspect", "net.prototxt", *options, "--json").stdout)
    assert [layer["name"] for layer in facts["layers"]] == layers


def test_drawing_has_another_word_for_the_stage_of_a_net() -> None:
    Path("net.prototxt").write_text(STATES)
    assert "extra" not in done("dot", "net.prototxt").stdout
    assert "extra" in done("dot", "net.prototxt", "--net-stage", "more").stdout


def test_many_steps_are_unrolled_by_force() -> None:
    Path("net.prototxt").write_text(MANY_STEPS)
    unrolled = [
        "dot",
        "net.prototxt",
        "--random-weights",
        "1",
        "--stage",
        "rewritten",
        "--sequence",
        "unroll",
    ]
    refused = run(*unrolled)
    assert refused.exit_code == 3
    assert "--force" in refused.stderr
    assert done(*unrolled, "--force").stdout.count("TanH") >= 65


def test_preprocessing_becomes_a_part_of_the_graph() -> None:
    Path("net.prototxt").write_text(SCALED)
    drawn = ["dot", "net.prototxt", "--stage", "rewritten"]
    told = done(*drawn)
    assert "times 0.5" in told.stderr
    assert "data_binary" not in told.stdout
    assert "data_binary" in done(*drawn, "--preprocess").stdout


@pytest.mark.trt
def test_the_usual_size_is_written_into_the_manifest() -> None:
    ranges = [
        *("--min-shapes", "data:1x1x32x16,cont:1x1"),
        *("--opt-shapes", "data:40x1x32x16,cont:40x1"),
        *("--max-shapes", "data:100x1x32x16,cont:100x1"),
    ]
    done("convert", DEPLOY, WEIGHTS, *ranges, "-o", "net.plan")
    (data,) = (
        entry for entry in json.loads(Path("net.plan.json").read_text())["inputs"] if entry["name"] == "data"
    )
    assert data["profile"] == {"T": [1, 40, 100]}


@pytest.mark.trt
def test_verbose_tells_what_tensorrt_says() -> None:
    Path("net.prototxt").write_text(SCALED)
    convert = ["convert", "net.prototxt", "--random-weights", "1", "--backend", "rtx", "-o", "net.plan"]
    said = "prototrt.converter.backends.tensorrt.network: TensorRT: "
    assert said not in done(*convert).stderr
    assert said in done(*convert, "--verbose").stderr


def test_conversions_of_long_ago_are_pruned() -> None:
    Path("cache").mkdir()
    Path("cache", "written-by-prototrt").touch()
    now, kept = time.time(), []
    for key, days in (("a" * 64, 1), ("b" * 64, 3)):
        kept.append(Path("cache", key[:2], f"{key}.conversion"))
        kept[-1].parent.mkdir()
        kept[-1].write_bytes(KEPT_MARK)
        os.utime(kept[-1], (now, now - days * 24 * 3600))
    pruned = json.loads(done("cache", "prune", "cache", "--older-than", "2", "--json").stdout)
    assert (pruned["removed"], pruned["kept"]) == (1, 1)
    assert [file.exists() for file in kept] == [True, False]


def test_placeholders_of_a_template_are_filled_in() -> None:
    Path("net.prototxt").write_text(
        SCALED.replace("dim: 1 dim: 1 dim: 2 dim: 2", "dim: ${N} dim: 1 dim: {H} dim: 2")
    )
    defined = ["--define", "N=3", "--define", "H=4"]
    facts = json.loads(done("inspect", "net.prototxt", *defined, "--json").stdout)
    assert facts["layers"][0]["tops"] == [{"name": "data", "shape": [3, 1, 4, 2]}]
    assert run("inspect", "net.prototxt").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", DEPLOY, "--shape", f"data:{'9' * 5000}"], "is not a shape: write the blob's name"),
        (
            ["run", DEPLOY, WEIGHTS, "--inputs", "a.npz", "-o", "b.npz", "--calls", "9" * 400],
            "is not in the range",
        ),
        (["verify", DEPLOY, WEIGHTS, "--calls", "9" * 400], "is not in the range"),
        (["bench", DEPLOY, WEIGHTS, "--calls", "9" * 400], "is not in the range"),
        (["convert", DEPLOY, WEIGHTS, "-o", ""], 'cannot write "": its name is empty'),
        (
            ["convert", DEPLOY, WEIGHTS, "-o", "C:\\out\\net.onnx"],
            'cannot write "C:\\out\\net.onnx": it is a path of Windows: write the path as this system does: in WSL,'
            " C: is /mnt/c",
        ),
        *(
            ([*command, folder], f'cannot write into "{folder}": {problem}')
            for command in (
                ["triton", DEPLOY, WEIGHTS, "-o"],
                ["deepstream", DEPLOY, WEIGHTS, "-o"],
                ["batch", "models.yaml", "-o"],
                ["batch", "models.yaml", "-o", "out", "--cache"],
            )
            for folder, problem in (("C:\\out", "it is a path of Windows"), ("", "its name is empty"))
        ),
        (["convert", DEPLOY, WEIGHTS, "-o", "/"], 'cannot write "/": "/" is a folder'),
    ],
)
def test_values_out_of_all_proportion(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_settings_that_are_nested_too_deeply(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000)
    result = run("inspect", DEPLOY, "--settings", str(file))
    assert (result.exit_code, result.stderr) == (
        3,
        f"error: {file}: is not JSON\n  because it is nested too deeply\n"
        '  fix: write an object, as in {"RPN_POST_NMS_TOP_N": 100}\n',
    )

"""What ``--json`` prints: each command's result, and its failures, as docs/schemas describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from prototrt.cli import main
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS
from prototrt.tests.converter.front.batch.support import NET
from prototrt.tests.fresh_python import ROOT, run_python

SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in (ROOT / "docs" / "schemas").glob("*.json")
}
PAGE = (ROOT / "docs" / "json.md").read_text()
DIGITS = ROOT / "samples" / "digits"
STREAM_IN = str(DIGITS / "stream_in.npz")
LIST = "defaults: {random-weights: 1, format: onnx}\nmodels: [{prototxt: good.prototxt}, {prototxt: bad.prototxt}]\n"

COMMANDS = {
    "convert": ["convert", STREAM, WEIGHTS, "-o", "net.onnx", "--verify", "--emit-header", "net.h"],
    "inspect": ["inspect", DEPLOY, WEIGHTS],
    "run": ["run", STREAM, WEIGHTS, "--inputs", STREAM_IN, "-o", "out.npz"],
    "verify": [
        "verify",
        STREAM,
        WEIGHTS,
        "--precision",
        "int8",
        "--scales",
        "scales.json",
        "--inputs",
        STREAM_IN,
    ],
    "bench": ["bench", STREAM, WEIGHTS, "--calls", "1"],
    "layers": ["layers"],
    "triton": ["triton", STREAM, WEIGHTS, "-o", "models"],
    "deepstream": ["deepstream", STREAM, WEIGHTS, "-o", "nvinfer", "--state", "zero", "--cont", "drop"],
    "doctor": ["doctor"],
    "selftest": ["selftest", "--only", "machine"],
    "new-rule": ["new-rule", DEPLOY, "conv1", WEIGHTS, "-o", "rules.py"],
    "upgrade": ["upgrade", STREAM, WEIGHTS, "-o", "new.prototxt", "--stage", "rewritten"],
    "weights-list": ["weights", "list", STREAM, WEIGHTS],
    "weights-get": ["weights", "get", STREAM, WEIGHTS, "-o", "some.npz"],
    "weights-set": ["weights", "set", STREAM, WEIGHTS, "some.npz", "-o", "new.caffemodel"],
    "survey": ["survey", "nets"],
    "batch": ["batch", "models.yaml", "-o", "engines", "--keep-going", "--cache", "cache"],
    "cache-prune": ["cache", "prune", "cache"],
    "calibrate": ["calibrate", STREAM, WEIGHTS, "--inputs", STREAM_IN, "-o", "scales.json"],
}
BEFORE = {"verify": "calibrate", "cache-prune": "batch", "weights-set": "weights-get"}
"""Commands whose results others need."""


def commands_with_json(group: click.Group = main, names: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_with_json(command, (*names, name))
        elif any("--json" in parameter.opts for parameter in command.params):
            yield "-".join((*names, name))


def test_every_command_with_json_has_a_schema_and_a_case() -> None:
    assert set(COMMANDS) == set(commands_with_json())
    assert set(SCHEMAS) == {*COMMANDS, "error", "inspect-file", "manifest"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    for place in (tmp_path, tmp_path / "nets"):
        (place / "good.prototxt").write_text(NET)
        (place / "bad.prototxt").write_text(NET.replace("InnerProduct", "Mystery"))
    (tmp_path / "models.yaml").write_text(LIST)
    return tmp_path


def as_json(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--json"])


def validate(text: str, name: str) -> Any:
    """Hold a result against its schema, and let it have no key that the schema does not describe."""
    # Imported where they are needed: jsonschema compiles grammars, which takes seconds.
    jsonschema = pytest.importorskip("jsonschema", reason="validates")
    referencing = pytest.importorskip("referencing", reason="resolves references between schemas")
    facts = json.loads(text)
    resources = [
        (f"{key}.schema.json", referencing.Resource.from_contents(closed(SCHEMAS[key]))) for key in SCHEMAS
    ]
    registry = referencing.Registry().with_resources(resources)
    validator = jsonschema.Draft202012Validator(closed(SCHEMAS[name]), registry=registry)
    validator.validate(facts)
    return facts


def closed(schema: Any) -> Any:
    """The schema, without room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(each) for key, each in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in schema and "type" in schema else inner


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_results_are_as_the_schema_says(name: str, folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="validates")
    pytest.importorskip("onnxruntime", reason="computes ONNX models")
    pytest.importorskip("yaml", reason="reads lists of models")
    if name in BEFORE:
        as_json(*COMMANDS[BEFORE[name]])
    result = as_json(*COMMANDS[name])
    facts = validate(result.stdout, name)
    assert facts["format"] == 1
    assert result.exit_code == (3 if name == "batch" else 0)
    with pytest.raises(jsonschema.ValidationError):
        validate(json.dumps({**facts, "unknown": 1}), name)


@pytest.mark.slow
def test_a_plan_has_a_manifest_as_the_schema_says(folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="builds a plan")
    facts = validate(
        as_json("convert", "good.prototxt", "--random-weights", "1", "-o", "net.plan").stdout, "convert"
    )
    assert validate((folder / "net.plan.json").read_text(), "manifest") == facts["manifest"]


@pytest.mark.parametrize("arguments", [["-o", "net.py"], ["-o", "net.onnx", "--target", "jetson"]])
def test_other_results_have_manifests_as_the_schema_says(arguments: list[str], folder: Path) -> None:
    result = as_json("convert", "good.prototxt", "--random-weights", "1", *arguments)
    assert {"torch", "trtexec"} & validate(result.stdout, "convert")["manifest"].keys()


def test_a_file_that_is_no_net_has_a_result_of_its_own() -> None:
    facts = validate(as_json("inspect", WEIGHTS).stdout, "inspect-file")
    assert (facts["kind"], facts["layers"]) == ("caffemodel", 20)


def test_a_dry_run_prints_what_a_survey_prints(folder: Path) -> None:
    pytest.importorskip("yaml", reason="reads lists of models")
    facts = validate(as_json("batch", "models.yaml", "-o", "engines", "--dry-run").stdout, "survey")
    assert facts["counts"] == {
        "converts": 1,
        "needs a shape": 0,
        "converts in part": 0,
        "does not convert": 1,
    }


PROBLEM = dict.fromkeys(("where", "layer", "type", "blob", "because", "fix"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["inspect", "none.prototxt"],
            {
                "kind": "UnreadableFileError",
                "exit_code": 3,
                "problems": [
                    {
                        **PROBLEM,
                        "where": "none.prototxt",
                        "problem": "there is no such file",
                        "fix": "give a file that is there: bad.prototxt, good.prototxt or worse.prototxt",
                    }
                ],
            },
        ),
        (
            ["inspect", "--zzzz", "good.prototxt"],
            {
                "kind": "UsageError",
                "exit_code": 2,
                "problems": [{**PROBLEM, "problem": "No such option '--zzzz'."}],
            },
        ),
        (
            ["convert", "good.prototxt", "-o", "net.onnx", "--opset", "3"],
            {
                "kind": "UsageError",
                "exit_code": 2,
            },
        ),
        (
            ["convert", "good.prototxt", "-o", "net.onnx", "--random-weights", "1", "--tf32"],
            {
                "kind": "UsageError",
                "exit_code": 2,
                "problems": [
                    {
                        **PROBLEM,
                        "problem": "--tf32 is for engines, but FILE ends in .onnx",
                        "fix": "choose a FILE that ends in .plan, or use --target for an engine elsewhere",
                    }
                ],
            },
        ),
        (
            ["good.prototxt"],
            {
                "kind": "UsageError",
                "exit_code": 2,
                "problems": [
                    {
                        **PROBLEM,
                        "problem": "'good.prototxt' is a file, expected a command",
                        "fix": "main inspect good.prototxt shows what it is and what to do with it",
                    }
                ],
            },
        ),
        (["inspect", "bad.prototxt"], {"kind": "UnsupportedLayerError", "exit_code": 3}),
        (["inspect", "worse.prototxt"], {"kind": "Problems", "exit_code": 3}),
    ],
    ids=["file", "option", "value", "refusal", "no command", "layer", "problems"],
)
def test_failures_are_json_too(arguments: list[str], expected: dict[str, Any], folder: Path) -> None:
    two = (
        NET
        + NET.split("\n")[2].replace("InnerProduct", "Mystery")
        + NET.split("\n")[2].replace("InnerProduct", "Puzzle")
    )
    (folder / "worse.prototxt").write_text(two.replace('"fc"', '"x"'))
    result = as_json(*arguments)
    error = validate(result.stdout, "error")["error"]
    assert {key: error[key] for key in expected} == expected
    assert result.exit_code == error["exit_code"]
    assert error["problems"][0]["problem"] in result.stderr  # people still read it


def test_a_problem_names_layer_and_line(folder: Path) -> None:
    (problem,) = validate(as_json("inspect", "bad.prototxt").stdout, "error")["error"]["problems"]
    assert (problem["where"], problem["layer"], problem["type"]) == ("bad.prototxt:3", "fc", "Mystery")


def test_the_separate_command_does_the_same(folder: Path) -> None:
    result = CliRunner().invoke(convert, ["none.prototxt", "none.caffemodel", "-o", "net.onnx", "--json"])
    assert validate(result.stdout, "error")["error"]["kind"] == "UnreadableFileError"


def test_crashes_are_json_too(folder: Path) -> None:
    program = (
        "import os, sys; from prototrt.converter.front.commandline.crashes import survive\n"
        "sys.argv = ['convert', '--json']\n"
        "survive(os.abort)"
    )
    done = run_python("-c", program, check=False, cwd=folder)
    error = validate(done.stdout, "error")["error"]
    assert (error["kind"], error["exit_code"], done.returncode) == ("Crash", 4, 4)
    assert error["problems"][0]["problem"] == "the command crashed (aborted)"


def test_the_page_shows_a_real_failure(folder: Path) -> None:
    ((command, shown),) = re.findall(r"^\$ prototrt (.*)\n((?:[ {}].*\n)+)", PAGE, re.MULTILINE)
    assert CliRunner().invoke(main, command.split()).stdout == shown


def test_the_page_links_every_schema() -> None:
    assert set(re.findall(r"schemas/([\w-]+)\.schema\.json", PAGE)) == set(SCHEMAS)

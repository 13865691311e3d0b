"""A command and its public function are two fronts of one step: they call it with equal options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto import Model
from prototrt.cli import main
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import run
from prototrt.tests.npz import write_npz
from prototrt.tests.public_cases import SMALL

INT8 = prototrt.RewriteOptions(precision="int8", quantize_all=True)


def model() -> Model:
    return prototrt.load("net.prototxt", random_weights=1)


def stored() -> Model:
    return prototrt.load("net.prototxt", "weights.npz")


@dataclass(frozen=True)
class Fronts:
    """Where the step is, what is typed, and what is called in Python."""

    step: str
    typed: str
    called: Callable[[], object]


NET = "net.prototxt --random-weights 1"
FRONTS: dict[str, Fronts] = {
    "batch": Fronts(
        "front.batch.conversion:convert_models",
        "models.yaml -o engines --jobs 2 --keep-going --cache kept --report-md report.md",
        lambda: prototrt.convert_batch(
            "models.yaml", "engines", jobs=2, keep_going=True, cache="kept", report_md="report.md"
        ),
    ),
    "batch --dry-run": Fronts(
        "front.batch.conversion:survey_models",
        "models.yaml -o engines --jobs 2",
        lambda: prototrt.survey_batch("models.yaml", "engines", jobs=2),
    ),
    "bench": Fronts(
        "checking.machines.benchmark:bench",
        f"{NET} --calls 3 --layer-times --precision fp16",
        lambda: prototrt.bench(prototrt.rewrite(model(), precision="fp16"), 3, profile=True),
    ),
    "cache prune": Fronts(
        "front.batch.prune:prune",
        "kept --older-than 3 --max-size 2kB",
        lambda: prototrt.prune_cache("kept", older_than=3, max_size="2kB"),
    ),
    "calibrate": Fronts(
        "front.steps:calibrate",
        f"{NET} --inputs in.npz --method max --preprocess -o scales.json",
        lambda: prototrt.calibrate(
            model(), inputs="in.npz", method="max", rewriting=prototrt.RewriteOptions(preprocess=True)
        ),
    ),
    "convert": Fronts(
        "conversion:convert_files",
        f"{NET} -o net.onnx --precision fp16 --onnx-lstm --verify --target onnx",
        lambda: prototrt.convert(
            "net.prototxt",
            None,
            "net.onnx",
            random_weights=1,
            precision="fp16",
            onnx_lstm=True,
            verify=True,
            target="onnx",
        ),
    ),
    "deploy": Fronts(
        "front.steps:deploy",
        "net.prototxt --shape x:2x2",
        lambda: prototrt.deploy(prototrt.load("net.prototxt"), shapes={"x": (2, 2)}),
    ),
    "doctor": Fronts("checking.machines.doctor:diagnose", "", lambda: prototrt.doctor()),
    "dot": Fronts(
        "showing.views.pictures:draw",
        f"{NET} -o net.html --stage lowered --for onnx --verification in.npz --precision fp16",
        lambda: prototrt.draw(
            model(),
            "net.html",
            stage="lowered",
            reader="onnx",
            verification="in.npz",
            options=prototrt.RewriteOptions(precision="fp16"),
        ),
    ),
    "inspect": Fronts(
        "front.steps:inspect",
        "net.prototxt --fork pvanet",
        lambda: prototrt.inspect("net.prototxt", fork="pvanet"),
    ),
    "layers": Fronts("surgery.views.support:supported_layers", "lstm", lambda: prototrt.layers("lstm")),
    "new-rule": Fronts(
        "front.steps:new_rule",
        "net.prototxt fc -o new.py --shape x:2x2",
        lambda: prototrt.new_rule(
            prototrt.load("net.prototxt"),
            "fc",
            "new.py",
            options=prototrt.RewriteOptions(shapes={"x": (2, 2)}),
        ),
    ),
    "run": Fronts(
        "running.sessions.session:Session.__init__",
        f"{NET} --on network --inputs in.npz -o out.npz --precision fp16",
        lambda: prototrt.Session(prototrt.rewrite(model(), precision="fp16"), on="network", cut=True),
    ),
    "survey": Fronts(
        "showing.survey.survey:survey", "net.prototxt nets", lambda: prototrt.survey("net.prototxt", "nets")
    ),
    "triton": Fronts(
        "front.steps:triton",
        f"{NET} -o models --name small --platform python --backend rtx --precision fp16",
        lambda: prototrt.triton(
            model(),
            "models",
            options=prototrt.TritonOptions(name="small", platform="python"),
            rewriting=prototrt.RewriteOptions(precision="fp16"),
            building=prototrt.BuildOptions("rtx"),
        ),
    ),
    "selftest": Fronts(
        "checking.selftest.selftest:selftest",
        "--only goldens --only speed --budget 60",
        lambda: prototrt.selftest(("goldens", "speed"), 60),
    ),
    "deepstream": Fronts(
        "front.steps:deepstream",
        f"{NET} -o nvinfer --name small --target jetson --mean 1,2,3 --precision fp16",
        lambda: prototrt.deepstream(
            model(),
            "nvinfer",
            options=prototrt.DeepStreamOptions(name="small", target="jetson", mean=(1, 2, 3)),
            rewriting=prototrt.RewriteOptions(precision="fp16"),
        ),
    ),
    "upgrade": Fronts(
        "backends.caffe.upgrading:upgrade",
        "net.prototxt -o new.prototxt --stage rewritten --cont drop",
        lambda: prototrt.upgrade(
            prototrt.load("net.prototxt"),
            "new.prototxt",
            stage="rewritten",
            rewriting=prototrt.RewriteOptions(cont="drop"),
        ),
    ),
    "weights get": Fronts(
        "front.parameters.editing:get_parameters",
        "net.prototxt weights.npz y/* -o some.npz --names pytorch",
        lambda: prototrt.get_weights(stored(), ("y/*",), "some.npz", naming="pytorch"),
    ),
    "weights list": Fronts(
        "front.parameters.editing:list_parameters",
        "net.prototxt weights.npz",
        lambda: prototrt.list_weights(stored()),
    ),
    "weights set": Fronts(
        "front.parameters.editing:set_parameters",
        "net.prototxt weights.npz in.npz -o new.caffemodel --layer y",
        lambda: prototrt.set_weights(stored(), "in.npz", "new.caffemodel", layer="y"),
    ),
    "verify": Fronts(
        "front.steps:verify",
        f"{NET} --on onnx --calls 2 --seed 3 --atol 0.5 --precision int8 --quantize-all --auto-keep 0.9",
        lambda: prototrt.verify(
            model(), ways=("onnx",), calls=2, seed=3, atol=0.5, auto_keep=0.9, rewriting=INT8
        ),
    ),
}
"""By the command; with an option that chooses another step."""
FRONT_ONLY = ("listener", "surface", "progress", "begun")
"""What each front hears of the work, and in whose words."""


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


class Recorded(prototrt.ConversionError):
    """The step was called; it did nothing."""


def facts(value: object) -> object:
    """What is compared of an argument: nets and graphs by their content."""
    if isinstance(value, Model):
        return value.file, value.name, [layer.name for layer in value.layers]
    if isinstance(value, Graph):
        return value.text()
    return tuple(map(facts, value)) if isinstance(value, list | tuple) else value


@pytest.fixture
def calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> list[Mapping[str, Any]]:
    """The arguments of each call of the step, which does nothing else."""
    module, _, path = FRONTS[request.param].step.partition(":")
    home: Any = import_module(f"prototrt.{module if module.startswith('surgery') else f'converter.{module}'}")
    *owners, name = path.split(".")
    for owner in owners:
        home = getattr(home, owner)
    signature = inspect.signature(getattr(home, name))
    records: list[Mapping[str, Any]] = []

    def record(*arguments: object, **keywords: object) -> None:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        bound.arguments.pop("self", None)
        records.append(
            {name: facts(each) for name, each in bound.arguments.items() if name not in FRONT_ONLY}
        )
        raise Recorded("recorded")

    monkeypatch.setattr(home, name, record)
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(SMALL)
    Path("models.yaml").write_text("models: [{ prototxt: net.prototxt, random-weights: 1, format: onnx }]")
    Path("kept", "new").mkdir(parents=True)
    Path("nets").mkdir()
    write_npz("weights.npz", {"y/0": np.ones((3, 2), np.float32), "y/1": np.ones(3, np.float32)})
    np.savez("in.npz", x=np.ones((1, 2), np.float32))
    return records


def test_every_command_has_a_step() -> None:
    assert {name.partition(" --")[0] for name in FRONTS} == {*commands(main)}


@pytest.mark.parametrize(("command", "calls"), [(name, name) for name in FRONTS], indirect=["calls"])
def test_both_fronts_call_one_step_with_equal_options(command: str, calls: list[Mapping[str, Any]]) -> None:
    result = run(*command.split(), *FRONTS[command].typed.split())
    assert "recorded" in result.stderr
    with pytest.raises(Recorded):
        FRONTS[command].called()
    typed, called = calls
    assert typed == called

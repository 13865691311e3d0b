"""What ``import prototrt`` offers: a function for each command, errors, options, warnings."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_origin

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common import errors
from prototrt.cli import main
from prototrt.converter.front.batch.entry import Outcome
from prototrt.converter.options import Started
from prototrt.converter.showing.glance.facts import FileFacts
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, strips
from prototrt.tests.fresh_python import run_python
from prototrt.tests.public_cases import PAGE, PYTHON_LAYER, ROOT, ROWS, SMALL

MODELS = f"models: [{{ name: digits, prototxt: {DEPLOY}, weights: {WEIGHTS}, format: onnx }}]"
NET = {"NET": ["net.prototxt", "--random-weights", "1"]}


def test_each_command_has_a_public_function_that_is_documented() -> None:
    assert ROWS.keys() == main.commands.keys()
    for command, text in ROWS.items():
        names = re.findall(r"`prototrt\.(\w+)", text)
        assert names, command
        assert {*names} <= {*prototrt.__all__}, command
        assert all(callable(getattr(prototrt, name)) for name in names)


def test_all_names_are_there_and_documented() -> None:
    for name in prototrt.__all__:
        thing = getattr(prototrt, name)
        assert thing.__doc__ or get_origin(thing) is Literal, name
        assert re.search(rf"\b{name}\b", PAGE) or name == "weights", name
    assert {*prototrt.__all__} <= {*dir(prototrt)}


def test_all_errors_are_public() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, prototrt.ConversionError)
    }
    assert kinds <= {*prototrt.__all__}


def test_blocks_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("samples").symlink_to(ROOT / "samples")
    Path("models.yaml").write_text(MODELS)
    scope: dict[str, Any] = {}
    with warnings.catch_warnings():
        for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(block, scope)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*?\)  # (.*)", PAGE)
    assert [line.split(" within")[0].strip() for line in printed] == [
        line.split(" within")[0] for line in promised
    ]
    assert len(printed) == PAGE.count("print(")


def test_importing_costs_nothing() -> None:
    program = "import sys, prototrt; print({'numpy', 'google.protobuf'} & sys.modules.keys())"
    assert run_python("-c", program).stdout.strip() == "set()"


# ---------------------------------------------------------------- functions


def test_inspect() -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    found = prototrt.inspect(model)
    assert found == prototrt.inspect(DEPLOY)
    assert '<td style="text-align: left">lstm1</td>' in found._repr_html_()
    weights = prototrt.inspect(WEIGHTS)
    assert isinstance(weights, FileFacts)
    assert weights.facts["parameters"] == 107321


def test_draw(tmp_path: Path) -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    picture, graph = prototrt.draw(model, stage="rewritten"), prototrt.rewrite(model)
    assert str(picture) == str(prototrt.draw(graph))
    assert str(picture).startswith("digraph")
    assert prototrt.draw(model, tmp_path / "net.dot") is None
    assert (
        (tmp_path / "net.dot").read_text() == done("dot", DEPLOY, WEIGHTS).stdout == str(prototrt.draw(model))
    )
    with pytest.raises(TypeError, match="a file is drawn from a model"):
        prototrt.draw(graph, "net.dot")


def test_a_picture_is_shown_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = prototrt.draw(prototrt.load(DEPLOY))
    assert picture is not None
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert picture._repr_svg_() is None
    assert picture._repr_html_().startswith("<pre>digraph")


def test_verify_with_arrays() -> None:
    expected = strips()
    feeds = {"data": expected["data"][0], "cont": np.ones((40, 1), np.float32)}
    model = prototrt.load(DEPLOY, WEIGHTS)
    one = prototrt.verify(model, ways=["onnx"], inputs=feeds)
    two = prototrt.verify(model, ways=["onnx"], inputs=[feeds, feeds])
    assert (one.calls, two.calls, one.holds, two.holds) == (1, 2, True, True)
    assert one.verdict in one._repr_html_()
    with pytest.raises(prototrt.ShapeError, match="inputs: input"):
        prototrt.verify(model, inputs={**feeds, "cont": np.ones(3)})


def test_calibrate_and_what_it_is_for(tmp_path: Path) -> None:
    expected = strips()
    feeds = {"data": expected["data"][0], "cont": np.ones((40, 1), np.float32)}
    model = prototrt.load(DEPLOY, WEIGHTS)
    parts: list[int | None] = []

    def started(count: int | None) -> Callable[[], object]:
        parts.append(count)
        return lambda: parts.append(None)

    progress: Started = started
    found = prototrt.calibrate(model, inputs=[feeds, feeds], method="max", progress=progress)
    assert parts == [2, None, None]
    found.save(tmp_path / "scales.json")
    assert "ip1" in found._repr_html_()
    graph = prototrt.rewrite(model, precision="int8", scales=str(tmp_path / "scales.json"))
    assert graph.text().count("Quantize") > 2


def test_deploy_survey_bench_layers_doctor() -> None:
    net = ROOT / "samples" / "digits" / "train_val.prototxt"
    text = prototrt.deploy(prototrt.load(net), shapes={"data": (40, 1, 32, 16), "cont": (40, 1)})
    assert text.count('type: "LSTM"') == 2
    survey = prototrt.survey(ROOT / "samples" / "digits")
    assert {Path(each.file).name for each in survey.nets} >= {"deploy.prototxt", "train_val.prototxt"}
    assert any(row.type == "LSTM" for row in prototrt.layers())
    assert prototrt.doctor().packages["numpy"] == np.__version__
    tiny = prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS), outputs=["conv1"])
    assert prototrt.bench(tiny, calls=1).timings


def test_triton(tmp_path: Path) -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    rewriting, options = prototrt.RewriteOptions(outputs=["pool2"]), prototrt.TritonOptions(name="reader")
    written = prototrt.triton(model, tmp_path / "models", options=options, rewriting=rewriting)
    assert written.folder == tmp_path / "models" / "reader"
    assert (written.folder / "config.pbtxt").is_file()


def test_sizes_of_a_cache_are_bytes_or_texts(tmp_path: Path) -> None:
    (tmp_path / "written-by-prototrt").touch()
    assert prototrt.prune_cache(tmp_path, max_size="1GB") == prototrt.prune_cache(tmp_path, max_size=10**9)
    with pytest.raises(prototrt.OptionsError) as caught:
        prototrt.prune_cache(tmp_path, max_size="much")
    assert str(caught.value) == (
        "max_size is 'much', expected a size\n  fix: write it as in max_size=\"10GB\""
    )


def test_a_batch_tells_the_progress_and_its_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(SMALL)
    Path("models.yaml").write_text(
        "defaults: { random-weights: 1, format: onnx }\n"
        "models: [{ prototxt: net.prototxt, needs: rtx }, { prototxt: gone }]"
    )
    heard: list[object] = []

    def progress(total: int) -> Callable[[Outcome], object]:
        heard.append(total)
        return lambda outcome: heard.append(outcome.status.value)

    with pytest.warns(
        prototrt.ConversionWarning, match="needs: applies only with scheduler; ignored for net"
    ):
        found = prototrt.convert_batch(
            "models.yaml",
            "out",
            keep_going=True,
            jobs=1,
            cache="cache",
            report_junit="report.xml",
            report_json="report.json",
            report_md="report.md",
            progress=progress,
        )
    assert (heard[0], sorted(map(str, heard[1:])), found.exit_code) == (2, ["converted", "failed"], 3)
    assert all(Path(f"report.{suffix}").read_text().strip() for suffix in ("xml", "json", "md"))
    assert prototrt.prune_cache("cache", older_than=1).kept == 1


def test_a_batch_is_surveyed_as_it_would_be_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(SMALL)
    Path("cut.prototxt").write_text(PYTHON_LAYER)
    Path("models.yaml").write_text(
        "defaults: { random-weights: 1, format: onnx }\n"
        "models: [{ prototxt: net.prototxt }, { prototxt: cut.prototxt }, { prototxt: gone }]"
    )
    before = sorted(os.listdir())
    plan = prototrt.survey_batch("models.yaml", "out")
    assert {net.file: net.verdict.value for net in plan.nets} == {
        "net": "converts",
        "cut": "converts in part",
        "gone": "does not convert",
    }
    with pytest.raises(
        prototrt.OptionsError, match=r'report_md would overwrite "net.prototxt", which is read'
    ):
        prototrt.survey_batch("models.yaml", "out", report_md="net.prototxt")
    assert sorted(os.listdir()) == before


def test_a_function_says_what_to_call_first() -> None:
    for function in (prototrt.verify, prototrt.calibrate, prototrt.deploy, prototrt.draw):
        with pytest.raises(TypeError, match="takes a Model, not a file: call model"):
            function(DEPLOY)  # type: ignore[arg-type, call-overload]  # the mistake

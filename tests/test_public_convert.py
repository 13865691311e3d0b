"""``prototrt.convert`` does in Python what the command does."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.options import option_fields
from prototrt.cli import main
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.public_cases import PYTHON_LAYER, SMALL


def test_convert_writes_what_the_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="writes a model")
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(PYTHON_LAYER.replace('"relu" type: "ReLU"', '"fc" type: "Scale"'))
    with pytest.warns(prototrt.ConversionWarning, match="mystery") as told:
        found = prototrt.convert(
            Path("net.prototxt"),
            None,
            Path("net.onnx"),
            random_weights=1,
            outputs="auto",
            verify=True,
            emit_header="net.h",
        )
    assert [str(each.message) for each in told] == [*found.warnings]
    assert found.files == ["net.onnx", "net.onnx.json", "net.h"]
    assert found.manifest == json.loads(Path("net.onnx.json").read_text())
    assert (found.model.name, [value.name for value in found.graph.outputs]) == ("cut", ["y"])
    assert found.manifest["verification"]["comparisons"]
    assert repr(found) == "<Converted cut: net.onnx, net.onnx.json, net.h>"
    first = {name: Path(name).read_bytes() for name in found.files}
    done("convert", "net.prototxt", "-o", "net.onnx", *COMMAND)
    assert {name: Path(name).read_bytes() for name in found.files} == first


COMMAND = ["--random-weights", "1", "--output", "auto", "--verify", "--emit-header", "net.h"]


def test_convert_takes_all_options_of_the_command() -> None:
    own = {"model", "print_after", "as_json", "verbose", "quiet", "debug", "version"}
    asked = {option.name for option in main.commands["convert"].params} - own
    assert asked == {each.name for each in option_fields(prototrt.ConversionOptions)}
    given = prototrt.ConversionOptions(
        "w", "f", precision="fp16", tile="native", backend="rtx", phase="TRAIN"
    )
    assert given.part(prototrt.RewriteOptions) == prototrt.RewriteOptions(precision="fp16", tile="native")
    assert given.part(prototrt.BuildOptions) == prototrt.BuildOptions("rtx", tile="native")
    assert given.part(prototrt.LoadOptions) == prototrt.LoadOptions("w", phase="TRAIN")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "convert() missing a required argument: 'file'"),
        (
            {"file": "net.onnx", "precison": "fp16"},
            "got an unexpected keyword argument 'precison'. Did you mean",
        ),
        (
            {"file": "net.onnx", "emit_header": "no/net.h"},
            'emit_header: cannot write "no/net.h": the folder "no" does not exist',
        ),
        (
            {"file": "net.onnx", "scales": "s", "calibration_cache": "c"},
            "scales and calibration_cache are both",
        ),
        ({"file": "net.onnx", "tile": "keep"}, "tile is 'keep', expected one of broadcast, native, plugin"),
    ],
)
def test_what_convert_refuses(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(SMALL)
    with pytest.raises((prototrt.OptionsError, TypeError), match=re.escape(message)):
        prototrt.convert("net.prototxt", weights=None, random_weights=0, **options)
    assert os.listdir() == ["net.prototxt"]


def test_convert_takes_files() -> None:
    with pytest.raises(TypeError, match=r"^prototrt.convert takes the file of a net, not a Model$"):
        prototrt.convert(prototrt.load(DEPLOY), WEIGHTS, "x.onnx")  # type: ignore[call-overload]  # the mistake

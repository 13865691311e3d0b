"""Python callers are told each warning of a net once, as a warning of Python."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import silent, tell
from prototrt.tests.public_cases import PYTHON_LAYER


def test_each_warning_of_a_net_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(PYTHON_LAYER)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = prototrt.load(file)
        graph = prototrt.rewrite(model)
        prototrt.inspect(model)
    told = [str(each.message) for each in caught]
    assert [each.category for each in caught] == [prototrt.ConversionWarning] * len(caught)
    assert [*dict.fromkeys(told)][: len(graph.warnings)] == [*graph.warnings]
    assert any("the net ends before" in text or "mystery" in text for text in told)
    assert {each.filename for each in caught} == {__file__}


def test_verify_tells_once_although_it_rewrites_twice(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(PYTHON_LAYER)
    model = prototrt.load(file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prototrt.verify(model, ways=["onnx"], rewriting=prototrt.RewriteOptions(precision="fp16"))
    told = [str(each.message) for each in caught]
    assert len(told) == len(set(told)) > 0


def test_warnings_can_be_errors(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(PYTHON_LAYER)
    with warnings.catch_warnings():
        warnings.simplefilter("error", prototrt.ConversionWarning)
        with pytest.raises(prototrt.ConversionWarning):
            prototrt.rewrite(prototrt.load(file))


def test_a_command_tells_each_warning_once(tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(PYTHON_LAYER)
    command = [
        sys.executable,
        "-m",
        "prototrt",
        "dot",
        str(file),
        "--stage",
        "rewritten",
        "-o",
        str(tmp_path / "n.dot"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in result.stderr.splitlines() if "warning" in line.lower()]
    assert lines
    assert len(lines) == len(set(lines))
    assert "ConversionWarning" not in result.stderr


def test_what_was_told_before_is_not_told_again() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tell(["a", "b", "a"], but=["b"])
        with silent():
            tell(["c"])
    assert [str(each.message) for each in caught] == ["a"]

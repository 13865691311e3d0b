"""The worked examples of CONTRIBUTING.md work: their code runs, and gives the numbers that they promise."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2, descriptor_pool

import prototrt
import prototrt.surgery.layers
from prototrt import Way
from prototrt.caffe_proto import Layer, schema
from prototrt.caffe_proto.common.errors import NetError
from prototrt.converter.backends.onnx import lowering as onnx_lowering
from prototrt.converter.backends.onnx.model import OnnxModel
from prototrt.converter.backends.tensorrt import lowering as tensorrt_lowering
from prototrt.converter.backends.tensorrt.activation import activation
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery import forks, layers, ops
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import Array
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ops.elementwise import Pointwise
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.golden_cases import Case, check
from prototrt.tests.small_nets import WAYS, float32
from prototrt.tests.tools import make_golden

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def block(language: str, word: str) -> str:
    """The one block of code in which a word stands."""
    (found,) = [text for kind, text in BLOCKS if kind == language and word in text]
    return found


REGISTRIES: tuple[Registry[Any, Any], ...] = (layer_rule, tensorrt_lowering.lowers, onnx_lowering.lowers)


PACKAGES = (layers, forks)
"""Whose rules the registries must know: those that are imported in a test would go with the page's."""


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    before = [dict(registry.rules) for registry in REGISTRIES]
    yield
    for registry, rules in zip(REGISTRIES, before, strict=True):
        registry.rules.clear()
        registry.rules.update(rules)


@pytest.fixture
def _fields_of_the_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caffe's messages with those that the page adds to caffe.proto."""
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(Path(schema.__file__).with_name("caffe.binpb").read_bytes())
    (file,) = files.file
    added = re.search(
        r"optional (\w+) (\w+) = (\d+);\s+message (\w+) {\s+optional float (\w+) = 1 \[default = (\S+)\];",
        block("proto", "message"),
    )
    assert added
    kind, field, number, message, name, default = added.groups()
    assert kind == message
    (layer,) = [one for one in file.message_type if one.name == "LayerParameter"]
    layer.field.add(name=field, number=int(number), type=11, label=1, type_name=f".caffe.{message}")
    file.message_type.add(name=message).field.add(name=name, number=1, type=2, label=1, default_value=default)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    cached = schema.message_class, schema.parameter_fields, schema._fields_without_underscores
    monkeypatch.setattr(schema, "private_pool", lambda descriptors: pool)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def defined(code: str, **names: Any) -> dict[str, Any]:
    names |= {"__name__": __name__}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return names


@pytest.mark.usefixtures("_fields_of_the_page")
@pytest.mark.parametrize("on", WAYS)
def test_the_layer(on: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The net, the rule, the formula and the command of the page make a golden that holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(make_golden, "GOLDENS", tmp_path)
    Path("net.prototxt").write_text(block("protobuf", "SoftShrink"))
    Path("formula.py").write_text(block("python", "LIMIT"))
    known = {"layer_rule": layer_rule, "LayerBuilder": LayerBuilder, "Layer": Layer, "Value": Value}
    defined(block("python", "@layer_rule"), NetError=NetError, ops=ops, **known)
    program, *arguments = shlex.split(block("console", "make_golden").removeprefix("$ ").replace("\\\n", ""))
    assert program == ".venv/bin/python"
    result = CliRunner().invoke(make_golden.main, arguments[2:])
    assert result.exit_code == 0, result.output
    (facts,) = json.loads(Path("forks/index.json").read_text())
    case = Case(tmp_path / "forks" / facts["case"], facts)
    assert case.folder.name == "soft_shrink"
    check(case, on)


@pytest.mark.parametrize("on", WAYS)
def test_the_primitive(on: Way) -> None:
    """What the page writes into each room computes the same."""
    primitive = block("python", "class ScaledTanH")
    names = {"Array": Array, "np": np, "Pointwise": Pointwise, "dataclass": dataclass}
    kind = defined(primitive, **names)["ScaledTanH"]
    shared = {"ScaledTanH": kind, "Network": Network, "Tensor": Tensor, "OnnxModel": OnnxModel}
    defined(
        block("python", "network: Network"), lowers=tensorrt_lowering.lowers, activation=activation, **shared
    )
    defined(block("python", "model: OnnxModel"), lowers=onnx_lowering.lowers, **shared)
    x = float32([-2, 0, 0.5])
    (y,) = prototrt.Session(graph_of(kind(scale=1.5), [x]), on=on).run({"x0": x}).values()
    np.testing.assert_allclose(y, float32([-1.4460414, 0, 0.69317574]), rtol=1e-6)


def is_module(code: str) -> bool:
    """Whether a block stands by itself, and is no row of a table."""
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("code", [code for kind, code in BLOCKS if kind == "python" and is_module(code)])
def test_the_code_passes_the_linter(code: str) -> None:
    """But for names that the module defines into which the code goes."""
    ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--extend-ignore", "F821", "-"]
    checked = subprocess.run(ruff, input=code, text=True, cwd=ROOT, capture_output=True)
    assert checked.stdout == ""

"""The worked examples of CONTRIBUTING.md work: their code runs, and gives the numbers that they promise."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
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
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.onnx import lowering as onnx_lowering
from prototrt.converter.backends.onnx.model import OnnxModel
from prototrt.converter.backends.tensorrt import lowering as tensorrt_lowering
from prototrt.converter.backends.tensorrt.activation import activation
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery import forks, ir, layers, ops
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.layers.recurrent import parameters, recurrent_types
from prototrt.surgery.ops.elementwise import Pointwise
from prototrt.surgery.recurrent import cells
from prototrt.surgery.runner import PassList
from prototrt.surgery.runner import run as run_passes
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.golden_cases import Case, check
from prototrt.tests.small_nets import WAYS, float32, numbers, op, rewritten, stored
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


def test_the_pass() -> None:
    graph = rewritten(
        op("Sigmoid", tops=["s"]) + 'layer { name: "c" type: "Clip" bottom: "s" top: "t" '
        "clip_param { min: -1 max: 2 } }" + 'layer { name: "e" type: "Exp" bottom: "t" top: "y" }',
        {"x": (2, 3)},
    )
    names = {"Graph": Graph, "Value": ir.Value, "Sigmoid": ops.Sigmoid, "Clip": ops.Clip, "needs": needs}
    change = defined(block("python", "def drop_wide_clips"), **names)["drop_wide_clips"]
    after = run_passes(graph, [PassList("the pass", (change,))])
    kinds = [type(node.op).__name__ for node in after.nodes]
    assert ("Clip" in kinds, len(kinds)) == (False, len(graph.nodes) - 1)
    assert change(after) is after
    narrow = graph.with_nodes(
        replace(node, op=ops.Clip(0.25, 1)) if isinstance(node.op, ops.Clip) else node for node in graph.nodes
    )
    assert change(narrow) is narrow


@pytest.mark.parametrize("on", WAYS)
def test_the_cell(on: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the type VanillaRNN, in both directions, with sequences that begin anywhere."""
    names = defined(block("python", "class OneGateCell"), **vars(cells))
    made = defined(
        block("python", "def one_gate_blobs"), **{**vars(parameters), **vars(recurrent_types), **names}
    )
    monkeypatch.setitem(recurrent_types.RECURRENT_TYPES, "VanillaRNN", made["ONE_GATE"])
    blobs = [numbers(*shape, seed=seed) for seed, shape in enumerate([(8, 3), (8,), (8, 4)] * 2)]
    x, cont = numbers(5, 2, 3, seed=9), float32([[0, 0], [1, 1], [1, 0], [0, 1], [1, 1]])
    fields = "recurrent_param { num_output: 4 bidirectional: CONCAT }"
    graph = rewritten(
        op("VanillaRNN", fields, ["x", "cont"]), {"x": x.shape, "cont": cont.shape}, stored("op", blobs)
    )
    y = prototrt.Session(graph, on=on).run({"x": x, "cont": cont})["y"]

    def direction(x: Array, cont: Array, w_x: Array, b: Array, w_h: Array) -> Array:
        h, tops = np.zeros((2, 4)), []
        for x_t, cont_t in zip(x, cont, strict=True):
            h = cont_t[:, None] * h
            f, n = np.split(x_t @ w_x.T + b + h @ w_h.T, 2, axis=1)
            f = 1 / (1 + np.exp(-f))
            h = (1 - f) * h + f * np.tanh(n)
            tops.append(h)
        return np.stack(tops)

    # Read backwards, a sequence starts where the next one begins in forward order.
    back = direction(x[::-1], np.concatenate([np.zeros((1, 2)), cont[:0:-1]]), *blobs[3:])[::-1]
    expected = np.concatenate([direction(x, cont, *blobs[:3]), back], axis=2)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


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

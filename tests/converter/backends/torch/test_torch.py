"""PyTorch does with a module that was written what it does with others: it trains, exports and compiles it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.cli import main
from prototrt.converter.backends.torch.names import MODULE_NAMES
from prototrt.tests.converter.backends.onnx.test_primitives import CASES, graph_of
from prototrt.tests.converter.backends.torch.files import written
from prototrt.tests.converter.backends.torch.torch_session import TorchSession, imported, module_of, torch
from prototrt.tests.golden_cases import case_called

NETS = ["net_lenet", "net_lrcn", "net_ssd", "net_resnet_block"]


def inputs_of(name: str, dtype: Any = torch.float32) -> list[Any]:
    case = case_called(name)
    graph = prototrt.rewrite(case.load())
    arrays = case.arrays("inputs")[0]
    states = graph.state_inputs
    return [torch.from_numpy(arrays[v.name]).to(dtype) for v in graph.inputs if v not in states]


@pytest.mark.parametrize("name", [name for name in CASES if "8 bits" not in name])
def test_primitive(name: str) -> None:
    op, arrays = CASES[name]
    graph = graph_of(op, arrays)
    expected = graph.evaluate(*arrays[: len(graph.inputs)])
    results = TorchSession(graph).run({value.name: a for value, a in zip(graph.inputs, arrays, strict=False)})
    for value, wanted in zip(graph.outputs, expected, strict=True):
        np.testing.assert_allclose(results[value.name], wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["net_lenet", "net_lrcn", "net_resnet_block"])
def test_gradients(name: str, tmp_path: Path) -> None:
    """Numerical and exact gradients of all inputs agree, in float64."""
    net = imported(written(name, tmp_path)).load().double()
    inputs = [each.requires_grad_() for each in inputs_of(name, torch.float64)]
    assert torch.autograd.gradcheck(lambda *args: net(*args), inputs, eps=1e-6, atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("name", NETS)
def test_every_weight_learns(name: str, tmp_path: Path) -> None:
    net = imported(written(name, tmp_path)).load().train()
    results = net(*inputs_of(name))
    results = results if isinstance(results, tuple) else (results,)
    sum((each * torch.randn(each.shape)).sum() for each in results).backward()
    assert [name for name, each in net.named_parameters() if each.grad is None or not each.grad.any()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        *((name, "aot_eager") for name in NETS[:2]),
        *(pytest.param(name, "aot_eager", marks=pytest.mark.exhaustive) for name in NETS[2:]),
        *(pytest.param(name, "inductor", marks=pytest.mark.exhaustive) for name in NETS),
    ],
)
def test_exports_and_compiles(name: str, compiler: str, tmp_path: Path) -> None:
    net, inputs = imported(written(name, tmp_path)).load(), tuple(inputs_of(name))
    with torch.no_grad():
        expected = net(*inputs)
        exported = torch.export.export(net, inputs).module()(*inputs)
        compiled = torch.compile(net, fullgraph=True, backend=compiler)(*inputs)
    torch.testing.assert_close(exported, expected)
    torch.testing.assert_close(compiled, expected)


@pytest.mark.parametrize("name", NETS)
def test_becomes_onnx(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="runs the model")
    net, inputs = imported(written(name, tmp_path)).load(), tuple(inputs_of(name))
    torch.onnx.export(net, inputs, tmp_path / "net.onnx", dynamo=False)
    session = runtime.InferenceSession(tmp_path / "net.onnx")
    feeds = {each.name: a.numpy() for each, a in zip(session.get_inputs(), inputs, strict=True)}
    with torch.no_grad():
        expected = net(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(session.run(None, feeds), expected, strict=True):
        np.testing.assert_allclose(result, wanted.numpy(), 1e-4, 1e-5)


def test_another_batch_fits() -> None:
    """A net that states a batch of 1 trains with any."""
    net = module_of(prototrt.rewrite(case_called("net_lenet").load()))
    assert net(torch.randn(7, 1, 28, 28)).shape == (7, 10)


def test_sizes_vary() -> None:
    case = case_called("net_lrcn")
    (inputs,), graph = case.arrays("inputs")[:1], prototrt.rewrite(case.load(), dynamic=["time"])
    results = TorchSession(graph).run(inputs)
    expected = prototrt.Session(graph, on="reference").run(inputs)
    np.testing.assert_allclose(results["prob"], expected["prob"], 1e-5, 1e-6)


def test_names_of_modules_are_known() -> None:
    """A layer that has the name of an attribute of every module gets another one."""
    names = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert names - MODULE_NAMES == {"T_destination"} & names


def test_a_device_that_pytorch_does_not_have() -> None:
    with pytest.raises(BuildError) as caught:
        prototrt.Session(prototrt.rewrite(case_called("net_lrcn").load()), on="torch", device="abacus")
    first, fix = str(caught.value).split("\n  fix: ")
    assert first.startswith("PyTorch cannot compute on the device 'abacus': Expected one of cpu, cuda, ")
    assert fix == "leave device out to compute on the CPU, or install a PyTorch for this machine's GPU"


def test_the_written_module_is_verified(tmp_path: Path) -> None:
    folder = case_called("net_lrcn").folder
    files = [str(folder / "model.prototxt"), str(folder / "model.caffemodel")]
    result = CliRunner().invoke(main, ["convert", *files, "-o", str(tmp_path / "net.py"), "--verify"])
    assert result.exit_code == 0, result.output
    assert "verified torch in 2 calls: off by at most " in result.output
    manifest = json.loads((tmp_path / "net.py.json").read_text())
    assert '"torch"' in json.dumps(manifest["verification"])

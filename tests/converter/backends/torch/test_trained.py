"""What PyTorch trained: its state dict is weights of the net, and of every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.weights.safetensors import read_safetensors, write_safetensors
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.converter.backends.torch.files import OUTPUTS
from prototrt.tests.converter.backends.torch.torch_session import imported, torch
from prototrt.tests.golden_cases import Case, caffe_cases, case_called, fork_cases
from prototrt.tests.samples import one_of_each

save_model = pytest.importorskip("safetensors.torch", reason="needs safetensors").save_model


def trained(net: Any, inputs: list[Any], outputs: int) -> list[Array]:
    """Train a module for some steps; what it returns then, in eval mode."""
    torch.manual_seed(0)
    net.train()
    parameters = [each for each in net.parameters() if each.requires_grad]
    for _ in range(3):
        results = net(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(((each - torch.rand_like(each)) ** 2).mean() for each in results[:outputs])
        with torch.no_grad():  # torch.optim imports the compiler, which takes seconds
            for parameter, gradient in zip(
                parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True
            ):
                if gradient is not None:
                    parameter -= 1e-3 * gradient.sign()
    net.eval()
    with torch.no_grad():
        results = net(*inputs)
    return [each.numpy() for each in (results if isinstance(results, tuple) else (results,))]


NETS: dict[str, tuple[list[str] | None, dict[str, Any]]] = {
    "digits": (None, {}),
    "net_ssd": (OUTPUTS["net_ssd"], {}),
    "net_lrcn": (None, {}),
    "net_lrcn without cont": (None, {"cont": "drop"}),
    "lstm_shared_stack": (None, {}),
}


@pytest.mark.parametrize(
    ("name", "suffix"), [*zip(NETS, [".pt", ".safetensors", ".pt", *[".safetensors"] * 2], strict=True)]
)
def test_trained_weights_are_weights(name: str, suffix: str, tmp_path: Path) -> None:
    """Trained, saved and read again, as they are and as a caffemodel: the net returns what the module returned."""
    outputs, options = NETS[name]
    net, before = Path(DEPLOY), Path(WEIGHTS)
    if name != "digits":
        case = case_called(name.split()[0])
        net, before = case.folder / "model.prototxt", case.folder / case.facts["weights_file"]
    graph = prototrt.rewrite(prototrt.load(net, before), outputs=outputs, **options)
    prototrt.export_torch(graph, tmp_path / "net.py")
    module = imported(tmp_path / "net.py").load()
    random, states = np.random.default_rng(0), {pair.input.name for pair in graph.recurrences}
    feeds = {
        value.name: random.random([int(size) for size in value.shape], np.float32)
        for value in graph.inputs
        if value.name not in states
    }
    if "cont" in feeds:
        feeds["cont"] = (feeds["cont"] > 0.2).astype(np.float32)
    names = [value.name for value in graph.outputs]
    inputs = [torch.from_numpy(feed) for feed in feeds.values()]
    expected = dict(zip(names, trained(module, inputs, len(outputs or [1])), strict=True))
    file = tmp_path / f"trained{suffix}"
    if suffix == ".pt":
        torch.save(module.state_dict(), file)
    else:
        save_model(module, str(file))

    def check(weights: Path) -> None:
        again = prototrt.rewrite(prototrt.load(net, weights), outputs=outputs, **options)
        results = prototrt.Session(again, on="reference").run(feeds)
        for blob in results:
            np.testing.assert_allclose(results[blob], expected[blob], rtol=1e-4, atol=2e-5)

    with pytest.raises(AssertionError):
        check(before)
    check(file)
    new = tmp_path / "new.caffemodel"
    done("weights", "set", str(net), str(before), str(file), "-o", str(new))
    check(new)


RECURRENT = {
    kind
    for kind, rule in framework_by_name("caffe").rules.rules.items()
    if ".recurrent." in rule.__module__ or rule.__module__.endswith("mean_field")
}
WITHOUT_WEIGHTS = {"lstm_unit", "ctc_blank_last", "dense_crf", "spn"}
CASES = [
    *(
        case
        for case in (*caffe_cases(), *fork_cases())
        if case.layer_types & RECURRENT and str(case) not in WITHOUT_WEIGHTS
    ),
    *(case for case in caffe2_cases() if case.is_recurrent or "bn" in case.folder.name),
]
COMPUTED = {"gru_from_onnx", "lstm_from_onnx", "packed_rnn_from_onnx"}
"""Nets whose init net computes weights of others, which a state dict does not."""


def kinds(case: Any) -> set[str]:
    return case.operators if isinstance(case, Caffe2Case) else case.layer_types & RECURRENT


@pytest.mark.parametrize("case", one_of_each(CASES, kinds), ids=str)
def test_changed_weights_come_back(case: Case | Caffe2Case, tmp_path: Path) -> None:
    """Every recurrent net: all parameters of its module are changed, and the net of Caffe returns what that returns."""
    if isinstance(case, Caffe2Case):
        net, before, new = (case.folder / "predict_net.pb", case.folder / "init_net.pb", tmp_path / "new.pb")
        feeds = case.arrays("inputs")
    else:
        before, new = case.folder / case.facts["weights_file"], tmp_path / "new.caffemodel"
        net, feeds = case.folder / "model.prototxt", case.arrays("inputs")[0]
    shapes = {name: array.shape for name, array in feeds.items()}
    graph = prototrt.rewrite(prototrt.load(net, before), shapes=shapes)
    assert graph.learned, "has no weights, and so cannot be tried here"
    prototrt.export_torch(graph, tmp_path / "net.py")
    module = imported(tmp_path / "net.py").load()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5 + 0.4 * torch.rand_like(parameter)).add_(0.02 * torch.randn_like(parameter))
        results = module(*(torch.from_numpy(feeds[each.name]) for each in graph.inputs if each.name in feeds))
    results = results if isinstance(results, tuple) else (results,)
    expected = {value.name: each.numpy() for value, each in zip(graph.outputs, results, strict=True)}
    trained = tmp_path / "trained.pt"
    torch.save(module.state_dict(), trained)
    done("weights", "set", str(net), str(before), str(trained), "-o", str(new))
    for weights in (new, trained)[: 1 if case.folder.name in COMPUTED else 2]:
        again = prototrt.rewrite(prototrt.load(net, weights), shapes=shapes)
        found = prototrt.Session(again, on="reference").run(feeds)
        for blob in found:
            np.testing.assert_allclose(found[blob], expected[blob], rtol=1e-4, atol=2e-5, err_msg=blob)


@pytest.mark.trt
def test_a_plan_of_trained_weights(tmp_path: Path) -> None:
    """Whoever trained digits builds its plan: the network that TensorRT is given agrees with the module."""
    done(
        "convert",
        DEPLOY,
        WEIGHTS,
        "-o",
        str(tmp_path / "net.py"),
    )
    state = dict(read_safetensors(str(tmp_path / "net.safetensors")))
    state["score.bias"] = state["score.bias"] + np.float32(1)
    with (tmp_path / "trained.safetensors").open("wb") as stream:
        write_safetensors(stream, state, {})
    files = DEPLOY, str(tmp_path / "trained.safetensors")
    done("convert", *files, "-o", str(tmp_path / "net.plan"), "--verify")

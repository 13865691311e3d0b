"""What PyTorch trained: its state dict is weights of the net, and of every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.weights.safetensors import read_safetensors, write_safetensors
from prototrt.surgery.ir import Array
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.converter.backends.torch.files import OUTPUTS
from prototrt.tests.converter.backends.torch.torch_session import imported, torch
from prototrt.tests.golden_cases import case_called

save_file = pytest.importorskip("safetensors.torch", reason="needs safetensors").save_file


def trained(net: Any, inputs: list[Any], outputs: int) -> list[Array]:
    """Train a module for some steps; what it returns then, in eval mode."""
    torch.manual_seed(0)
    net.train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        results = net(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(((each - torch.rand_like(each)) ** 2).mean() for each in results[:outputs])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        results = net(*inputs)
    return [each.numpy() for each in (results if isinstance(results, tuple) else (results,))]


NETS: dict[str, tuple[list[str] | None, dict[str, Any]]] = {
    "digits": (None, {}),
    "net_ssd": (OUTPUTS["net_ssd"], {}),
    "net_lrcn": (None, {}),
    "net_lrcn without cont": (None, {"cont": "drop"}),
}


@pytest.mark.parametrize(("name", "suffix"), [*zip(NETS, [".pt", ".safetensors"] * 2, strict=True)])
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
    (torch.save if suffix == ".pt" else save_file)(module.state_dict(), file)

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

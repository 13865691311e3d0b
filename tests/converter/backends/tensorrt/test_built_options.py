"""Engines that are built with an option: profiles, layers, weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError, EngineError, OptionsError
from prototrt.converter.backends.tensorrt import builder
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.options import BuildOptions
from prototrt.converter.running.runtime.plan_file import load_plan
from prototrt.tests.dynamic_lstm import dynamic_graph
from prototrt.tests.small_nets import inputs_of, op, tanh


@pytest.mark.trt
@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"builder_optimization_level": 1}, {}),
        ({"mem_pool_size": {"workspace": "1GB"}}, {}),
        ({"profiling_verbosity": "none"}, {}),
        ({"compute_capabilities": ["8.6", "8.9"]}, {"compute_capabilities": ["8.6", "8.9"]}),
    ],
)
def test_rtx_builds_with_it(given: dict[str, Any], facts: dict[str, Any], tmp_path: Path) -> None:
    tensorrt = prototrt.build(tanh(), backend="rtx", **given).manifest["tensorrt"]
    assert {
        name: value for name, value in tensorrt.items() if name not in ("flavour", "version", "tf32")
    } == facts


@pytest.mark.trt
def test_an_engine_has_several_profiles() -> None:
    profiles = [{"N": (1, 1, 1)}, {"T": (1, 5, 8), "N": (2, 7, 7)}]
    plan = prototrt.build(dynamic_graph(), backend="rtx", profiles=profiles)
    assert json.loads(json.dumps(plan.manifest["tensorrt"]["profiles"])) == [
        {"N": [1, 1, 1]},
        {"T": [1, 5, 8], "N": [2, 7, 7]},
    ]
    assert plan.plan.nbytes > prototrt.build(dynamic_graph(), backend="rtx").plan.nbytes


@pytest.mark.trt
@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        (
            [{"H": (1, 1, 1)}],
            "profiles names the size H, which does not vary\n"
            "  because those that vary are T, N\n"
            "  fix: let it vary with shapes and sizes",
        ),
        (
            [{"N": (1, 1, 8)}],
            "profiles has N=1..1..8\n"
            "  because the sizes must not decrease, and must lie in 1 to 7\n"
            "  fix: change it, or give the net another range with min_shapes and max_shapes",
        ),
        (
            [{"N": (1, 1, 1)}, {"N": (2, 3, 4)}],
            "profiles covers N from 1 to 4\n"
            "  because the net was rewritten for N from 1 to 7\n"
            "  fix: add a profile, or give the net another range with min_shapes and max_shapes",
        ),
    ],
)
def test_profiles_fit_the_sizes(profiles: Any, message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        prototrt.build(dynamic_graph(), backend="rtx", profiles=profiles)
    assert str(caught.value) == message


@pytest.mark.trt
def test_turing_needs_float16(tmp_path: Path) -> None:
    text = inputs_of({"x": (2, 3)}) + op("InnerProduct", "inner_product_param { num_output: 4 }")
    (tmp_path / "net.prototxt").write_text(text)
    model = prototrt.load(tmp_path / "net.prototxt", random_weights=1)
    with pytest.raises(BuildError) as caught:
        prototrt.build(prototrt.rewrite(model), backend="rtx", compute_capabilities=["7.5"])
    assert str(caught.value).endswith(
        '\n  fix: use precision="fp16", or leave 7.5 out of compute_capabilities'
    )
    prototrt.build(prototrt.rewrite(model, precision="fp16"), backend="rtx", compute_capabilities=["7.5"])


@pytest.mark.trt
def test_too_small_a_pool_names_the_option() -> None:
    with pytest.raises(BuildError) as caught:
        prototrt.build(dynamic_graph(), backend="rtx", mem_pool_size={"workspace": "1KiB"})
    assert str(caught.value).endswith(
        '\n  fix: allow more, as in mem_pool_size={"workspace": "1GiB"}, or leave it out'
    )


# ---------------------------------------------------------------- further files


@pytest.mark.trt
@pytest.mark.parametrize("streamed", [False, True])
def test_layers_appear_together_with_the_engine(
    streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []

    def layer_info(network: Network, plan: memoryview) -> str:
        plans.append(bytes(plan))
        return '{"Layers": []}'

    monkeypatch.setattr(builder, "layer_info", layer_info)
    monkeypatch.setattr(builder, "_has_gpu", lambda: True)
    if streamed:
        monkeypatch.setattr(builder, "STREAMED_FROM", 0)
    asked = BuildOptions("rtx", export_layer_info=str(tmp_path / "layers.json"))
    builder.build_file(tanh(), tmp_path / "a.plan", asked)
    assert (tmp_path / "layers.json").read_text() == '{"Layers": []}'
    assert plans == [(tmp_path / "a.plan").read_bytes()]
    monkeypatch.setattr(builder, "layer_info", lambda network, plan: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        builder.build_file(tanh(), tmp_path / "b.plan", asked)
    assert not (tmp_path / "b.plan").exists()


@pytest.mark.trt
def test_layers_are_written_for_an_engine_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "layer_info", lambda network, plan: "{}")
    monkeypatch.setattr(builder, "_has_gpu", lambda: True)
    prototrt.build(tanh(), backend="rtx", export_layer_info=str(tmp_path / "layers.json"))
    assert (tmp_path / "layers.json").read_text() == "{}"


def test_an_engine_without_weights_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "a.plan").write_bytes(b"ptrt")
    manifest = {"format": 1, "tensorrt": {"flavour": "rtx", "version": "1.7.1", "strip_weights": True}}
    (tmp_path / "a.plan.json").write_text(json.dumps(manifest))
    with pytest.raises(EngineError) as caught:
        load_plan(tmp_path / "a.plan")
    assert str(caught.value) == (
        f"{tmp_path}/a.plan: has no weights\n"
        "  because it was built to get them from the application that runs it\n"
        "  fix: convert the model without strip_weights"
    )

"""What an import brings along: reading and rewriting need no TensorRT, the commands' help needs nothing."""

from __future__ import annotations

import pytest

from prototrt.tests.fresh_python import ROOT, run_python


def imported_by(*modules: str) -> set[str]:
    """The modules in a fresh interpreter after it imported these, by the first part of their names."""
    code = f"import {', '.join(modules)}, sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    return set(run_python("-c", code).stdout.split())


@pytest.mark.parametrize(
    ("modules", "strangers"),
    [
        (["prototrt"], {"numpy", "google", "click"}),
        (["prototrt.cli"], {"numpy", "google", "tensorrt_rtx", "rich"}),
        (["prototrt.caffe_proto"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.surgery.pipeline"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.converter.sessions.session"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.converter.tensorrt.builder"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else "",
)
def test_import_leaves_alone(modules: list[str], strangers: set[str]) -> None:
    assert imported_by(*modules) & strangers == set()


def test_caffe_net_needs_nothing_of_caffe2_nor_the_tile_plugin() -> None:
    net = ROOT / "samples" / "digits" / "deploy.prototxt"
    code = (
        "import prototrt, sys; import prototrt.converter.tensorrt.builder; "
        f"prototrt.rewrite(prototrt.load({str(net)!r}, random_weights=1)); "
        "print(*(name for name in sys.modules if 'caffe2' in name or 'plugins' in name))"
    )
    assert run_python("-c", code).stdout.split() == []


def test_a_net_imports_the_families_of_its_layers_alone() -> None:
    net = ROOT / "samples" / "digits" / "deploy.prototxt"
    code = (
        "import prototrt, sys; import prototrt.surgery.layers as layers; "
        f"prototrt.rewrite(prototrt.load({str(net)!r}, random_weights=1)); "
        "print(*(family for family in layers.FAMILIES if f'{layers.__name__}.{family}' in sys.modules))"
    )
    used = (
        "activation batch_norm convolution data inner_product normalization pooling recurrent.rules"
        " reshaping scale"
    )
    assert run_python("-c", code).stdout.split() == used.split()

"""The plugin in a network, against a TensorRT that runs plugins on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
import prototrt.plugins.tile
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.driver import Driver, Gpu
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.converter.backends.tensorrt.tile_plugin import register_tile_plugin, tile_by_plugin
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.engine import Engine
from prototrt.plugins.tile import launcher, plugin_v3
from prototrt.plugins.tile.kernel import ptx
from prototrt.surgery.ir import DType, Graph
from prototrt.surgery.ops import Tile
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_tensorrt
from prototrt.tests.plugins.cpu import library
from prototrt.tests.plugins.fake_tensorrt import BF16, BOOL, FLOAT, HALF, INT32, FakeTensorRT, Kind

AHEAD, AS_A_CLASS = "10.16.1.11", "10.8.0.43"

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 5 } } }
layer { name: "copies" type: "Tile" bottom: "x" top: "y" tile_param { axis: AXIS tiles: 4 } }
layer { name: "again" type: "Tile" bottom: "x" top: "z" tile_param { axis: 2 tiles: 7 } }
"""


def graph_of(folder: Path, axis: int = 1) -> Graph:
    (folder / "net.prototxt").write_text(NET.replace("AXIS", str(axis)))
    return prototrt.rewrite(prototrt.load(folder / "net.prototxt"), tile="keep")


@pytest.fixture(params=[AHEAD, AS_A_CLASS, "11.4.0.106", "10.0.1"])
def tensorrt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake as the module ``tensorrt``, over a driver that runs the kernel on the CPU."""
    fake = FakeTensorRT(request.param)
    monkeypatch.setitem(sys.modules, "tensorrt", fake)
    monkeypatch.setitem(sys.modules, "tensorrt.plugin", fake.plugin)
    monkeypatch.setattr(plugin_v3, "launcher", lambda: launcher.TileLauncher(library()))
    return fake


def is_ahead(trt: Any) -> bool:
    return trt.__version__ in (AHEAD, "11.4.0.106")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_layers_tile(tensorrt: Any, tmp_path: Path, axis: int) -> None:
    network = network_of(graph_of(tmp_path, axis), find_backend("enterprise"), "plugin")
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    first, second = network.definition.layers
    expected = np.tile(x, [4 if index == axis else 1 for index in range(3)])
    assert first.output.shape == expected.shape
    np.testing.assert_array_equal(first.run(x), expected)
    np.testing.assert_array_equal(second.run(x), np.tile(x, (1, 1, 7)))
    assert (first.name, first.metadata) == ("copies", "copies (Tile), line 3")
    assert [tensor.name for tensor in network.definition.outputs] == ["y", "z"]


def test_another_network_of_the_same_process(tensorrt: Any, tmp_path: Path) -> None:
    """Plugins are defined once: TensorRT refuses a second definition, and so does the fake."""
    for _ in range(2):
        prototrt.build(graph_of(tmp_path), "enterprise", tile="plugin")


def test_the_manifest_says_what_must_be_registered(tensorrt: Any, tmp_path: Path) -> None:
    manifest = prototrt.build(graph_of(tmp_path), "enterprise", tile="plugin").manifest
    assert manifest.get("plugins") == (None if is_ahead(tensorrt) else ["prototrt.plugins.tile"])


def test_the_manifest_says_for_which_gpu(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of TensorRT runs on no other."""
    found = Driver("13.0", (Gpu("RTX 4090", "8.9", 24 << 30),))
    monkeypatch.setattr("prototrt.converter.backends.driver.find_driver", lambda: found)
    manifest = prototrt.build(graph_of(tmp_path), "enterprise", tile="plugin", tf32=True).manifest
    assert manifest["tensorrt"] == {
        "flavour": "enterprise",
        "version": tensorrt.__version__,
        "tf32": True,
        "gpu": {"name": "RTX 4090", "compute_capability": "8.9"},
        "cuda": "13.0",
    }


def test_what_is_compiled_ahead_is_our_ptx(tensorrt: Any, tmp_path: Path) -> None:
    network_of(graph_of(tmp_path), find_backend("enterprise"), "plugin")
    assert list(tensorrt.plugin.functions) == (["prototrt::Tile"] if is_ahead(tensorrt) else [])
    for _, compile_ahead in tensorrt.plugin.functions.values():
        desc = tensorrt.plugin.TensorDesc
        tiling = np.array([1, 3], np.int32)
        made = compile_ahead(desc(HALF, [2, 8]), tiling, (desc(HALF, [2, 24]),), 0)
        launch = tensorrt.plugin.KernelLaunchParams(grid_x=1, block_x=256)
        assert made == ("prototrt_tile_16", ptx(), launch, [8, 3, 48])


def test_a_grid_has_blocks_even_for_nothing(tensorrt: Any, tmp_path: Path) -> None:
    """By hand: a block moves 2048 elements of 16 bits."""
    network_of(graph_of(tmp_path), find_backend("enterprise"), "plugin")
    desc, tiling = tensorrt.plugin.TensorDesc, np.array([1, 3], np.int32)
    for _, compile_ahead in tensorrt.plugin.functions.values():
        for size, blocks in ((0, 1), (682, 1), (683, 2)):
            launch = compile_ahead(desc(HALF, [1, size]), tiling, (desc(HALF, [1, 3 * size]),), 0)[2]
            assert launch.grid_x == blocks


def test_rtx_takes_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        prototrt.build(graph_of(tmp_path), "rtx", tile="plugin")
    assert str(caught.value) == (
        "backend rtx cannot use the Tile plugin\n"
        "  because TensorRT for RTX does not support plugins\n"
        '  fix: use tile="broadcast", the default, or tile="native": both give the same numbers;'
        ' or backend="enterprise"'
    )


def test_element_types_without_a_kernel(tensorrt: Any, tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    network = network_of(graph, find_backend("enterprise"), "plugin")
    with network.at(graph.nodes[0]), pytest.raises(BuildError) as caught:
        tile_by_plugin(network, Tile(1, 4), SimpleNamespace(dtype=BOOL))
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:3: layer "copies" (Tile): the Tile plugin moves elements of type'
        " FLOAT, HALF, BF16, INT32, not BOOL\n"
        '  fix: use tile="broadcast", the default, or tile="native": both give the same numbers'
    )


def test_a_layer_that_tensorrt_refuses(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("add_plugin", "add_plugin_v3"):
        monkeypatch.setattr(f"prototrt.tests.plugins.fake_tensorrt.Network.{method}", lambda *arguments: None)
    with pytest.raises(BuildError) as caught:
        prototrt.build(graph_of(tmp_path), "enterprise", tile="plugin")
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:3: layer "copies" (Tile): TensorRT refuses the Tile plugin\n'
        "  because it gave no reason"
    )


def test_tile_must_be_a_known_way(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^tile is 'copy', expected one of broadcast, native, plugin\n"):
        prototrt.build(graph_of(tmp_path), "rtx", tile="copy")  # type: ignore[call-overload]  # the mistake


# ---------------------------------------------------------------- the class


def test_the_documented_name() -> None:
    assert prototrt.plugins.tile.register is plugin_v3.register


def made(trt: Any, axis: int, copies: int) -> Any:
    creator = plugin_v3.register(trt)
    fields = [SimpleNamespace(name="axis", data=[axis]), SimpleNamespace(name="copies", data=[copies])]
    return creator.create_plugin("Tile", fields, trt.TensorRTPhase.BUILD)


def test_what_is_stored_makes_the_same_plugin() -> None:
    trt = FakeTensorRT(AS_A_CLASS)
    plugin = made(trt, 2, 9)
    stored = plugin.clone().get_fields_to_serialize()
    again = plugin_v3.register(trt).create_plugin("Tile", stored, "RUNTIME")
    fields = [(field.name, list(field.data)) for field in again.get_fields_to_serialize()]
    assert fields == [("axis", [2]), ("copies", [9])]


@pytest.mark.parametrize(
    ("first", "second", "layout", "takes"),
    [
        (FLOAT, FLOAT, "LINEAR", True),
        (HALF, HALF, "LINEAR", True),
        (BF16, BF16, "LINEAR", True),
        (INT32, INT32, "LINEAR", True),
        (HALF, FLOAT, "LINEAR", False),
        (BOOL, BOOL, "LINEAR", False),
        (FLOAT, FLOAT, "CHW32", False),
    ],
)
def test_element_types_and_layouts_of_the_class(first: Kind, second: Kind, layout: str, takes: bool) -> None:
    trt = FakeTensorRT(AS_A_CLASS)
    tensors = [
        SimpleNamespace(desc=SimpleNamespace(type=kind, format=getattr(trt.TensorFormat, layout)))
        for kind in (first, second)
    ]
    assert made(trt, 0, 2).supports_format_combination(1, tensors, 1) is takes


@pytest.mark.parametrize(
    ("name", "version", "way"),
    [
        ("enterprise", "10.0.1", "class"),
        ("enterprise", "10.8.0.43", "class"),
        ("enterprise", "10.9.0.34", "ahead"),
        ("enterprise", "10.16.1.11", "ahead"),
        ("enterprise", "11.4.0.106", "ahead"),
        ("rtx", "1.7.1.116", "none"),
    ],
)
def test_way_and_registration_of_each_release(name: str, version: str, way: str) -> None:
    """An engine that calls back finds the plugin; elsewhere nothing is registered."""
    fake = FakeTensorRT(version)
    backend = Backend(name, fake)  # type: ignore[arg-type]  # as good as a module
    assert backend.plugins == way
    for _ in range(2):
        register_tile_plugin(backend)
    creators = [("Tile", "1", "prototrt")] if way == "class" else []
    assert list(fake.get_plugin_registry().creators) == creators


@pytest.mark.parametrize(("version", "knows"), [("10.8.0.43", True), ("10.9.0.34", False)])
def test_an_engine_is_loaded_when_the_plugin_is_known(tmp_path: Path, version: str, knows: bool) -> None:
    graph, device, trt = graph_of(tmp_path), FakeDevice(), FakeTensorRT(version)
    loading = fake_tensorrt(graph, device)
    seen = []

    def deserialize(plan: bytes) -> Any:
        seen.extend(trt.get_plugin_registry().creators)
        return loading.Runtime(None).deserialize_cuda_engine(plan)

    trt.Runtime = lambda logger: SimpleNamespace(deserialize_cuda_engine=deserialize)
    trt.__dict__.update({dtype.value: dtype.value for dtype in DType})  # as the engine names them
    backend = Backend("enterprise", trt)  # type: ignore[arg-type]  # as good as a module
    Engine(backend, b"plan", device, Signature.of_graph(graph))
    assert bool(seen) == knows

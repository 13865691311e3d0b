"""A plugin in C++, built against TensorRT's headers: prototrt's fields reach it, its shapes and numbers return."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.plugins.fake_tensorrt import Kind
from prototrt.tests.plugins.test_user_plugin import fake_with_networks
from prototrt.tests.small_nets import failure, numbers
from prototrt.tests.test_cpp_sample import CUDA, TENSORRT, WARNINGS, compiler_with

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "swirl" type: "Swirl" bottom: "x" top: "y" top: "sums"
  swirl_param { angle: 2 mode: FAST centers: [0.5, 1] deep { size: 4 } }
  blobs { shape { dim: 3 } data: 1 data: 2 data: 3 }
}
"""
SUMS = "x.sum(1, keepdims=True) * np.arange(1, fields['deep_size'] + 1)"
RULES = f"""
import numpy as np
from prototrt.surgery.rules import plugin_rule


@plugin_rule("Swirl")
def swirl(fields, x, offset):
    return [x * fields["angle"] + offset + sum(fields["centers"]), {SUMS}]
"""
TYPES = ("FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "CHAR")
"""The names of PluginFieldType, by number."""
OFFSET = np.array([1, 2, 3], np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The plugin, and a registry in the place of TensorRT's."""
    if not TENSORRT.exists():
        pytest.skip("there are no headers of TensorRT; TENSORRT_INCLUDE_DIR names their folder")
    command = [compiler_with("cuda_runtime_api.h"), "-std=c++17", *WARNINGS, "-shared", "-fPIC"]
    command += ["-isystem", str(TENSORRT), "-isystem", str(CUDA)]
    target = tmp_path_factory.mktemp("plugin") / "libswirl.so"
    folder = ROOT / "tests" / "plugins"
    sources = [str(folder / name) for name in ("swirl_plugin.cpp", "registry_stub.cpp")]
    subprocess.run([*command, *sources, "-o", str(target)], check=True)
    loaded = ctypes.CDLL(str(target))
    for name in ("creator_name", "creator_version", "creator_namespace", "field_name"):
        getattr(loaded, name).restype = ctypes.c_char_p
    loaded.create.restype = ctypes.c_void_p
    return loaded


class Plugin:
    """The plugin that the creator made of fields."""

    def __init__(self, library: ctypes.CDLL, fields: Sequence[Any]) -> None:
        self.library = library
        names = (ctypes.c_char_p * len(fields))(*(field.name.encode() for field in fields))
        data = (ctypes.c_void_p * len(fields))(*(field.data.ctypes.data for field in fields))
        types = (ctypes.c_int32 * len(fields))(*(TYPES.index(field.type.name) for field in fields))
        lengths = (ctypes.c_int32 * len(fields))(*(field.data.size for field in fields))
        self.handle = ctypes.c_void_p(library.create(0, b"swirl", len(fields), names, data, types, lengths))

    def get_output_shapes(
        self, inputs: Sequence[Any], shape_inputs: Any, builder: Any
    ) -> list[tuple[int, ...]]:
        dims = [(ctypes.c_int64 * len(shape))(*shape) for shape in inputs]
        pointers = (ctypes.c_void_p * len(dims))(*map(ctypes.addressof, dims))
        ranks = (ctypes.c_int32 * len(dims))(*map(len, inputs))
        result = (ctypes.c_int64 * 32)()
        count, sizes = (
            self.library.output_shapes(self.handle, len(dims), pointers, ranks, result),
            iter(result),
        )
        return [tuple(next(sizes) for _ in range(next(sizes))) for _ in range(count)]

    def run(self, x: Array, offset: Array, tops: Sequence[tuple[int, ...]]) -> list[Array]:
        results = [np.zeros(shape, np.float32) for shape in tops]
        dims = (ctypes.c_int64 * x.ndim)(*x.shape)
        inputs = (ctypes.c_void_p * 2)(x.ctypes.data, offset.ctypes.data)
        outputs = (ctypes.c_void_p * 2)(*(each.ctypes.data for each in results))
        assert self.library.enqueue(self.handle, dims, x.ndim, inputs, outputs) == 0
        return results


@pytest.fixture(autouse=True)
def tensorrt(library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TensorRT whose registry has the creators that the library registered when it was loaded."""
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    fake = fake_with_networks(monkeypatch)

    class Creator(fake.IPluginCreatorV3One):  # type: ignore[misc, name-defined]  # the bindings carry no types
        name = library.creator_name(0).decode()
        plugin_version = library.creator_version(0).decode()
        plugin_namespace = library.creator_namespace(0).decode()

        @property
        def field_names(self) -> list[Any]:
            kind, fields = ctypes.c_int32(), []
            for index in range(library.number_of_fields(0)):
                name = library.field_name(0, index, ctypes.byref(kind)).decode()
                fields.append(fake.PluginField(name, None, Kind(TYPES[kind.value])))
            return fields

        def create_plugin(self, name: str, fields: Sequence[Any], phase: Any) -> Plugin:
            return Plugin(library, fields)

    assert library.number_of_creators() == 1
    fake.get_plugin_registry().register_creator(Creator(), Creator.plugin_namespace)
    return fake


def graph_of(rules: str | None) -> Graph:
    if rules is not None:
        Path("rules.py").write_text(rules)
    file = None if rules is None else "rules.py"
    return prototrt.rewrite(prototrt.load("net.prototxt"), rules=file, plugin={"Swirl": "SwirlPlugin:1:acme"})


def test_it_computes_what_the_rule_says() -> None:
    graph, x = graph_of(RULES), numbers(2, 3)
    definition = network_of(graph, find_backend("enterprise")).definition
    (layer,) = definition.layers
    shapes = [tensor.shape for tensor in layer.tops]
    assert shapes == [(2, 3), (2, 4)]
    y, sums = layer.made.run(x, OFFSET, shapes)
    expected = prototrt.Session(graph).run({"x": x})
    np.testing.assert_allclose(y, expected["y"], rtol=1e-6)
    np.testing.assert_allclose(sums, expected["sums"], rtol=1e-6)


def test_without_a_rule_it_is_asked_for_its_shapes() -> None:
    graph = graph_of(None)
    assert {value.name: value.shape for value in graph.outputs} == {"y": (2, 3), "sums": (2, 4)}
    assert not graph.warnings
    held = pickle.loads(pickle.dumps(graph))
    assert [value.shape for value in held.outputs] == [value.shape for value in graph.outputs]
    (layer,) = network_of(graph, find_backend("enterprise")).definition.layers
    assert [tensor.shape for tensor in layer.tops] == [(2, 3), (2, 4)]


WRONG = {
    "a shape": (
        RULES.replace("['deep_size'] + 1", "['deep_size'] + 2"),
        "the plugin acme::SwirlPlugin makes a top of shape (2, 4), expected (2, 5)\n"
        "  fix: state its shape in a rule: plugin_rule(..., shape=...)",
    ),
    "a field": (
        RULES.replace('plugin_rule("Swirl")', 'plugin_rule("Swirl", fields=lambda _: dict(FIELDS))').replace(
            "\n\n@", '\nFIELDS = {"angle": 2, "twist": 1, "centers": (0,), "deep_size": 4}\n\n@', 1
        ),
        "the plugin acme::SwirlPlugin has no field twist\n"
        "  because its fields are angle, mode, centers, deep_size\n"
        "  fix: make its fields in a rule: plugin_rule(..., fields=...)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_it_states_is_compared_with_the_rule(case: str) -> None:
    rules, message = WRONG[case]
    lowered = partial(network_of, graph_of(rules), find_backend("enterprise"))
    assert failure(lowered, BuildError) == f'net.prototxt:3: layer "swirl" (Swirl): {message}'

"""Layers that a plugin of the user computes: on a registry of ours, as a custom operator, and in NumPy."""

from __future__ import annotations

import ctypes
import pickle
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError, ConversionError, OptionsError
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.surgery.ir import Array, DType, Graph
from prototrt.surgery.ops import Plugin
from prototrt.tests.command_line import done, run
from prototrt.tests.converter.backends.tensorrt.names_in_use import names_in_use
from prototrt.tests.converter.backends.tensorrt.test_api import Listing, missing
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.plugins import fake_tensorrt
from prototrt.tests.plugins.fake_tensorrt import FLOAT, FakeTensorRT, Kind, Tensor
from prototrt.tests.plugins.test_tile_bindings import ENTERPRISE
from prototrt.tests.small_nets import failure, numbers

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "swirl" type: "Swirl" bottom: "x" top: "y" top: "sums"
  swirl_param { angle: 2 mode: FAST centers: [0.5, 1] deep { size: 3 } }
  blobs { shape { dim: 3 } data: 1 data: 2 data: 3 }
}
"""
RULES = """
from prototrt.surgery.rules import plugin_rule


@plugin_rule("Swirl", "SwirlPlugin:1:acme")
def swirl(fields, x, offset):
    return [x * fields["angle"] + offset, x.sum(1)]
"""
AS_FIELD = RULES.replace('"SwirlPlugin:1:acme"', '"SwirlPlugin:1:acme", weights=["offset"]')
OFFSET = np.array([1, 2, 3], np.float32)
FIELDS = {"angle": "FLOAT32", "mode": "CHAR", "centers": "FLOAT32", "deep_size": "INT32", "offset": "FLOAT32"}


def expected(x: Array) -> list[Array]:
    return [x * 2 + OFFSET, x.sum(1)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    Path("rules.py").write_text(RULES)


def graph_of(rules: str | None = RULES, **options: Any) -> Graph:
    if rules is not None:
        Path("rules.py").write_text(rules)
        options["rules"] = "rules.py"
    return prototrt.rewrite(prototrt.load("net.prototxt"), **options)


# ------------------------------------------------------- a TensorRT that knows one plugin, and runs it on the CPU


@dataclass
class Weights:
    dtype: Kind
    pointer: int
    size: int

    @property
    def array(self) -> Array:
        return np.array((ctypes.c_float * self.size).from_address(self.pointer), np.float32)


@dataclass
class ManyTops:
    """A layer of several outputs; ``made`` is the plugin, or the array of a constant."""

    tops: list[Tensor]
    made: Any
    inputs: Sequence[Tensor] = ()
    name: str = ""
    metadata: str = ""

    @property
    def num_outputs(self) -> int:
        return len(self.tops)

    def get_output(self, index: int) -> Tensor:
        return self.tops[index]


class Network(fake_tensorrt.Network):
    """Plugins of any number of inputs and outputs, and constants."""

    made: list[ManyTops]

    def add_constant(self, shape: Sequence[int], weights: Weights) -> ManyTops:
        constant = ManyTops([Tensor("", FLOAT, tuple(shape))], weights.array)
        constant.tops[0].name = f"constant of {weights.array.tolist()}"
        return constant

    def add_plugin_v3(self, inputs: Sequence[Tensor], shape_inputs: Sequence[Tensor], plugin: Any) -> Any:
        shapes = plugin.get_output_shapes([each.shape for each in inputs], [], None)
        self.layers.append(ManyTops([Tensor("", FLOAT, shape) for shape in shapes], plugin, inputs))  # type: ignore[arg-type]  # as the base's layers
        return self.layers[-1]


class SwirlPlugin:
    def __init__(self, fields: dict[str, Any], outputs: int = 2) -> None:
        self.fields, self.outputs = fields, outputs

    def get_output_shapes(self, inputs: Sequence[Any], shape_inputs: Any, expressions: Any) -> list[Any]:
        return [inputs[0], inputs[0][:1]][: self.outputs]

    def run(self, x: Array, *blobs: Array) -> list[Array]:
        (offset,) = blobs or (self.fields["offset"],)
        return [x * self.fields["angle"] + offset, x.sum(1)]


def creator(trt: Any, fields: dict[str, str], outputs: int = 2) -> Any:
    """What a library registers: its fields with their types, and what makes a plugin of them."""

    class SwirlCreator(trt.IPluginCreatorV3One if fields else object):  # type: ignore[misc]  # the bindings carry no types
        name, plugin_version, plugin_namespace = "SwirlPlugin", "1", "acme"

        @property
        def field_names(self) -> list[Any]:
            return [SimpleNamespace(name=name, type=Kind(kind)) for name, kind in fields.items()]

        def create_plugin(self, name: str, values: Sequence[Any], phase: Any) -> SwirlPlugin | None:
            assert [(value.name, value.type.name) for value in values if value.name in fields] == [
                (value.name, fields[value.name]) for value in values
            ]
            return SwirlPlugin({value.name: value.data for value in values}, outputs) if outputs else None

    return SwirlCreator()


def fake_with_networks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TensorRT that takes plugins of users."""
    fake = FakeTensorRT("11.4.0.106")
    fake.Builder = type(
        "Builder", (), {"__init__": lambda self, logger: None, "create_network": lambda *_: Network()}
    )
    fake.PluginFieldType = SimpleNamespace(
        **{name: Kind(name) for name in ("INT32", "FLOAT32", "CHAR", "INT8")}
    )
    fake.Weights, fake.init_libnvinfer_plugins = Weights, lambda logger, namespace: True
    monkeypatch.setitem(sys.modules, "tensorrt", fake)
    return fake


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch) -> Any:
    return fake_with_networks(monkeypatch)


def network(graph: Graph) -> Any:
    return network_of(graph, find_backend("enterprise")).definition


@pytest.mark.parametrize(("rules", "inputs"), [(RULES, 2), (AS_FIELD, 1)])
def test_the_plugin_is_a_layer_with_fields_and_weights(tensorrt: Any, rules: str, inputs: int) -> None:
    fields = FIELDS if inputs == 1 else {name: kind for name, kind in FIELDS.items() if name != "offset"}
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, fields), "acme")
    definition = network(graph_of(rules))
    (layer,) = definition.layers
    assert (layer.name, layer.metadata) == ("swirl" + "#2" * (inputs - 1), "swirl (Swirl), line 3")
    assert [tensor.name for tensor in definition.outputs] == ["sums", "y"]
    values = {name: value.tolist() for name, value in layer.made.fields.items()}
    assert values.pop("offset", None) == (None if inputs == 2 else [1.0, 2.0, 3.0])
    assert values == {"angle": [2.0], "mode": [*b"FAST"], "centers": [0.5, 1.0], "deep_size": [3]}
    assert layer.made.fields["angle"].dtype == np.float32
    assert len(layer.inputs) == inputs
    x = numbers(2, 3)
    for found, value in zip(layer.made.run(x, *[OFFSET] * (inputs - 1)), expected(x), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)


def test_text_ends_with_a_zero_that_is_not_counted(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, FIELDS), "acme")
    (layer,) = network(graph_of(AS_FIELD)).layers
    mode = layer.made.fields["mode"]
    assert ctypes.string_at(mode.ctypes.data) == b"FAST"
    assert mode.size == 4


REFUSALS: dict[str, tuple[dict[str, str] | None, int, str]] = {
    "no such plugin": (
        None,
        2,
        "TensorRT knows no plugin acme::SwirlPlugin of version 1\n  because no plugin is registered\n"
        '  fix: load its library in the file of rules: ctypes.CDLL("libmine.so")',
    ),
    "another kind": (
        {},
        0,
        "the plugin acme::SwirlPlugin is of a kind that TensorRT 11.4.0.106 does not take\n"
        "  because not an IPluginV3\n  fix: make it an IPluginV3",
    ),
    "a creator that refuses": (
        FIELDS,
        0,
        "TensorRT refuses the plugin acme::SwirlPlugin\n  because it gave no reason",
    ),
    "a field that it lacks": (
        {name: kind for name, kind in FIELDS.items() if name != "mode"},
        2,
        "the plugin acme::SwirlPlugin has no field mode\n"
        "  because its fields are angle, centers, deep_size, offset\n"
        "  fix: make its fields in a rule: plugin_rule(..., fields=...)",
    ),
    "a field of another type": (
        {**FIELDS, "centers": "INT32"},
        2,
        "the field centers of the plugin acme::SwirlPlugin is of type INT32, which cannot be (0.5, 1)\n"
        "  fix: make its fields in a rule: plugin_rule(..., fields=...)",
    ),
    "text for a number": (
        {**FIELDS, "mode": "INT8"},
        2,
        "the field mode of the plugin acme::SwirlPlugin is of type INT8, which cannot be 'FAST'\n"
        "  fix: make its fields in a rule: plugin_rule(..., fields=...)",
    ),
    "another number of outputs": (
        FIELDS,
        1,
        "the plugin acme::SwirlPlugin has 1 output, expected 2\n"
        "  fix: give the layer as many tops as its plugin has outputs",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_plugins_that_do_not_suit(tensorrt: Any, case: str) -> None:
    fields, outputs, message = REFUSALS[case]
    if fields is not None:
        tensorrt.get_plugin_registry().register_creator(creator(tensorrt, fields, outputs), "acme")
    graph = graph_of(AS_FIELD)
    found = failure(lambda: network(graph), BuildError)
    assert found == f'net.prototxt:3: layer "swirl" (Swirl): {message}'


def test_another_shape_than_the_rule_says(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, FIELDS), "acme")
    graph = graph_of(AS_FIELD.replace("x.sum(1)", "x.sum(0)"))
    assert failure(lambda: network(graph), BuildError) == (
        'net.prototxt:3: layer "swirl" (Swirl): the plugin acme::SwirlPlugin makes a top of shape (2,), expected (3,)\n'
        "  fix: state its shape in a rule: plugin_rule(..., shape=...)"
    )


def test_another_plugin_is_registered(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, FIELDS), "acme")
    graph = graph_of(plugin={"Swirl": "Swirl:1:acme"})
    assert "  because the registered ones are acme::SwirlPlugin 1\n" in failure(
        lambda: network(graph), BuildError
    )


# ------------------------------------------------------- without a rule, it is asked for its shapes


def ask(trt: Any, graph_options: dict[str, Any] | None = None) -> dict[str, Any]:
    """The shapes of the tops in a net whose layer has neither a rule nor blobs."""
    Path("net.prototxt").write_text(re.sub("blobs {.*}\n", "", NET))
    graph = graph_of(None, plugin={"Swirl": "SwirlPlugin:1:acme"}, **(graph_options or {}))
    warnings = [each.partition("for its shapes (")[2].partition(");")[0] for each in graph.warnings]
    return {"warnings": warnings, **{value.name: value.shape for value in graph.outputs}}


OF_SWIRL = {name: kind for name, kind in FIELDS.items() if name != "offset"}


def test_an_ipluginv3_says_its_shapes(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, OF_SWIRL), "acme")
    assert ask(tensorrt) == {"warnings": [], "y": (2, 3), "sums": (2,)}


def test_an_ipluginv2_says_its_shapes(tensorrt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class DynamicPlugin:
        def __init__(self, fields: Any) -> None:
            self.size = {field.name: field.data for field in fields}["deep_size"]

        def get_output_dimensions(self, index: int, inputs: Sequence[Any], expressions: Any) -> Any:
            return [inputs[0], (inputs[0][0], int(self.size[0]))][index]

    def add_plugin_v2(network: Network, inputs: Sequence[Tensor], plugin: Any) -> ManyTops:
        sizes = [
            plugin.get_output_dimensions(index, [each.shape for each in inputs], None) for index in (0, 1)
        ]
        return ManyTops([Tensor("", FLOAT, shape) for shape in sizes], plugin, inputs)

    monkeypatch.setattr(Network, "add_plugin_v2", add_plugin_v2, raising=False)
    of_v2 = creator(tensorrt, {})  # not an IPluginCreatorV3One
    monkeypatch.setattr(type(of_v2), "create_plugin", lambda self, name, fields: DynamicPlugin(fields))
    tensorrt.get_plugin_registry().register_creator(of_v2, "acme")
    assert ask(tensorrt) == {"warnings": [], "y": (2, 3), "sums": (2, 3)}


def test_shapes_that_depend_on_the_data(tensorrt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwirlPlugin, "get_output_shapes", lambda *_: [(2, 3), (-1,)])
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, OF_SWIRL), "acme")
    assert ask(tensorrt)["warnings"] == ["its shapes depend on the data"]


def test_fields_are_compared_when_it_is_asked(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, {"angle": "FLOAT32"}), "acme")
    assert failure(lambda: ask(tensorrt), BuildError) == (
        'net.prototxt:3: layer "swirl" (Swirl): the plugin acme::SwirlPlugin has no field mode, centers, deep_size\n'
        "  because its fields are angle\n  fix: make its fields in a rule: plugin_rule(..., fields=...)"
    )


def test_outputs_are_counted_when_it_is_asked(tensorrt: Any) -> None:
    tensorrt.get_plugin_registry().register_creator(creator(tensorrt, OF_SWIRL, 1), "acme")
    assert failure(lambda: ask(tensorrt), BuildError) == (
        'net.prototxt:3: layer "swirl" (Swirl): the plugin acme::SwirlPlugin has 1 output, expected 2\n'
        "  fix: give the layer as many tops as its plugin has outputs"
    )


def test_a_plugin_that_is_not_registered_is_not_asked(tensorrt: Any) -> None:
    warning = "TensorRT knows no plugin acme::SwirlPlugin of version 1"
    assert ask(tensorrt) == {"warnings": [warning], "y": (2, 3), "sums": (2, 3)}
    varying = {"shapes": {"x": ("N", 3)}, "sizes": {"N": (1, 2, 4)}}
    assert ask(tensorrt, varying)["warnings"] == ["the shapes of its bottoms vary"]


def test_without_tensorrt_the_shape_of_the_bottom_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    Path("net.prototxt").write_text(NET.replace(' top: "sums"', ""))
    with pytest.warns(prototrt.ConversionWarning) as caught:
        graph = graph_of(None, plugin={"Swirl": "Swirl:1"})
    (warning,) = [str(each.message) for each in caught]
    assert warning == (
        'net.prototxt:3: layer "swirl" (Swirl): each top is taken to have the shape of the first bottom, as the plugin'
        " cannot be asked for its shapes (backend enterprise needs the package tensorrt, which is not installed);"
        " if it has another, state them in the rule, plugin_rule(..., shape=...): docs/plugins.md shows it"
    )
    held = pickle.loads(pickle.dumps(graph))
    assert [value.shape for value in held.outputs] == [(2, 3)]


@pytest.mark.parametrize("listing", ENTERPRISE, ids=str)
def test_the_names_in_use_exist(listing: Listing) -> None:
    uses = names_in_use(ROOT / "plugins" / "user_plugin.py")
    assert {"IPluginCreatorV3One", "init_libnvinfer_plugins"} <= uses.module
    uses.members.discard(("INetworkDefinition", "add_plugin_v2"))  # which it asks for
    assert sorted(missing(uses, listing)) == []


def test_the_primitive_says_which_inputs_are_arrays() -> None:
    (node,) = graph_of(AS_FIELD).nodes
    assert node.op == Plugin("SwirlPlugin", "1", "acme", node.op.fields, 1, 2, ("offset",), node.op.meaning)  # type: ignore[attr-defined]  # a Plugin
    assert node.op.constants == (1,)


@pytest.mark.trt
def test_tensorrt_for_rtx_takes_none() -> None:
    graph = graph_of()
    assert failure(lambda: prototrt.build(graph, "rtx"), BuildError) == (
        'net.prototxt:3: layer "swirl" (Swirl): the plugin acme::SwirlPlugin cannot be used with backend rtx\n'
        "  because TensorRT for RTX does not support plugins\n"
        '  fix: use backend="enterprise", or write an ONNX model'
    )


# ------------------------------------------------------- in NumPy, and as a custom operator


@pytest.mark.parametrize("rules", [RULES, AS_FIELD])
def test_the_reference_computes_what_the_rule_says(rules: str) -> None:
    x, graph = numbers(2, 3), graph_of(rules)
    for held in (graph, pickle.loads(pickle.dumps(graph))):
        found = prototrt.Session(held).run({"x": x})
        np.testing.assert_allclose(found["y"], expected(x)[0], rtol=1e-6)
        np.testing.assert_allclose(found["sums"], expected(x)[1], rtol=1e-6)


@pytest.mark.parametrize(("rules", "inputs"), [(RULES, 2), (AS_FIELD, 1)])
def test_an_operator_of_its_own_domain(rules: str, inputs: int) -> None:
    onnx = pytest.importorskip("onnx")
    manifest = prototrt.export_onnx(graph_of(rules), "net.onnx")
    model = onnx.load("net.onnx")
    (node,) = model.graph.node
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert attributes.pop("offset", None) == (None if inputs == 2 else [1.0, 2.0, 3.0])
    assert attributes == {
        "angle": 2,
        "mode": b"FAST",
        "centers": [0.5, 1.0],
        "deep_size": 3,
        "plugin_version": b"1",
        "plugin_namespace": b"acme",
    }
    assert (node.op_type, node.domain, len(node.input)) == ("SwirlPlugin", "acme", inputs)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17), ("acme", 1)]
    assert manifest["user_plugins"] == [{"name": "SwirlPlugin", "version": "1", "namespace": "acme"}]


def test_a_plugin_without_a_namespace_has_the_usual_domain() -> None:
    onnx = pytest.importorskip("onnx")
    Path("net.prototxt").write_text(NET.replace(' top: "sums"', ""))
    prototrt.export_onnx(graph_of(None, plugin={"Swirl": "Swirl:2"}), "net.onnx", opset=18)
    (node,) = onnx.load("net.onnx").graph.node
    assert (node.op_type, node.domain) == ("Swirl", "trt.plugins")


def test_onnxruntime_cannot_run_it() -> None:
    result = run("verify", "net.prototxt", "--rules", "rules.py", "--on", "onnx")
    assert result.exit_code == 3
    assert (
        "onnxruntime cannot run the plugin acme::SwirlPlugin\n  fix: compute the net in NumPy"
        in result.output
    )


# ------------------------------------------------------- what the user says


def test_the_command_names_a_plugin() -> None:
    Path("net.prototxt").write_text(NET.replace(' top: "sums"', ""))
    result = done("convert", "net.prototxt", "--plugin", "Swirl=Swirl:1:acme", "-o", "net.onnx")
    assert "runs on  TensorRT's trtexec, with --staticPlugins=FILE for the library of Swirl" in result.output
    found = run("inspect", "net.prototxt", "--plugin", "Swirl=Swirl")
    assert '"Swirl=Swirl" names no plugin: write the type of the layers' in found.output


def test_the_option_names_another_plugin_than_the_rule() -> None:
    graph = graph_of(plugin={"Swirl": "Other:3"})
    (node,) = graph.nodes
    assert (node.op.name, node.op.version, node.op.namespace) == ("Other", "3", "")  # type: ignore[attr-defined]  # a Plugin
    x = numbers(2, 3)
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["sums"], x.sum(1), rtol=1e-6)


RULE = "the rule in rules.py:5 fails\n  because {}\n  fix: correct the rule; docs/forks.md shows one"
MISTAKES = {
    "no list": (
        RULES.replace("[x * ", "x * ").replace(", x.sum(1)]", ""),
        RULE.format("it returns ndarray, expected a list of arrays"),
    ),
    "too few": (
        RULES.replace(", x.sum(1)]", "]"),
        RULE.format("it returns 1 of them, but the layer has 2 tops"),
    ),
    "an error": (RULES.replace('"angle"', '"angel"'), RULE.format("KeyError: 'angel'").replace(":5", ":7")),
    "names for other blobs": (
        RULES.replace('acme"', 'acme", weights=["a", "b"]'),
        "the layer has 1 blob, but the rule names 2: a, b\n  fix: name each blob in the weights of the rule",
    ),
    "a shape that is not one": (
        RULES.replace('acme"', 'acme", shape=lambda fields, x, offset: [x]'),
        RULE.format("it returns 1 of them, but the layer has 2 tops"),
    ),
    "fields that no plugin takes": (
        RULES.replace('acme"', 'acme", fields=lambda layer: layer.fields'),
        "the field swirl_param is {'angle': 2, 'mode': 'FAST', 'centers': [0.5, 1], 'deep': {'..., which a plugin does"
        " not take\n  because a plugin takes numbers, lists of numbers, and text\n"
        "  fix: make such fields in the rule, plugin_rule(..., fields=...): docs/plugins.md shows it",
    ),
    "no plugin": (
        RULES.replace(', "SwirlPlugin:1:acme"', ""),
        'no plugin is named for this layer\n  fix: name it: plugin={"Swirl": "Swirl:1"}',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_rules(case: str) -> None:
    rules, message = MISTAKES[case]
    found = failure(lambda: graph_of(rules), ConversionError)
    assert found == f'net.prototxt:3: layer "swirl" (Swirl): {message}'


def test_plugins_that_are_not_named_right() -> None:
    assert failure(lambda: graph_of(None, plugin={"Swirl": "Swirl"}), OptionsError).endswith(
        '"Swirl" is not a plugin: its name, a colon and its version are expected\n'
        '  fix: write it as in plugin={"Swirl": "Swirl:1"}'
    )
    assert failure(lambda: graph_of(None, plugin={"Swrl": "Swirl:1"})) == (
        'net.prototxt: plugin names "Swrl", which is no layer type of the net\n'
        "  fix: name one of its layer types: Swirl"
    )


def test_without_a_rule_only_the_plugin_computes() -> None:
    Path("net.prototxt").write_text(NET.replace(' top: "sums"', ""))
    graph = graph_of(None, plugin={"Swirl": "Swirl:1"})
    assert failure(lambda: prototrt.Session(graph).run({"x": numbers(2, 3)})) == (
        'net.prototxt:3: layer "swirl" (Swirl): only the plugin computes this layer\n'
        "  because no rule says what it means in NumPy\n"
        "  fix: say it in a file of rules, with plugin_rule: docs/plugins.md shows it"
    )


def test_sizes_that_vary_need_the_shape_of_the_rule() -> None:
    shapes = {"x": ("N", 3)}
    found = failure(lambda: graph_of(shapes=shapes, sizes={"N": (1, 2, 4)}))
    assert found == (
        'net.prototxt:3: layer "swirl" (Swirl): the shapes of its tops depend on sizes that vary\n'
        "  fix: state them in the rule, plugin_rule(..., shape=...): docs/plugins.md shows it"
    )
    rules = RULES.replace('acme"', 'acme", shape=lambda fields, x, offset: [x, x[:1]]')
    graph = graph_of(rules, shapes=shapes, sizes={"N": (1, 2, 4)})
    x = numbers(4, 3)
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["y"], expected(x)[0], rtol=1e-6)


def test_one_array_stands_for_a_list_of_one() -> None:
    Path("net.prototxt").write_text(NET.replace(' top: "sums"', ""))
    graph = graph_of(RULES.replace("[x * ", "x * ").replace(", x.sum(1)]", ""))
    x = numbers(2, 3)
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["y"], expected(x)[0], rtol=1e-6)


def test_half_precision_leaves_the_plugin_in_float32() -> None:
    product = """layer { name: "ip" type: "InnerProduct" bottom: "x" top: "h"
      inner_product_param { num_output: 3 bias_term: false } blobs { shape { dim: 3 dim: 3 } DATA } }"""
    first, second = NET.strip().split("\n", 1)
    second = second.replace('bottom: "x"', 'bottom: "h"')
    Path("net.prototxt").write_text("\n".join([first, product.replace("DATA", "data: 1 " * 9), second]))
    graph = graph_of(precision="fp16")
    (node,) = (node for node in graph.nodes if isinstance(node.op, Plugin))
    assert {value.dtype for value in (*node.inputs, *node.outputs)} == {DType.FLOAT32}
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(prototrt.Session(graph).run({"x": x})["y"], 6 + OFFSET * np.ones((2, 1)))


@pytest.mark.slow
def test_the_page_as_it_stands() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    (net,) = re.findall(r"```protobuf\n(.*?)```", page, re.DOTALL)
    (rules,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    Path("net.prototxt").write_text(net)
    Path("plugins.py").write_text(rules)
    x = numbers(2, 3)
    np.savez("in.npz", x=x)
    commands = re.findall(r"^prototrt (.* -o .*)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["convert", "convert", "run"]
    for command in commands:
        done(*command.split())
    np.testing.assert_allclose(np.load("out.npz")["y"], x * 2, rtol=1e-6)

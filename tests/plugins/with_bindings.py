"""The plugin on the bindings in a wheel, without NVIDIA's libraries; test_tile_bindings.py runs this by itself.

    python tests/plugins/with_bindings.py WHEEL

prints as JSON what TensorRT's Python side made of the plugin. What the libraries would do is
left out: the registry is ours, and so are expressions, which know their values.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.plugins.tile import plugin_v3, quick
from prototrt.tests.plugins.fake_tensorrt import Expressions, Registry
from prototrt.tests.tools import list_tensorrt_api

SHAPE, AXIS, COPIES = (2, 3, 100), 1, 7


def main(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trt: Any = list_tensorrt_api._from_wheel(Path(wheel), Path(folder))
        sys.modules["tensorrt"] = trt
        registry = Registry()
        trt.get_plugin_registry = lambda: registry
        told = {"version": trt.__version__, "class": as_a_class(trt)}
        if hasattr(trt, "QuickPluginCreationRequest"):
            told["ahead"] = ahead(trt, registry)
    print(json.dumps(told))


class KnownExpressions:
    """An IExprBuilder whose expressions know their values; ``kind`` is TensorRT's class for them."""

    def __init__(self, trt: Any) -> None:
        self.trt = trt

        class Known(trt.IDimensionExpr):  # type: ignore[misc]  # the bindings carry no types
            value: int

        self.kind = Known

    def constant(self, value: int) -> Any:
        expression = self.kind.__new__(self.kind)  # TensorRT alone can call its __init__
        expression.value = value
        return expression

    def operation(self, kind: Any, first: Any, second: Any) -> Any:
        operations = {
            "PROD": lambda a, b: a * b,
            "SUM": lambda a, b: a + b,
            "CEIL_DIV": lambda a, b: -(-a // b),
        }
        return self.constant(operations[kind.name](first.value, second.value))


def ahead(trt: Any, registry: Registry) -> dict[str, Any]:
    """Define the plugin twice, make it from its fields, and ask it for shapes and kernel, as building does."""
    plugins = importlib.import_module("tensorrt_bindings.plugin")
    quick._defined(plugins)
    definition = quick._defined(plugins)
    ((name, version, namespace),) = registry.creators
    creator = registry.get_creator(name, version, namespace)
    tiling = np.array([AXIS, COPIES], np.int32)
    fields = trt.PluginFieldCollection([trt.PluginField("tiling", tiling, trt.PluginFieldType.INT32)])
    request = trt.QuickPluginCreationRequest.STRICT_AOT
    plugin = creator.create_plugin(name, namespace, fields, trt.TensorRTPhase.BUILD, request)
    types = plugin.get_output_data_types([trt.float16], [len(SHAPE)])
    expressions = KnownExpressions(trt)
    plugins.SymInt32.__mro__[1]._exprBuilder = expressions
    sizes = [plugins.ShapeExpr(expressions.constant(size)) for size in SHAPE]
    x = plugins.TensorDesc(plugins.ShapeExprs.from_tuple(tuple(sizes)), trt.float16)
    tiled = plugin.register_function(x, **plugin.attrs)
    kernel, text, launch, scalars = plugin.aot_impl_function(x, *plugin.attrs.values(), (tiled,), 0)
    return {
        "creator": [name, version, namespace],
        "definition": [definition.num_outputs, definition.input_tensor_names, definition.aot_impl_attr_names],
        "attributes": [int(number) for number in plugin.attrs["tiling"]],
        "types": [kind.name for kind in types],
        "shape": [size._expr.value for size in tiled.shape_expr],
        "kernel": kernel,
        "is_ptx": f".entry {kernel}(" in text,
        "grid": launch.grid_x._expr.value,
        "block": launch.block_x._expr.value,
        "scalars": [scalar._expr.value for scalar in scalars if isinstance(scalar(), trt.ISymExpr)],
    }


def as_a_class(trt: Any) -> dict[str, Any]:
    """Register, make from fields, clone, store, and ask for what building asks for."""
    registry = Registry()
    creator = plugin_v3.register(trt, registry)
    assert plugin_v3.register(trt, registry) is creator
    assert isinstance(creator, trt.IPluginCreatorV3One)
    numbers = plugin_v3._numbers(AXIS, COPIES)
    plugin = creator.create_plugin("Tile", plugin_v3._fields(trt, numbers), trt.TensorRTPhase.BUILD)
    kinds = (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime)
    capabilities = [getattr(trt.PluginCapabilityType, name) for name in ("CORE", "BUILD", "RUNTIME")]
    cloned = plugin.clone()
    trt.DimsExprs = list  # the real one takes expressions that the libraries made, and no others
    (tiled,) = plugin.get_output_shapes([SHAPE], [], Expressions())
    return {
        "creator": [creator.name, creator.plugin_version, creator.plugin_namespace],
        "interfaces": all(isinstance(cloned, kind) for kind in kinds),
        "capabilities": all(cloned.get_capability_interface(kind) is cloned for kind in capabilities),
        "stored": {field.name: int(field.data[0]) for field in cloned.get_fields_to_serialize()},
        "outputs": cloned.num_outputs,
        "types": [kind.name for kind in cloned.get_output_data_types([trt.int32])],
        "shape": tiled,
        "takes": [name for name in ("FLOAT", "HALF", "INT32", "INT8", "BOOL") if takes(trt, cloned, name)],
    }


def takes(trt: Any, plugin: Any, name: str) -> bool:
    tensor, described = trt.DynamicPluginTensorDesc(), trt.PluginTensorDesc()
    described.type, described.format = getattr(trt.DataType, name), trt.TensorFormat.LINEAR
    tensor.desc = described
    return bool(plugin.supports_format_combination(0, [tensor], 1))


if __name__ == "__main__":
    main(sys.argv[1])

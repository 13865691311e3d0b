"""Tile as a plugin class: for TensorRT 10.0 to 10.8, which compile no plugins ahead.

An engine with it calls back into Python, so the process that loads the engine must ``register`` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from prototrt.plugins.tile.kernel import KERNELS, NAME, NAMESPACE, VERSION
from prototrt.plugins.tile.launcher import launcher

Numbers: TypeAlias = dict[str, npt.NDArray[np.int32]]


def register(trt: Any, registry: Any = None) -> Any:
    """The plugin's creator, known to TensorRT from now on. ``trt`` is the module ``tensorrt``.

    To be called before an engine with this plugin is deserialized; more than once does no harm.
    """
    registry = trt.get_plugin_registry() if registry is None else registry
    creator = registry.get_creator(NAME, VERSION, NAMESPACE)
    if creator is None:
        creator = _kept(_creator(trt))
        registry.register_creator(creator, NAMESPACE)
    return creator


_KEPT: list[Any] = []


def _kept(thing: Any) -> Any:
    """The same thing, never freed.

    The registry only points to its creators; and in TensorRT 10.0 memory is damaged when
    Python frees a plugin of several interfaces.
    """
    _KEPT.append(thing)
    return thing


def add_to(definition: Any, trt: Any, x: Any, axis: int, copies: int) -> Any:
    """Add the plugin to a network definition. The layer, or None."""
    numbers = _numbers(axis, copies)
    plugin = register(trt).create_plugin(NAME, _fields(trt, numbers), trt.TensorRTPhase.BUILD)
    return definition.add_plugin_v3([x], [], plugin)


def _numbers(axis: int, copies: int) -> Numbers:
    return {"axis": np.array([axis], np.int32), "copies": np.array([copies], np.int32)}


def _fields(trt: Any, numbers: Numbers) -> Any:
    """What TensorRT stores of the plugin. A field points to its array, and keeps no hold of it.

    One number a field: from a field of several, TensorRT 10.0 gives back the first one repeated.
    """
    kind = trt.PluginFieldType.INT32
    return trt.PluginFieldCollection([trt.PluginField(name, array, kind) for name, array in numbers.items()])


def _creator(trt: Any) -> Any:
    class TileCreator(trt.IPluginCreatorV3One):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = NAME, VERSION, NAMESPACE
            self.field_names = _fields(trt, dict.fromkeys(("axis", "copies"), np.zeros(0, np.int32)))

        def create_plugin(self, name: str, fields: Sequence[Any], phase: Any) -> Any:
            numbers = {field.name: int(field.data[0]) for field in fields}
            return _plugin(trt, numbers["axis"], numbers["copies"])

    return TileCreator()


def _plugin(trt: Any, axis: int, copies: int) -> Any:
    """TensorRT's three interfaces in one object: what the plugin is, how it is built in, and how it runs."""

    class TilePlugin(
        trt.IPluginV3,  # type: ignore[misc]  # the bindings carry no types
        trt.IPluginV3OneCore,  # type: ignore[misc]  # as above
        trt.IPluginV3OneBuild,  # type: ignore[misc]  # as above
        trt.IPluginV3OneRuntime,  # type: ignore[misc]  # as above
    ):
        def __init__(self) -> None:
            trt.IPluginV3.__init__(self)
            trt.IPluginV3OneCore.__init__(self)
            trt.IPluginV3OneBuild.__init__(self)
            trt.IPluginV3OneRuntime.__init__(self)
            self.plugin_name, self.plugin_version, self.plugin_namespace = NAME, VERSION, NAMESPACE
            self.num_outputs = 1
            self.numbers = _numbers(axis, copies)

        def get_capability_interface(self, kind: Any) -> Any:
            return self

        def clone(self) -> Any:
            return _kept(TilePlugin())

        def get_fields_to_serialize(self) -> Any:
            return _fields(trt, self.numbers)

        def get_output_data_types(self, types: Sequence[Any]) -> list[Any]:
            return [types[0]]

        def get_output_shapes(self, inputs: Sequence[Any], shape_inputs: Any, expressions: Any) -> list[Any]:
            tiled = trt.DimsExprs(inputs[0])
            factor = expressions.constant(copies)
            tiled[axis] = expressions.operation(trt.DimensionOperation.PROD, inputs[0][axis], factor)
            return [tiled]

        def supports_format_combination(self, place: int, tensors: Sequence[Any], inputs: int) -> bool:
            tensor, first = tensors[place].desc, tensors[0].desc
            is_supported = tensor.type.name in KERNELS and tensor.format == trt.TensorFormat.LINEAR
            return is_supported and tensor.type == first.type

        def configure_plugin(self, inputs: Any, outputs: Any) -> None:
            pass  # the shapes of each call are used

        def on_shape_change(self, inputs: Any, outputs: Any) -> None:
            pass  # likewise

        def attach_to_context(self, context: Any) -> Any:
            return self.clone()

        def enqueue(
            self,
            input_descriptions: Sequence[Any],
            output_descriptions: Sequence[Any],
            inputs: Sequence[int],
            outputs: Sequence[int],
            workspace: int,
            stream: int,
        ) -> None:
            (x,) = input_descriptions
            shape = tuple(x.dims)
            inner, count = prod(shape[axis:]), prod(shape) * copies
            kernel = KERNELS[x.type.name]
            launcher().tile(kernel, inputs[0], inner, copies, count, outputs[0], stream=stream)

    return _kept(TilePlugin())

"""Lowering of a layer to the user's plugin, which TensorRT's registry knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.wording import Option, Worded, listed, plural
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Layer, Network, Tensor
from prototrt.plugins import user_plugin
from prototrt.surgery.building.plugin_rules import PluginQueryError
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.ops import Plugin
from prototrt.surgery.ops.plugin import FieldValue

_DTYPES = {
    "FLOAT16": np.float16,
    "FLOAT32": np.float32,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
}
"""NumPy's types for those of a plugin's fields; CHAR is text."""


@lowers(Plugin)
def plugin(network: Network, op: Plugin, *inputs: Any) -> list[Tensor]:
    """The layer. Inputs that are fields come as arrays."""
    if network.backend.plugins == "none":
        raise BuildError(
            f"the plugin {op.title} cannot be used with backend {network.backend.name}",
            origin=network.origin,
            because="TensorRT for RTX does not support plugins",
            fix=Worded("use {}, or write an ONNX model", Option("backend", "enterprise")),
        )
    tensors, arrays = list(inputs[: op.tensors]), inputs[op.tensors :]
    creator = _creator_of(network, op)
    fields = _fields(network, op, creator, dict(zip(op.array_fields, arrays, strict=True)))
    layer = network.register(_layer(network, op, creator, fields, tensors))
    tops = [layer.get_output(index) for index in range(layer.num_outputs)]
    _refuse_other_tops(network, op, tops)
    return tops


def shapes_from_plugin(op: Plugin, inputs: Sequence[Sequence[int]]) -> list[Shape]:
    """The shapes of the tops that the plugin states for these bottoms, before the rest of the net is made.

    TensorRT asks it, in a network that holds nothing else: Python may not call these methods of a plugin in C++.
    Raises ``PluginQueryError`` where that is not possible.
    """
    try:
        network = Network(find_backend("enterprise"))
    except BuildError as error:
        raise PluginQueryError(error.problem) from error
    creator = user_plugin.creator_of(network.trt, network.logger, op.name, op.version, op.namespace)
    if creator is None:
        raise PluginQueryError(f"TensorRT knows no plugin {op.title} of version {op.version}")
    definition, kind = network.definition, network.trt.float32
    tensors = [definition.add_input(f"input {index}", kind, shape) for index, shape in enumerate(inputs)]
    layer = _layer(network, op, creator, _fields(network, op, creator, {}), tensors)
    tops = [tuple(layer.get_output(index).shape) for index in range(layer.num_outputs)]
    _refuse_count(network, op, len(tops), op.outputs)
    if any(size < 0 for top in tops for size in top):
        raise PluginQueryError("its shapes depend on the data")
    return tops


def _creator_of(network: Network, op: Plugin) -> Any:
    creator = user_plugin.creator_of(network.trt, network.logger, op.name, op.version, op.namespace)
    if creator is not None:
        return creator
    names = user_plugin.registered_plugins(network.trt)
    raise BuildError(
        f"TensorRT knows no plugin {op.title} of version {op.version}",
        origin=network.origin,
        because=Worded("the registered ones are {}", listed(names)) if names else "no plugin is registered",
        fix='load its library in the file of rules: ctypes.CDLL("libmine.so")',
    )


def _layer(network: Network, op: Plugin, creator: Any, fields: Any, tensors: list[Tensor]) -> Layer:
    try:
        layer = user_plugin.add_to(network.definition, network.trt, creator, op.name, fields, tensors)
    except TypeError as error:
        raise BuildError(
            f"the plugin {op.title} is of a kind that TensorRT {network.backend.version} does not take",
            origin=network.origin,
            because=str(error),
            fix="make it an IPluginV3",
        ) from error
    if layer is None:
        raise network.error(f"refuses the plugin {op.title}")
    return layer


def _fields(network: Network, op: Plugin, creator: Any, arrays: Mapping[str, Array]) -> Any:
    """The fields, in the types that the creator states. TensorRT keeps pointers: the arrays must live on."""
    trt = network.trt
    types = user_plugin.types_of_fields(creator)
    values: dict[str, FieldValue | Array] = {**dict(op.fields), **arrays}
    if strange := [name for name in values if types and name not in types]:
        raise BuildError(
            f"the plugin {op.title} has no field {', '.join(strange)}",
            origin=network.origin,
            because=f"its fields are {', '.join(types)}",
            fix="make its fields in a rule: plugin_rule(..., fields=...)",
        )
    kept = []
    for name, value in values.items():
        kind = types.get(name) or _usual_type(value)
        kept.append(
            trt.PluginField(name, _array(network, op, name, value, kind), getattr(trt.PluginFieldType, kind))
        )
    return trt.PluginFieldCollection(kept)


def _usual_type(value: FieldValue | Array) -> str:
    if isinstance(value, str):
        return "CHAR"
    return "INT32" if np.asarray(value).dtype.kind in "bi" else "FLOAT32"


def _array(network: Network, op: Plugin, name: str, value: FieldValue | Array, kind: str) -> Array:
    """The numbers of a field. Raises ``BuildError`` if its type cannot hold them."""
    is_text, array = isinstance(value, str), None
    if is_text and kind == "CHAR":
        array = np.frombuffer(str(value).encode() + b"\0", np.int8)[:-1]  # C reads up to the zero
    elif not is_text and kind in _DTYPES:
        numbers = np.atleast_1d(np.asarray(value))
        array = np.ascontiguousarray(numbers, _DTYPES[kind])
        if np.dtype(_DTYPES[kind]).kind == "i" and not np.array_equal(array, numbers):
            array = None
    if array is None:
        raise BuildError(
            f"the field {name} of the plugin {op.title} is of type {kind}, which cannot be {value!r}",
            origin=network.origin,
            fix="make its fields in a rule: plugin_rule(..., fields=...)",
        )
    network.keep(array)
    return array


def _refuse_other_tops(network: Network, op: Plugin, tops: list[Tensor]) -> None:
    assert network.node is not None
    values = network.node.outputs
    _refuse_count(network, op, len(tops), len(values))
    for value, top in zip(values, tops, strict=True):
        if not _is_shape(tuple(top.shape), value.shape):
            raise BuildError(
                f"the plugin {op.title} makes a top of shape {tuple(top.shape)}, expected {value.shape}",
                origin=network.origin,
                fix="state its shape in a rule: plugin_rule(..., shape=...)",
            )


def _refuse_count(network: Network, op: Plugin, count: int, expected: int) -> None:
    if count != expected:
        raise BuildError(
            f"the plugin {op.title} has {plural(count, 'output')}, expected {expected}",
            origin=network.origin,
            fix="give the layer as many tops as its plugin has outputs",
        )


def _is_shape(sizes: tuple[int, ...], shape: Shape) -> bool:
    """Whether a tensor may have this shape; a size that varies is -1 in TensorRT."""
    return len(sizes) == len(shape) and all(
        size in (-1, dim) or not isinstance(dim, int) for size, dim in zip(sizes, shape, strict=True)
    )

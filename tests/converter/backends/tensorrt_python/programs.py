"""Programs that are run, and networks of TensorRT as plain values, to be compared."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt.converter.backends.readback.network_layers import NetworkLayer, read_layers
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.converter.backends.tensorrt.builder import network_of
from prototrt.surgery.ir import Graph

Read = list[tuple[Any, ...]]
"""Inputs, outputs and layers of a network, with their names and everything else that TensorRT tells of them."""


def ours(graph: Graph, backend: Backend | None = None) -> Read:
    network = network_of(graph, backend or find_backend())
    return read(network.trt, network.definition)


def of_program(graph: Graph, folder: Path) -> Read:
    """The network of the program that is written for a graph: the file is run as any program is."""
    prototrt.export_tensorrt_python(graph, folder / "build.py")
    return of_file(folder / "build.py")


def of_file(path: Path) -> Read:
    names, backend = runpy.run_path(str(path)), find_backend()
    builder = backend.builder(backend.trt.Logger(backend.trt.Logger.ERROR))
    definition = builder.create_network(backend.network_flags())
    weights = names["read_weights"]()
    names["fill"](definition, weights)
    return read(backend.trt, definition)


def read(trt: Any, definition: Any) -> Read:
    inputs = [_tensor(definition.get_input(place)) for place in range(definition.num_inputs)]
    outputs = [_tensor(definition.get_output(place)) for place in range(definition.num_outputs)]
    layers = [
        (each.type, each.inputs, *_outputs(each), _attributes(trt, each))
        for each in read_layers(trt, definition)
    ]
    return [*inputs, *outputs, *layers]


def _tensor(tensor: Any) -> tuple[Any, ...]:
    return tensor.name, tensor.dtype.name, tuple(tensor.shape)


def _outputs(layer: NetworkLayer) -> list[tuple[Any, ...]]:
    return [_tensor(layer.layer.get_output(place)) for place in range(layer.layer.num_outputs)]


def _attributes(trt: Any, layer: NetworkLayer) -> dict[str, Any]:
    """All that can be read of a layer: name, metadata, weights, windows, modes."""
    found = {}
    for name in dir(type(layer.layer)):
        if isinstance(getattr(type(layer.layer), name), property):
            try:
                found[name] = _plain(trt, getattr(layer.layer, name))
            except (
                RuntimeError,
                TypeError,
                ValueError,
            ) as error:  # an attribute that this layer does not have
                found[name] = type(error).__name__
    return found


def _plain(trt: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, trt.Weights):
        return value.dtype.name, value.size
    if isinstance(value, trt.Dims | trt.Permutation | tuple | list):
        return tuple(map(float, value))
    if isinstance(value, trt.ILoop):
        return value.name
    return value if isinstance(value, int | float | str) or value is None else str(value)

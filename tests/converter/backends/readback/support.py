"""Building small networks, evaluating them, and comparing them with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest

from prototrt.converter.backends.readback import NetworkInterpreter
from prototrt.converter.backends.readback.registry import Array

trt: Any = pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")

Network: TypeAlias = Any  # TensorRT's bindings carry no types
Layer: TypeAlias = Any
ITensor: TypeAlias = Any

_LOGGER = trt.Logger(trt.Logger.ERROR)
_BUILDER = trt.Builder(_LOGGER)

_TYPES = {
    "bool": "BOOL",
    "float16": "HALF",
    "float32": "FLOAT",
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
}


def new_network() -> Network:
    return _BUILDER.create_network(0)


def add_input(network: Network, name: str, like: Array, shape: Sequence[int] | None = None) -> ITensor:
    dtype = getattr(trt.DataType, _TYPES[like.dtype.name])
    return network.add_input(name, dtype, like.shape if shape is None else shape)


def add_constant(network: Network, value: Any, dtype: Any = np.int32) -> ITensor:
    array = np.array(value, dtype, order="C")
    return network.add_constant(array.shape, array).get_output(0)


def mark_output(network: Network, tensor: ITensor, name: str) -> None:
    tensor.name = name
    network.mark_output(tensor)


def evaluate(network: Network, **feeds: Array) -> dict[str, Array]:
    return NetworkInterpreter(trt, network).run(feeds)


def run_layer(add: Callable[..., Layer], *arrays: Array) -> list[Array]:
    """All outputs of the layer that ``add(network, tensor, ...)`` adds to a network with these inputs."""
    network = new_network()
    feeds = {f"input{i}": array for i, array in enumerate(arrays)}
    layer = add(network, *(add_input(network, name, array) for name, array in feeds.items()))
    names = [f"output{i}" for i in range(layer.num_outputs)]
    for i, name in enumerate(names):
        mark_output(network, layer.get_output(i), name)
    outputs = evaluate(network, **feeds)
    return [outputs[name] for name in names]


def floats(values: Any) -> Array:
    return np.array(values, np.float32)


def assert_close(found: Array, expected: Any) -> None:
    """The same sum of float32 numbers in another order differs by one part in 10^6 or so."""
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)


@dataclass(frozen=True)
class Case:
    """One ONNX node. ``constants`` are its inputs from that position on, which are not fed."""

    operator: str
    inputs: Sequence[Array | None]
    constants: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    note: str = ""
    opset: int = 18

    def __str__(self) -> str:
        return f"{self.operator}-{self.note}" if self.note else self.operator


def model_of(case: Case) -> bytes:
    pytest.importorskip("onnx", reason="makes the model")
    from onnx import helper, numpy_helper, shape_inference

    arrays = [*case.inputs, *case.constants]
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    fed = [(name, x) for name, x in zip(names, case.inputs, strict=False) if x is not None]
    kept = [(n, x) for n, x in zip(names[len(case.inputs) :], case.constants, strict=True) if x is not None]
    outputs = [f"y{i}" for i in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.operator, names, outputs, **case.attributes)],
        "graph",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in fed
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in kept],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
    # TensorRT's parser needs the types of the outputs.
    return bytes(shape_inference.infer_shapes(model).SerializeToString())


def parsed(model: bytes) -> Network:
    """The network that TensorRT's own parser makes from an ONNX model."""
    network = new_network()
    parser = trt.OnnxParser(network, _LOGGER)
    assert parser.parse(model), [parser.get_error(i).desc() for i in range(parser.num_errors)]
    return network


def from_onnxruntime(model: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="gives the expected numbers")

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, dict(feeds))]


def assert_like_onnxruntime(case: Case) -> None:
    model = model_of(case)
    feeds = {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None}
    found = list(evaluate(parsed(model), **feeds).values())
    expected = from_onnxruntime(model, feeds)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert_close(ours, theirs)

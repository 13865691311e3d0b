"""onnx's checker on a model of any size.

The time of shape inference grows with the number of loops times the number of values in their scope. So a large model
is inferred in parts: the types that one part gives are those that the next one starts from, as within one model.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.onnx.api import import_package
from prototrt.converter.backends.onnx.model import Proto

PART = 500
"""Nodes that are inferred together."""


def check_model(model: Proto) -> None:
    """Raise ``BuildError`` unless every type and shape that onnx infers equals the one that the model states."""
    checker, inference = import_package("onnx.checker"), import_package("onnx.shape_inference")
    try:
        checker.check_model(model)
        _infer(model)
    except (checker.ValidationError, inference.InferenceError) as error:
        raise BuildError("onnx's checker refuses the model", because=str(error)) from error


def _infer(model: Proto) -> None:
    """What ``check_model(model, full_check=True)`` infers."""
    inference, graph = import_package("onnx.shape_inference"), model.graph
    types = {info.name: info for info in (*graph.input, *graph.value_info, *graph.output)}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    results = {info.name for info in graph.output}
    for start in range(0, len(graph.node), PART):
        part = _part(model, graph.node[start : start + PART], types, constants, results)
        inferred = inference.infer_shapes(part, check_type=True, strict_mode=True)
        types |= {info.name: info for info in inferred.graph.value_info}


def _part(
    model: Proto,
    nodes: Sequence[Proto],
    types: Mapping[str, Proto],
    constants: Mapping[str, Proto],
    results: Container[str],
) -> Proto:
    """A model of some nodes: its inputs are what they read of the others, and every type that is known is stated."""
    part = import_package("onnx").ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    written = dict.fromkeys(name for node in nodes for name in node.output)
    read = [name for name in dict.fromkeys(_read_by(nodes)) if name not in written]
    part.graph.name = model.graph.name
    part.graph.node.extend(nodes)
    part.graph.initializer.extend(constants[name] for name in read if name in constants)
    part.graph.input.extend(types[name] for name in read if name in types and name not in constants)
    for name in written:
        if name in types:
            (part.graph.output if name in results else part.graph.value_info).append(types[name])
    return part


def _read_by(nodes: Sequence[Proto]) -> Iterator[str]:
    """The names that nodes read, and those in their bodies, which may be of values outside."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _read_by(attribute.g.node)

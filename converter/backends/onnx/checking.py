"""What others say of a model before it is written: onnx's checker, and the programs that it is written for.

The checker takes a model of any size. The time of shape inference grows with the number of loops times the number of
values in their scope. So a large model is inferred in parts: the types that one part gives are those that the next one
starts from, as within one model.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from prototrt.caffe_proto.common.errors import BuildError, Origin, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.onnx.api import import_package
from prototrt.converter.backends.onnx.model import OnnxModel, Proto
from prototrt.converter.backends.onnx.opset import graphs_in, types_in
from prototrt.converter.files.readers.names import ReaderName
from prototrt.converter.files.readers.reader import ModelReader, reader_named

PART = 500
"""Nodes that are inferred together."""
_TYPED_INPUT = {"Where": 1}
"""The input whose type a table is about, where that is not the first."""
_FIX = Worded("cut the net before this layer with {}", Option("outputs", ["BLOB"]))


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


def refuse_unread(model: Proto, written: OnnxModel, readers: Sequence[ReaderName]) -> None:
    """Raise ``UnsupportedLayerError`` for each layer with an operator that one of the programs does not take."""
    types = types_in(model) if readers else {}
    for reader in map(reader_named, readers):
        raise_all([*_unread_operators(model.graph, types, written, reader), *_unread_outputs(model, reader)])


def _unread_operators(
    graph: Proto, types: Mapping[str, str], written: OnnxModel, reader: ModelReader
) -> Iterator[UnsupportedLayerError]:
    reasons: dict[tuple[Origin | None, str], str] = {}
    for node in (node for each in graphs_in(graph) for node in each.node):
        reason = _why_not(node, types, written, reader)
        if reason is not None:
            reasons.setdefault((written.origins.get(node.name), node.op_type), reason)
    for (origin, operator), reason in reasons.items():
        problem = f"needs {operator}, which {reader.program} does not take"
        yield UnsupportedLayerError(problem, origin=origin, because=reason, fix=_FIX)


def _why_not(node: Proto, types: Mapping[str, str], written: OnnxModel, reader: ModelReader) -> str | None:
    kinds = [types[name] for name in node.input[_TYPED_INPUT.get(node.op_type, 0) :][:1] if name in types]
    if reason := reader.why_not(node.op_type, kinds):
        return reason
    if any(node.input[place] not in written.weights for place in reader.constants.get(node.op_type, ())):
        return f"it takes only constant weights and numbers there: {reader.source}"
    windows = [len(each.ints) for each in node.attribute if each.name == "kernel_shape"]
    if node.op_type in reader.axes and not {*windows} <= {*reader.axes[node.op_type]}:
        return f"it takes only images of 2 or 3 axes: {reader.source}"
    return None


def _unread_outputs(model: Proto, reader: ModelReader) -> Iterator[UnsupportedLayerError]:
    for output in model.graph.output:
        if not reader.has_rank_0 and not output.type.tensor_type.shape.dim:
            yield UnsupportedLayerError(
                f"is a single number without axes, which {reader.program} does not return",
                blob=f'output "{output.name}"',
                fix=_FIX,
            )

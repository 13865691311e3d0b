"""What an opset has: the file format that came with it, and the types that its operators read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prototrt.caffe_proto.common.errors import OptionsError, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.onnx.api import imported
from prototrt.converter.onnx.model import OnnxModel, Proto, opset_error


def refuse_unknown_opset(opset: int) -> None:
    """Raise ``OptionsError`` for an opset that the installed onnx does not have."""
    newest = imported("onnx.defs").onnx_opset_version()
    if opset > newest:
        raise OptionsError(
            Worded("{} is newer than the installed onnx, which has up to {}", Option("opset", opset), newest),
            fix=Worded("use {}, or: {}", Option("opset", newest), pip_install("onnx")),
        )


def ir_version_of(opset: int) -> int:
    """The oldest file format that may hold this opset: what reads the one reads the other."""
    helper = imported("onnx.helper")
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def refuse_unknown_types(model: Proto, written: OnnxModel) -> None:
    """Raise ``UnsupportedLayerError`` for each layer with an operator that does not read its types in this opset."""
    inferred = imported("onnx.shape_inference").infer_shapes(model)
    names = {number: name for name, number in imported("onnx").TensorProto.DataType.items()}
    types = {
        item.name: f"tensor({names[item.type.tensor_type.elem_type].lower()})"
        for graph in _graphs(inferred.graph)
        for item in (*graph.input, *graph.output, *graph.value_info)
    }
    raise_all(list(_errors(inferred.graph, types, written)))


def _errors(graph: Proto, types: Mapping[str, str], written: OnnxModel) -> Iterator[UnsupportedLayerError]:
    for node in (node for each in _graphs(graph) for node in each.node):
        kinds = [types.get(name) for name in node.input]
        lowest = _first_opset(node.op_type, kinds, written.opset)
        if lowest != written.opset:
            what = f"{node.op_type} of {', '.join(sorted({kind for kind in kinds if kind}))}"
            yield opset_error(written.opset, lowest, what, written.origins.get(node.name))


def _graphs(graph: Proto) -> Iterator[Proto]:
    """A graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _first_opset(operator: str, types: list[str | None], opset: int) -> int:
    """The first opset from this one on in which the operator reads these types."""
    defs = imported("onnx.defs")
    newest: int = defs.onnx_opset_version()
    for candidate in range(opset, newest + 1):
        schema = defs.get_schema(operator, candidate)
        last = len(schema.inputs) - 1
        allowed = [schema.inputs[min(place, last)].types for place in range(len(types))]
        if all(kind is None or kind in each for kind, each in zip(types, allowed, strict=True)):
            return candidate
    return newest

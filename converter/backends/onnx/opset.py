"""What an opset has: the file format that came with it, and the types that its operators read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prototrt.caffe_proto.common.errors import BuildError, OptionsError, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.onnx.api import ELEMENT_TYPES, default_opset, import_package
from prototrt.converter.backends.onnx.model import OnnxModel, Proto, opset_error
from prototrt.converter.files.readers.reader import reader_named
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import DType, Graph


def opset_for(graph: Graph, exporting: ExportOptions) -> int:
    """The opset that was asked for, or the default, but not above what the model's readers have.

    Raises ``OptionsError`` for one that the installed onnx, or a reader, does not have, and ``BuildError`` if the
    default is one.
    """
    readers = [*map(reader_named, exporting.readers)]
    newest: int = import_package("onnx.defs").onnx_opset_version()
    if exporting.opset is None:
        opset = min((default_opset(graph), *(reader.opset for reader in readers)))
        if opset > newest:
            raise BuildError(
                f"the model needs opset {opset}, and the installed onnx has up to {newest}",
                fix="pip install --upgrade onnx",
            )
        return opset
    installs = Worded("use {}, or: {}", Option("opset", newest), pip_install("onnx"))
    _refuse_newer(exporting.opset, newest, "the installed onnx", installs)
    for reader in readers:
        leave_out = Worded("leave it out, or use {}", Option("opset", reader.opset))
        _refuse_newer(exporting.opset, reader.opset, reader.program, leave_out)
    return exporting.opset


def _refuse_newer(opset: int, newest: int, program: str, fix: Worded) -> None:
    if opset > newest:
        raise OptionsError(
            Worded("{} is newer than {}, which has up to {}", Option("opset", opset), program, newest),
            fix=fix,
        )


def ir_version_of(opset: int) -> int:
    """The oldest file format that may hold this opset: what reads the one reads the other."""
    helper = import_package("onnx.helper")
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def refuse_unknown_types(model: Proto, written: OnnxModel) -> None:
    """Raise ``UnsupportedLayerError`` for each layer with an operator that does not read its types in this opset."""
    types = {
        name: f"tensor({'float' if kind == 'float32' else kind})" for name, kind in types_in(model).items()
    }
    raise_all(list(_errors(model.graph, types, written)))


def types_in(model: Proto) -> dict[str, str]:
    """The types of the values in a model and in its bodies, as ``float32``, by name."""
    inferred = import_package("onnx.shape_inference").infer_shapes(model)
    names = {number: name.lower() for name, number in import_package("onnx").TensorProto.DataType.items()}
    names[ELEMENT_TYPES[DType.FLOAT32]] = "float32"
    return {
        item.name: names[item.type.tensor_type.elem_type]
        for graph in graphs_in(inferred.graph)
        for item in (*graph.input, *graph.output, *graph.value_info)
    }


def _errors(graph: Proto, types: Mapping[str, str], written: OnnxModel) -> Iterator[UnsupportedLayerError]:
    for node in (node for each in graphs_in(graph) for node in each.node if not node.domain):
        kinds = [types.get(name) for name in node.input]
        lowest = _first_opset(node.op_type, kinds, written.opset)
        if lowest != written.opset:
            what = f"{node.op_type} of {', '.join(sorted({kind for kind in kinds if kind}))}"
            yield opset_error(written.opset, lowest, what, written.origins.get(node.name))


def graphs_in(graph: Proto) -> Iterator[Proto]:
    """A graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_in(attribute.g)


def _first_opset(operator: str, types: list[str | None], opset: int) -> int:
    defs = import_package("onnx.defs")
    newest: int = defs.onnx_opset_version()
    for candidate in range(opset, newest + 1):
        schema = defs.get_schema(operator, candidate)
        last = len(schema.inputs) - 1
        allowed = [schema.inputs[min(place, last)].types for place in range(len(types))]
        if all(kind is None or kind in each for kind, each in zip(types, allowed, strict=True)):
            return candidate
    return newest

"""Whether a program reads a model, asked before the model is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prototrt.caffe_proto.common.errors import Origin, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.onnx.model import OnnxModel, Proto
from prototrt.converter.backends.onnx.opset import graphs_in, types_in
from prototrt.converter.files.readers.names import ReaderName
from prototrt.converter.files.readers.reader import ModelReader, reader_named

_TYPED_INPUT = {"Where": 1}
"""The input whose type a table is about, where that is not the first."""
_FIX = Worded("cut the net before this layer with {}", Option("outputs", ["BLOB"]))


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

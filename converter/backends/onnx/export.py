"""A Graph becomes an ONNX file and its manifest."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.options import refuse_other
from prototrt.converter.backends.onnx.api import element_type, import_package
from prototrt.converter.backends.onnx.checking import check_model, refuse_unread
from prototrt.converter.backends.onnx.file import write_model
from prototrt.converter.backends.onnx.lowering import lower
from prototrt.converter.backends.onnx.model import OnnxModel, Proto
from prototrt.converter.backends.onnx.opset import ir_version_of, opset_for, refuse_unknown_types
from prototrt.converter.files.companions.manifest import describe, graph_facts, refuse_changed_files
from prototrt.converter.files.readers.names import ReaderName
from prototrt.converter.files.writing.publication import publication
from prototrt.converter.files.writing.side_files import refuse_foreign
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import Graph
from prototrt.surgery.pipeline import LOWERINGS, lowered

_INLINE = 1 << 10
"""Bytes of an initializer that the checker sees: shape inference reads small vectors, not weights."""


def export_onnx(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    onnx_lstm: bool = ExportOptions.onnx_lstm,
    opset: int | None = ExportOptions.opset,
    readers: Sequence[ReaderName] = (),
    notes: Mapping[str, Any] | None = None,
    header: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write a graph as an ONNX model, and its manifest as ``PATH.json``; return the manifest.

    ``onnx_lstm`` writes an LSTM operator where a recurrence is exactly that. ``opset`` is 11 or newer; by default
    the oldest that the types of the graph need, but not below 17. ``readers`` are the programs that it is written for,
    and refused if one does not read it. ``notes`` are added to the manifest. ``header`` is
    a file for constants of C++ with its content. More than 1 GiB of weights go to ``PATH.data``. Raises
    ``BuildError`` where onnx is not installed or its checker refuses the model, and ``UnsupportedLayerError`` for what
    an older opset does not have.
    """
    refuse_other("export_onnx", graph, Graph)
    exporting = ExportOptions(onnx_lstm=onnx_lstm, opset=opset, readers=readers)
    return write_onnx(graph, path, exporting, notes, header)


def write_onnx(
    graph: Graph,
    path: str | os.PathLike[str],
    exporting: ExportOptions,
    notes: Mapping[str, Any] | None = None,
    header: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """``export_onnx`` with the options as one object."""
    refuse_foreign("path", os.fspath(path))
    # The files are hashed while the model is written.
    with ThreadPoolExecutor(1) as background:
        facts = background.submit(graph_facts, graph)
        model, weights = checked_onnx_from_graph(graph, exporting)
        with publication(path) as files:
            write_model(files, path, model, weights.weights)
            refuse_changed_files(graph)
            counts = {"opset": model.opset_import[0].version, "nodes": len(model.graph.node)}
            if exporting.onnx_lstm:
                counts |= _recurrences(model.graph)
            nodes = {"nodes": weights.primitives}
            manifest = {**facts.result(), **nodes, "onnx": counts, **(notes or {})}
            manifest = describe(files, path, manifest, header)
    return manifest


def _recurrences(graph: Proto) -> dict[str, int]:
    """How many recurrences are ONNX's operators, and how many are not. Stretches of one share its weights R."""
    operators = {node.input[2] for node in graph.node if node.op_type in ("GRU", "LSTM", "RNN")}
    return {
        "recurrent_operators": len(operators),
        "scans": sum(node.op_type == "Scan" for node in graph.node),
    }


def checked_onnx_from_graph(graph: Graph, exporting: ExportOptions) -> tuple[Proto, OnnxModel]:
    """``onnx_from_graph`` that no checker, and no program that the model is for, refuses."""
    model, weights = onnx_from_graph(graph, exporting)
    _check(model, weights, exporting)
    return model, weights


def onnx_from_graph(graph: Graph, exporting: ExportOptions) -> tuple[Proto, OnnxModel]:
    """The model without its initializers, and what holds them."""
    prepared = lowered(graph, _backend(exporting))
    written = lower(prepared, opset_for(prepared, exporting))
    helper = written.helper
    results = {*prepared.outputs}
    values = [value for node in prepared.nodes for value in node.outputs if value not in results]
    body = helper.make_graph(
        written.nodes,
        prepared.name or "net",
        [written.info(value) for value in prepared.inputs],
        [written.info(value) for value in prepared.outputs],
        value_info=[written.info(value) for value in values],
    )
    model = helper.make_model(
        body,
        opset_imports=[
            helper.make_opsetid("", written.opset),
            *(helper.make_opsetid(domain, 1) for domain in sorted(written.domains)),
        ],
        ir_version=ir_version_of(written.opset),
        producer_name="prototrt",
        producer_version=__version__,
    )
    notes = {f"recurrence {pair.input.name}": pair.output.name for pair in prepared.recurrences}
    if prepared.stream is not None:
        notes["stream"] = json.dumps(asdict(prepared.stream))
    helper.set_model_props(model, notes)
    return model, written


@contextmanager
def temporary_model(graph: Graph, exporting: ExportOptions) -> Iterator[Path]:
    """The file of a model that no checker has seen, within the block."""
    model, written = onnx_from_graph(graph, exporting)
    with tempfile.TemporaryDirectory(prefix="prototrt-") as folder:
        path = Path(folder) / "model.onnx"
        with publication(path, durable=False) as files:
            write_model(files, path, model, written.weights)
        yield path


def _backend(exporting: ExportOptions) -> str:
    """The list of passes for a model: a program of its own has one of its own."""
    for reader in exporting.readers:
        if f"onnx-{reader}" in LOWERINGS:
            return f"onnx-{reader}"
    return "onnx-lstm" if exporting.onnx_lstm else "onnx"


def _check(model: Proto, lowered: OnnxModel, exporting: ExportOptions) -> None:
    """Run onnx's full checker: every type and shape that it infers must equal ours.

    In an opset that was asked for, each operator must also read its types, which the checker does not ask. So must
    the programs that the model is for.

    Inputs of the same type and shape replace large weights: the checker does not need their numbers, and
    would copy them.
    """
    onnx = import_package("onnx")
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    for name, array in lowered.weights.items():
        if array.nbytes <= _INLINE:
            checked.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        else:
            kind = element_type(array.dtype)
            checked.graph.input.append(lowered.helper.make_tensor_value_info(name, kind, array.shape))
    if exporting.opset is not None:
        refuse_unknown_types(checked, lowered)
    refuse_unread(checked, lowered, exporting.readers)
    check_model(checked)

"""The file beside a plan or a model, for the programs that run it: see docs/manifest.md."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.files import change_error, identity_of, sha256_of_stream
from prototrt.caffe_proto.common.wording import Command, Worded
from prototrt.caffe_proto.weights import place_in_file
from prototrt.converter.files.companions.cpp_header import write_header
from prototrt.converter.files.companions.script import script_of, write_script
from prototrt.converter.files.signatures.indices import IndexRange, index_ranges
from prototrt.converter.files.writing.files import json_text
from prototrt.converter.files.writing.ownership import DerivedPath
from prototrt.converter.files.writing.publication import Publication, errors_of
from prototrt.converter.files.writing.side_files import module_weights
from prototrt.converter.files.writing.texts import check_text, json_value
from prototrt.surgery.ir import Array, AtMost, DataSize, Graph, LeftOut, OpenSize, Value, symbols_of, walk
from prototrt.surgery.ir.lengths import SEGMENTS
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ops import Plugin, Scan, While

MANIFEST_FORMAT = 1
DIGEST = "sha256:"
PRODUCT, WEIGHTS = "product", "weights"
"""The roles of the files that are read to run a model; those of the others are for people and compilers."""
WRITE_AGAIN = Worded("write the manifest again with {}", Command("convert"))
"""What to do about a manifest that cannot be used."""


def graph_facts(graph: Graph) -> dict[str, Any]:
    """The part of a manifest that describes the graph, for any backend. Reads the whole source files."""
    from prototrt import __version__

    ranges, plugins = index_ranges(graph), _plugins(graph)
    return {
        "format": MANIFEST_FORMAT,
        "tool": {"name": "prototrt", "version": __version__},
        "network": graph.name,
        "precision": precision_of(graph),
        "layout": graph.layout.name,
        "sources": provenance(graph),
        "inputs": [_input(value, graph, ranges) for value in graph.inputs],
        **({"unread_inputs": list(graph.unread_inputs)} if graph.unread_inputs else {}),
        "outputs": [_binding(value, graph) for value in graph.outputs],
        "recurrences": [
            {"input": pair.input.name, "output": pair.output.name, "exposed": pair.exposed}
            for pair in graph.recurrences
        ],
        **({} if graph.stream is None else {"stream": asdict(graph.stream)}),
        "has_loops": any(isinstance(node.op, (Scan, While)) for node in graph.nodes),
        **({"user_plugins": plugins} if plugins else {}),
        "left_out": [_left_out(layer, graph) for layer in graph.left_out],
        "warnings": [_without_folders(warning, graph) for warning in graph.warnings],
    }


def _plugins(graph: Graph) -> list[dict[str, str]]:
    """The user's plugins, whose libraries TensorRT must load before it reads the engine or the model."""
    ops = [node.op for node in walk(graph) if isinstance(node.op, Plugin)]
    names = dict.fromkeys((op.namespace, op.name, op.version) for op in ops)
    return [
        {"name": name, "version": version, "namespace": namespace}
        for namespace, name, version in sorted(names)
    ]


def manifest_of(path: str | os.PathLike[str]) -> DerivedPath:
    """The file of the manifest, beside an engine or a model."""
    return DerivedPath(f"{os.fspath(path)}.json")


def describe(
    files: Publication,
    path: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    header: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write what a caller of the file at ``path`` must know: beside it, and as a header of C++ if that has a name.

    A model that trtexec makes an engine of gets a script that does so. Returns the manifest, which lists the files
    that were created until now.
    """
    if "trtexec" in manifest:
        write_script(files, path, manifest)
    if header is not None:
        write_header(files, header, manifest)
    roles = {
        os.fspath(path): PRODUCT,
        f"{os.fspath(path)}.data": WEIGHTS,
        module_weights(os.fspath(path)): WEIGHTS,
    }
    roles |= {script_of(path): "script"} | ({} if header is None else {os.fspath(header): "header"})
    whole = {**manifest, "files": dict(_file_records(files, roles, manifest))}
    with files.create(manifest_of(path)) as stream:
        stream.write(content_of(whole))
    return whole


def content_of(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of its file."""
    return check_text("the manifest", json_text(manifest), json_value)


def digest_of(content: bytes) -> str:
    """What names a manifest, and with it all files of its conversion."""
    return f"{DIGEST}{hashlib.sha256(content).hexdigest()}"


def _file_records(
    files: Publication, roles: Mapping[str, str], manifest: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """By role, the name, the size and the SHA-256 of each file. A plan was hashed while it was written."""
    for name, place in files.made.items():
        role = roles.get(name, "layers")
        with errors_of(name), place.open("rb") as stream:
            is_hashed = role == PRODUCT and "plan" in manifest
            sha256 = manifest["plan"]["sha256"] if is_hashed else sha256_of_stream(stream)
        yield role, {"file": Path(name).name, "bytes": place.stat().st_size, "sha256": sha256}


def provenance(graph: Graph) -> dict[str, Any]:
    """What the graph was made from: by role, the name of the file and its SHA-256."""
    return {
        source.role: {"file": Path(source.file).name, "sha256": source.digest()} for source in graph.sources
    }


def refuse_changed_files(graph: Graph) -> None:
    """Raise ``UnreadableFileError`` if a file that the graph was made from has changed.

    Weights are read in place until the end, so the result could hold parts of two files.
    """
    for source in graph.sources:
        if source.identity is not None and identity_of(source.file) != source.identity:
            raise change_error(source.file)


def _left_out(layer: LeftOut, graph: Graph) -> dict[str, Any]:
    origin, warning = layer.origin, _without_folders(layer.warning, graph)
    return {"layer": origin.layer, "type": origin.type, "line": origin.line, "warning": warning}


def _without_folders(warning: str, graph: Graph) -> str:
    """The same wherever the sources lie: equal conversions have equal manifests."""
    for source in graph.sources:
        warning = warning.replace(source.file, Path(source.file).name)
    return warning


def _binding(value: Value, graph: Graph) -> dict[str, Any]:
    """Name, type and shape; the profile is the range of each open size in the shape, and of the symbols in it.

    ``axes`` are the names of N and T. ``counted_by`` exists for axes whose first elements count: for each, the output
    that holds their number. ``data_sizes`` exists if some sizes are known only after a run.
    """
    unknown = [str(dim) for dim in value.shape if isinstance(dim, DataSize)]
    spans = {str(dim): dim.range for dim in value.shape if isinstance(dim, OpenSize)}
    spans |= {name: graph.symbols[name] for name in unknown}
    for dim in value.shape:
        spans |= symbols_of(dim)
    profile = {name: [span.min, span.opt, span.max] for name, span in spans.items()}
    layout = graph.layout.bindings.get(value.name)
    binding = {
        "name": value.name,
        "dtype": value.dtype.value,
        "shape": list(value.shape),
        "axes": [None] * len(value.shape) if layout is None else list(layout.names),
        "profile": profile,
    }
    counts = {str(axis): dim.count for axis, dim in enumerate(value.shape) if isinstance(dim, AtMost)}
    return binding | ({"counted_by": counts} if counts else {}) | ({"data_sizes": unknown} if unknown else {})


def _input(value: Value, graph: Graph, ranges: Sequence[IndexRange]) -> dict[str, Any]:
    """``indices`` exists for an input whose numbers pick rows of tables."""
    own = [
        {
            "below": each.below,
            "every": each.every,
            "start": each.start,
            **({"lengths": True} if each.are_lengths else {}),
            **({"fill": True} if each.reader == SEGMENTS else {}),
        }
        for each in ranges
        if each.input == value.name
    ]
    binding = _binding(value, graph)
    return {**binding, "indices": own} if own else binding


def sha256_of_graph(graph: Graph) -> str:
    """SHA-256 of primitives, attributes, names, sizes and constants, in hexadecimal.

    Constants that a large source file holds as they are count by its SHA-256 and their places in it: they are not
    hashed again. All others are read.
    """
    digests = {source.file: cache(source.digest) for source in graph.sources}
    digest = hashlib.sha256(graph.text().encode())
    for symbol, span in sorted(graph.symbols.items()):
        digest.update(f"{symbol} {span.min} {span.opt} {span.max}\n".encode())
    for node in walk(graph):
        for value in node.inputs:
            if value.data is None:
                continue
            file, offset = place_in_file(value.data) or (None, 0)
            if file is not None and (of_file := digests.get(file.file)):
                digest.update(f"{of_file()} {offset} {value.data.strides}\n".encode())
                continue
            for piece in _pieces(value.data):
                digest.update(piece)
    return digest.hexdigest()


def _pieces(array: Array) -> Iterator[memoryview]:
    """The bytes, row by row. A view that is not contiguous is copied, but never as a whole."""
    if array.flags.c_contiguous or array.ndim < 2:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        return
    for row in array:
        yield from _pieces(row)

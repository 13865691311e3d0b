"""Python that is written for a graph: a source that people read, its weights beside it, and its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.weights.safetensors import write_safetensors
from prototrt.converter.files.companions.manifest import describe, graph_facts, refuse_changed_files
from prototrt.converter.files.writing.publication import publication
from prototrt.converter.files.writing.side_files import module_weights
from prototrt.converter.files.writing.texts import python, write_text
from prototrt.surgery.ir import Array, Graph, Value


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a source, and the arrays of its file of weights."""

    text: str
    arrays: dict[str, Array]


def write_source(
    graph: Graph,
    path: str | os.PathLike[str],
    source: SourceText,
    kind: str,
    facts: Mapping[str, Any],
    header: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    """Write a source and its weights; return the manifest, with ``facts`` and, as ``kind``, those of the weights."""
    weights = module_weights(os.fspath(path))
    with publication(path) as files:
        write_text(files, path, source.text, python)
        with files.create(weights) as stream:
            about = {"format": "pt", "written_by": f"prototrt {__version__}"}
            write_safetensors(stream, source.arrays, about)
        refuse_changed_files(graph)
        own = {"weights": Path(weights).name, "tensors": len(source.arrays)}
        return describe(files, path, {**graph_facts(graph), kind: own, **facts}, header)


def heading(graph: Graph, name: str, what: str) -> list[str]:
    """The first lines of a docstring: what the source is, and where it comes from."""
    files = " and ".join(plain(Path(source.file).name) for source in graph.sources)
    written = f"Written by prototrt {__version__}{f' from {files}' if files else ''}."
    return [f"{plain(graph.name or name)}: a Caffe net as {what}.", "", written, ""]


def value_rows(values: Sequence[Value], names: Mapping[Value, str]) -> list[str]:
    """For a docstring, a line for each value: its name, type and shape."""
    rows = [(names.get(value) or plain(value.name), value) for value in values]
    width = max((len(name) for name, _ in rows), default=0)
    return [
        f"    {name:{width}}  {value.dtype.value} ({', '.join(map(str, value.shape))})"
        for name, value in rows
    ]


def plain(text: str) -> str:
    """Text for a docstring, in which nothing acts."""
    return visible_line(text).replace("\\", "/").replace('"', "'")

"""A Graph becomes a PyTorch module: a source, its weights beside it, and its manifest."""

from __future__ import annotations

import keyword
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import refuse_other
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.python_source import write_source
from prototrt.converter.backends.torch.names import identifier
from prototrt.converter.backends.torch.source import module_text
from prototrt.converter.files.writing.side_files import module_weights, refuse_foreign
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.pipeline import lowered


def export_torch(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, Any] | None = None,
    header: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write a graph as a PyTorch module, a Python file that people read; return the manifest, ``PATH.json``.

    The weights are beside it, in safetensors: for ``net.py`` in ``net.safetensors``. ``load()`` of the file returns the
    module. It needs torch and safetensors, and not prototrt. ``notes`` are added to the manifest. ``header`` is
    a file for constants of C++ with its content. Raises ``OptionsError`` for a graph that is not in float32 and for
    a name that Python cannot import, and
    ``UnsupportedLayerError`` for what PyTorch has no function for.
    """
    refuse_other("export_torch", graph, Graph)
    refuse_foreign("path", os.fspath(path))
    precision = precision_of(graph)
    if precision != "fp32":
        raise OptionsError(
            f"the graph is in {precision}, and a PyTorch module is written in float32",
            fix=Worded("use {}", Option("precision", "fp32")),
        )
    _refuse_name(Path(path))
    source = module_text(lowered(graph, "torch"), Path(module_weights(os.fspath(path))).name)
    facts = {"nodes": len([*walk(graph)]), **(notes or {})}
    return write_source(graph, path, source, "torch", facts, header)


def _refuse_name(path: Path) -> None:
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        word = identifier(path.stem)
        raise OptionsError(
            f"{path}: Python cannot import a module of this name",
            fix=f"call the file {word}_net.py" if keyword.iskeyword(word) else f"call the file {word}.py",
        )

"""A Graph becomes a program that builds its engine: a source, its weights beside it, and its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.options import refuse_other
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.python_source import SourceText, write_source
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import fill_network
from prototrt.converter.backends.tensorrt_python.recording import RecordedNetwork
from prototrt.converter.backends.tensorrt_python.source import program_text
from prototrt.converter.files.writing.side_files import module_weights, refuse_foreign
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.ops import Plugin


def export_tensorrt_python(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    keep_batch_norm: bool = False,
    notes: Mapping[str, Any] | None = None,
    header: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write a graph as a program that builds its engine, which people read; return the manifest, ``PATH.json``.

    The program makes the network that ``build`` makes, by the calls of TensorRT's API, and needs TensorRT and NumPy
    alone. The weights are beside it, in safetensors: for ``build.py`` in ``build.safetensors``. ``keep_batch_norm`` is
    as for ``build``. ``notes`` are added to the manifest. ``header`` is a file for constants of C++ with its content.
    Raises ``BuildError`` where TensorRT is not installed or refuses a layer, and ``UnsupportedLayerError`` for plugins.
    """
    refuse_other("export_tensorrt_python", graph, Graph)
    refuse_foreign("path", os.fspath(path))
    source, network = program_of(graph, Path(path), keep_batch_norm)
    facts = {"nodes": network.primitives, "layers": network.definition.num_layers, **(notes or {})}
    return write_source(graph, path, source, "tensorrt_python", facts, header)


def program_of(graph: Graph, path: Path, keep_batch_norm: bool = False) -> tuple[SourceText, RecordedNetwork]:
    """The program for a graph, and the network whose calls it has."""
    _refuse_plugins(graph)
    network = fill_network(RecordedNetwork(find_backend()), graph, keep_batch_norm=keep_batch_norm)
    return program_text(graph, network, path, Path(module_weights(os.fspath(path))).name), network


def _refuse_plugins(graph: Graph) -> None:
    raise_all(
        [
            UnsupportedLayerError(
                f"the plugin {node.op.title} cannot be written into a program",
                origin=node.origin,
                because="its creator and its fields are known only where it is registered",
                fix=Worded("build the engine with {}", Option("backend", "enterprise")),
            )
            for node in walk(graph)
            if isinstance(node.op, Plugin)
        ]
    )

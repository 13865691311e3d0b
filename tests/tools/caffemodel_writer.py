"""Write a caffemodel for a test, which needs weights of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.caffemodel_writer import LayerBlobs, write_caffemodel
from prototrt.converter.files.writing.files import atomic_write


def write(
    path: str | os.PathLike[str],
    layers: Mapping[str, Sequence[Array]],
    types: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by the names of their layers. ``types`` gives the layer types.

    The file appears under its name only when it is whole.
    """
    with atomic_write(path) as stream:
        write_caffemodel(
            stream, (LayerBlobs(name, (types or {}).get(name, ""), layers[name]) for name in layers)
        )

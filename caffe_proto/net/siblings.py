"""Shapes of inputs that other files in the folder of a net state: what is trained has a net to deploy beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from difflib import SequenceMatcher

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.recognition import open_input, text_of_prototxt
from prototrt.caffe_proto.text.prototxt import parse_net
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry, upgraded_layers

_SUFFIXES = (".prototxt", ".pt")
_INPUT = re.compile(r"\b[iI]nput\b")
_MOST = 16


def shapes_beside(file: str, blobs: Collection[str]) -> dict[str, dict[str, tuple[int, ...]]]:
    """By the names of other files, the shapes of inputs called as these blobs. Similar names come first."""
    folder, own = os.path.split(file)
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith(_SUFFIXES) and name != own]
    except OSError:
        return {}
    names.sort(key=lambda name: (-SequenceMatcher(None, _stem(own), _stem(name)).ratio(), name))
    by_file = {name: _shapes_in(os.path.join(folder, name), blobs) for name in names[:_MOST]}
    return {name: shapes for name, shapes in by_file.items() if shapes}


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _shapes_in(file: str, blobs: Collection[str]) -> dict[str, tuple[int, ...]]:
    """The whole shapes that the file states; none if it cannot be read."""
    try:
        text = text_of_prototxt(open_input(file, "a prototxt"))
        entries = upgraded_layers(parse_net(text, file), file) if _INPUT.search(text) else []
    except ConversionError:
        return {}
    shapes = {top: dims for entry in entries for top, dims in _shapes_of_input(entry)}
    return {blob: dims for blob, dims in shapes.items() if blob in blobs and min(dims, default=0) > 0}


def _shapes_of_input(entry: LayerEntry) -> list[tuple[str, tuple[int, ...]]]:
    shapes, tops = entry.message.input_param.shape, entry.message.top
    if entry.message.type != "Input" or len(shapes) not in (1, len(tops)):
        return []
    return [(top, tuple(shapes[min(index, len(shapes) - 1)].dim)) for index, top in enumerate(tops)]

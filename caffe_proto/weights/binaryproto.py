"""Mean files, ``.binaryproto``: one blob by itself."""

from __future__ import annotations

import os

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.wire import WireError
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.stored_blob import stored_blob

_WHAT = "a mean file (.binaryproto)"


def read_binaryproto(path: str | os.PathLike[str]) -> Array:
    """The blob of a mean file, float32; for an image of C channels its shape is (1, C, H, W)."""
    source = open_input(path, _WHAT)
    file = source.name
    fix = "give the file that Caffe's compute_image_mean wrote, or get it again"
    source.refuse_others(_WHAT, fix)
    data = source.small(_WHAT, fix)
    try:
        array = stored_blob(data, 0, len(data), file, "the blob").array
    except WireError as error:
        problem = f"this is not {_WHAT}, or it is damaged"
        raise UnreadableFileError(problem, where=file, because=error.problem, fix=fix) from error
    if not array.size:
        raise UnreadableFileError(f"the file holds no numbers, expected {_WHAT}", where=file, fix=fix)
    return np.array(array)

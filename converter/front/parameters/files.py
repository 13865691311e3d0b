"""Files of arrays by name: npz, safetensors and PyTorch's state dicts, told apart by their suffixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.caffe_proto.weights.safetensors import read_safetensors, write_safetensors
from prototrt.caffe_proto.weights.state_dict import read_state_dict, write_state_dict
from prototrt.converter.files.signatures.feeds import write_npz
from prototrt.converter.files.writing.files import atomic_write

_READERS: Mapping[str, Callable[[str], Mapping[str, Array]]] = {
    ".npz": ArraysOfFile,
    ".pt": read_state_dict,
    ".pth": read_state_dict,
    ".safetensors": read_safetensors,
}
SUFFIXES = (*_READERS,)


def read_arrays(file: PathLike) -> Mapping[str, Array]:
    """The arrays of a file. Raises ``ConversionError``."""
    return _READERS[_suffix(file)](os.fspath(file))


def write_arrays(file: PathLike, arrays: Mapping[str, Array]) -> None:
    """Write the arrays, as float32. Raises ``ConversionError``; then nothing is written."""
    write = _WRITERS[_suffix(file)]
    with atomic_write(os.fspath(file)) as stream:
        write(stream, {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()})


def _suffix(file: PathLike) -> str:
    suffix = Path(os.fspath(file)).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionsError(
            f"{os.fspath(file)} ends in {suffix or 'no suffix'}, expected one of {', '.join(SUFFIXES)}",
            fix="give a file of arrays of one of these kinds",
        )
    return suffix


_WRITERS: Mapping[str, Callable[[BinaryIO, Mapping[str, Array]], None]] = {
    ".npz": lambda stream, arrays: write_npz(stream, arrays.items()),
    ".pt": write_state_dict,
    ".pth": write_state_dict,
    ".safetensors": lambda stream, arrays: write_safetensors(stream, arrays, {}),
}

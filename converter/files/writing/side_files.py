"""The files beside an engine or a model: their names, which the user does not choose, and how to recognize them.

A file of such a name is replaced or removed only if its content proves that prototrt wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.ownership import DerivedPath, entry_of, is_foreign, is_ours
from prototrt.converter.files.writing.publication import errors_of, is_device

SIDE_SUFFIXES = (".json", ".data", ".sh")
"""Of a manifest, an ONNX model's weights, and a script for trtexec."""
WEIGHTS_SUFFIX = ".safetensors"
"""Of the weights beside a PyTorch module or a program."""
PRODUCT_SUFFIXES = ("", *SIDE_SUFFIXES)
"""What a conversion may write: the engine or model, and what is beside it."""


def product_files(target: str) -> list[str]:
    """The files that a conversion may write."""
    if is_device(target):
        return [target]
    weights = [module_weights(target)] if target.lower().endswith(".py") else []
    return [*(f"{target}{suffix}" for suffix in PRODUCT_SUFFIXES), *weights]


def module_weights(module: str) -> DerivedPath:
    """The file with the weights of a PyTorch module, or of a program."""
    return DerivedPath(Path(module).with_suffix(WEIGHTS_SUFFIX))


def refuse_foreign(asked: Option | str, target: str) -> None:
    """Raise ``OptionsError`` if a side file of the target is there, and prototrt did not write it.

    So for the target itself, unless a user named it. ``asked`` is the option, or the argument, that names the target.
    """
    for file in product_files(target)[not isinstance(target, DerivedPath) :]:
        refuse_foreign_file(asked, file)


def refuse_foreign_file(
    asked: Option | str, file: str, fix: str = "move that file, or give another output file"
) -> None:
    """Raise ``OptionsError`` if the file is there, and prototrt did not write it."""
    if is_foreign(file):
        raise OptionsError(
            Worded('{} would replace or remove "{}", which prototrt did not write', asked, file), fix=fix
        )


@contextmanager
def without_leftovers(target: str) -> Iterator[None]:
    """Remove what an earlier conversion wrote beside the target, and the block did not write again.

    Weights or a script of the model that was there before would be taken for those of the new one.
    """
    before = {file: entry_of(file) for file in product_files(target)[1:] if os.path.lexists(file)}
    yield
    for file, entry in before.items():
        if entry_of(file) == entry:
            remove_leftover(file)


def remove_leftover(file: str) -> None:
    """Remove a side file, if prototrt wrote it. Raises ``ConversionError``."""
    if is_ours(file):
        with errors_of(file):
            os.unlink(file)

"""Weights come from one place: a file, a seed, or the net's own file."""

from __future__ import annotations

from pathlib import Path

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.wording import Option, Worded


def two_sources_error() -> OptionsError:
    """The error for weights with a seed. A Caffe2 init net may come with one: it states the shapes."""
    return OptionsError(
        Worded("{} and {} are given, expected one of them", Option("weights"), Option("random_weights")),
        fix="leave one of them out",
    )


def no_weights_error(file: str) -> OptionsError:
    """The error for a net without weights that is to be computed."""
    return OptionsError(
        "the model has no weights",
        fix=Worded(
            "give {}{}, or {} to try the topology alone",
            Option("weights"),
            _example_text(_weights_beside(Path(file))),
            Option("random_weights", 0),
        ),
    )


def _example_text(file: str | None) -> str:
    return "" if file is None else f", such as {file}"


def _weights_beside(net: Path) -> str | None:
    """The caffemodel in the folder of the net: of the same name, or the only one."""
    try:
        files = [file for file in net.parent.iterdir() if file.suffix == ".caffemodel"]
    except OSError:
        return None
    chosen = [file for file in files if file.stem == net.stem] or files
    return str(chosen[0]) if len(chosen) == 1 else None

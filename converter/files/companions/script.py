"""A shell script beside an ONNX model, which builds the engine on the machine that will run it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.shell_words import quoted
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.files.writing.ownership import SCRIPT_MARK, DerivedPath
from prototrt.converter.files.writing.publication import Publication
from prototrt.converter.files.writing.texts import write_text
from prototrt.surgery.ir.shapes import sizes

_SCRIPT = """\
#!/bin/sh
# Builds {plan} from {model}. Run this on the machine that will run the engine.
{mark}{version}. Further arguments go to trtexec.
{state}cd -- "$(dirname -- "$0")" || exit
PATH=$PATH:/usr/src/tensorrt/bin # where NVIDIA's packages put trtexec
command -v trtexec > /dev/null || {{
    echo "trtexec is not installed here: it comes with TensorRT" >&2
    exit 127
}}
exec {command} "$@"
"""


def script_of(path: str | os.PathLike[str]) -> DerivedPath:
    """The file of the script, beside the model."""
    return DerivedPath(f"{os.fspath(path)}.sh")


def plan_of(path: str | os.PathLike[str]) -> str:
    """The name of the engine that is built from a model."""
    return Path(path).with_suffix(".plan").name


def write_script(files: Publication, path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    """Write the script among files that appear together."""
    write_text(files, script_of(path), script_text(manifest, path), reader=None)


def script_text(manifest: Mapping[str, Any], path: str | os.PathLike[str]) -> str:
    """A shell script that builds the engine, and says which state to feed back."""
    shapes = {binding["name"]: binding["shape"] for binding in manifest["inputs"]}
    pairs = [
        f"#   {pair['output']} -> {pair['input']} ({sizes(shapes[pair['input']])})"
        for pair in manifest["recurrences"]
    ]
    about = ["#", "# State: after each call, copy the output into the input. Begin with zeros.", *pairs]
    return _SCRIPT.format(
        plan=visible_line(plan_of(path)),
        model=visible_line(Path(path).name),
        mark=SCRIPT_MARK,
        version=manifest["tool"]["version"],
        state="".join(f"{visible_line(line)}\n" for line in about) if pairs else "",
        command=" \\\n    ".join(map(quoted, manifest["trtexec"])),
    )

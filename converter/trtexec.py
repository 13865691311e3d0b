"""NVIDIA's program ``trtexec``, which builds an engine from an ONNX model on the machine that runs it.

Source: ``samples/common/sampleOptions.cpp`` of https://github.com/NVIDIA/TensorRT.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.builder_options import Release, trtexec_words
from prototrt.converter.files.companions.script import plan_of
from prototrt.converter.options import BuildOptions
from prototrt.surgery.ir import Range, Value, computable, range_of


def trtexec_command(
    inputs: Sequence[Value],
    precision: str,
    path: str | os.PathLike[str],
    building: BuildOptions,
    release: Release,
) -> list[str]:
    """The words that build the engine beside the model at ``path``, for a release of trtexec.

    ``inputs`` and ``precision`` are those of the graph. Raises ``ConversionError``.
    """
    model = Path(path)
    words = ["trtexec", f"--onnx={model.name}", f"--saveEngine={plan_of(path)}"]
    if precision != "fp32":
        words.append("--stronglyTyped")  # the model says which number has which type
    if not building.tf32:
        words.append("--noTF32")
    return [*words, *trtexec_words(building, release), *_shapes(inputs)]


def _shapes(inputs: Sequence[Value]) -> Iterator[str]:
    """The smallest, usual and largest shapes of the inputs that vary."""
    varying = [value for value in inputs if any(isinstance(dim, str) for dim in value.shape)]
    spans = {value: [range_of(computable(dim)) for dim in value.shape] for value in varying}
    sizes: Mapping[str, Callable[[Range], int]] = {
        "min": lambda span: span.min,
        "opt": lambda span: span.opt,
        "max": lambda span: span.max,
    }
    for which, size in sizes.items() if varying else ():
        shapes = [_shape(value, [size(span) for span in each]) for value, each in spans.items()]
        yield f"--{which}Shapes={','.join(shapes)}"


def _shape(value: Value, sizes: Sequence[int]) -> str:
    """As in ``data:1x3x224x224``; a name in which trtexec would find more than a name is quoted."""
    if "'" in value.name:
        raise ConversionError(
            "trtexec cannot read a name with a quote",
            where=f'input "{value.name}"',
            fix="rename the input, or give it a fixed shape: then trtexec needs no name",
        )
    name = f"'{value.name}'" if set(value.name) & {":", ","} else value.name
    return f"{name}:{'x'.join(map(str, sizes))}"

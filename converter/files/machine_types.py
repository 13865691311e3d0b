"""Types of numbers that GPUs compute, by compute capability."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.machines import CAPABILITIES, Version, lowest_with, version_text
from prototrt.surgery.options import Precision

_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8", "fp8": "float8"}
"""The types of the table, and their names."""


def types_of(precision: Precision) -> Sequence[str]:
    """The types that a net of this precision is computed in: beside 8 bits stands a half, float16 by default."""
    types = precision.split(",")
    return types if len(types) > 1 or types[0] not in ("int8", "fp8") else [*types, "fp16"]


def missing_type(capability: Version, precision: Precision) -> str | None:
    """The type of this precision that GPUs of a compute capability lack; None for a capability that is not known."""
    types_of_gpu = CAPABILITIES.get(capability)
    if types_of_gpu is None:
        return None
    return next((kind for kind in types_of(precision) if kind not in types_of_gpu.types), None)


def refuse_types(asked: Option, gpu: str, capability: Version, precision: Precision) -> None:
    """Raise ``OptionsError`` where GPUs of a compute capability do not compute in this precision."""
    missing = missing_type(capability, precision)
    if missing is None:
        return
    best = next(each for each in ("fp16", "fp32") if missing_type(capability, each) is None)
    raise OptionsError(
        Worded("{} does not take {}", asked, Option("precision", precision)),
        because=f"{gpu} has compute capability {version_text(capability)}, and {_TYPES[missing]} needs"
        f" {version_text(lowest_with(missing))} or newer",
        fix=Worded("use {}", Option("precision", best)),
    )


def names_of(capability: Version) -> str:
    """``float32, float16, int8``; empty for a capability that is not known."""
    types_of_gpu = CAPABILITIES.get(capability)
    return "" if types_of_gpu is None else ", ".join(_TYPES[kind] for kind in types_of_gpu.types)

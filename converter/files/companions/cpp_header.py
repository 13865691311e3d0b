"""What a manifest says of a file, as constants of C++17: programs that call it need no JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.naming import Names
from prototrt.converter.files.writing.publication import Publication
from prototrt.converter.files.writing.texts import write_text

_TYPES = {"bool": ("boolean", 1), "float16": ("float16", 2), "float32": ("float32", 4), "int32": ("int32", 4)}
"""By type of a manifest: its enumerator, and the bytes of an element."""
_LEAST_AXES = 8
"""Sizes that a ``Tensor`` has room for, as TensorRT's ``Dims`` has; the room grows where an ONNX model needs more."""

_DECLARATIONS = """\
enum class Type {{ boolean, float16, float32, int32 }};

/// An input or output. A size that may vary has three values; the three values of a fixed size are equal.
struct Tensor {{
    const char* name;
    Type type;
    std::size_t element_bytes;
    std::size_t rank;  // as many of the sizes count
    std::array<std::int64_t, {axes}> min, opt, max;
}};

/// What a call writes to the output is the input of the next call. The first call begins with zeros.
/// An exposed state is a blob of the net itself: feed it back only if you want to.
struct Recurrence {{
    const Tensor* output;
    const Tensor* input;
    bool exposed;
}};

/// Only the first elements of the tensor on this axis count. After each call, `number` holds how many.
struct Count {{
    const Tensor* tensor;
    std::size_t axis;
    const Tensor* number;
}};
"""


def write_header(files: Publication, path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    """Write the header among files that appear together."""
    write_text(files, path, header_text(manifest, namespace_of(path)), reader=None)


def namespace_of(path: str | os.PathLike[str]) -> str:
    """The namespace of the header with this name: ``prototrt_digits`` for ``digits.h``."""
    (name,) = identifiers("prototrt", [Path(path).stem]).values()
    return name


def header_text(manifest: Mapping[str, Any], namespace: str) -> str:
    """The header, in ASCII. The constants of its tensors are called ``input_NAME`` and ``output_NAME``."""
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    input_names = identifiers("input", [each["name"] for each in inputs])
    output_names = identifiers("output", [each["name"] for each in outputs])
    axes = max([_LEAST_AXES, *(len(each["shape"]) for each in [*inputs, *outputs])])
    recurrences = [
        f"{{&{output_names[pair['output']]}, &{input_names[pair['input']]}, {str(pair['exposed']).lower()}}}"
        for pair in manifest["recurrences"]
    ]
    counts = [
        f"{{&{output_names[each['name']]}, {axis}, &{output_names[number]}}}"
        for each in outputs
        for axis, number in each.get("counted_by", {}).items()
    ]
    blocks = [
        f"// Written by prototrt {manifest['tool']['version']}, and overwritten when the model is converted again.",
        "#pragma once\n",
        "#include <array>\n#include <cstddef>\n#include <cstdint>\n",
        f"namespace {namespace} {{\n",
        *_plan_constants(manifest),
        _DECLARATIONS.format(axes=axes),
        *(_tensor(each, input_names[each["name"]]) for each in inputs),
        *(_tensor(each, output_names[each["name"]]) for each in outputs),
        "",
        _array("const Tensor*", "inputs", [f"&{input_names[each['name']]}" for each in inputs]),
        _array("const Tensor*", "outputs", [f"&{output_names[each['name']]}" for each in outputs]),
        _array("Recurrence", "recurrences", recurrences),
        _array("Count", "counts", counts),
        f"\n}}  // namespace {namespace}\n",
    ]
    return "\n".join(blocks)


def identifiers(prefix: str, names: Sequence[str]) -> dict[str, str]:
    """By name, an identifier of C++ that begins with the prefix. No two are equal, whatever the names hold.

    With the prefix, none is a keyword, a reserved name or a macro of a system. Names that need no change keep
    their spelling; of others that would meet, all but the first are numbered.
    """
    stems = {name: re.sub("[^A-Za-z0-9]+", "_", name).strip("_") for name in names}
    in_order = sorted(stems, key=lambda name: stems[name] != name)  # the sort is stable
    taken = Names()
    return {name: taken.free(f"{prefix}_{stems[name]}" if stems[name] else prefix) for name in in_order}


def _plan_constants(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What a program can compare with the plan that it loads. Of an ONNX model, all of it is empty."""
    plan, tensorrt = manifest.get("plan", {}), manifest.get("tensorrt", {})
    if not plan:
        yield "// The engine is built from an ONNX model, elsewhere: nothing is known of its plan."
    yield f"inline constexpr std::size_t plan_bytes = {plan.get('bytes', 0)};"
    for name, text in (
        ("plan_sha256", plan.get("sha256", "")),
        ("tensorrt_flavour", tensorrt.get("flavour", "")),
        ("tensorrt_version", tensorrt.get("version", "")),
    ):
        yield f"inline constexpr const char* {name} = {literal(text)};"
    yield ""


def _tensor(binding: Mapping[str, Any], identifier: str) -> str:
    kind, size = _TYPES[binding["dtype"]]
    shape, profile = binding["shape"], binding["profile"]
    ranges = [profile[dim] if isinstance(dim, str) else (dim, dim, dim) for dim in shape]
    sizes = ", ".join(_in_braces(map(str, column)) for column in zip(*ranges, strict=True)) or "{}, {}, {}"
    name = literal(binding["name"])
    return f"inline constexpr Tensor {identifier}{{{name}, Type::{kind}, {size}, {len(shape)}, {sizes}}};"


def _array(kind: str, name: str, elements: Sequence[str]) -> str:
    lines = "".join(f"\n    {element}," for element in elements)
    content = f"{{{lines}\n}}" if elements else ""
    return f"inline constexpr std::array<{kind}, {len(elements)}> {name}{{{content}}};"


def _in_braces(elements: Iterable[str]) -> str:
    return f"{{{{{', '.join(elements)}}}}}"


def literal(text: str) -> str:
    """A string literal of C++, and of protobuf's text form, with exactly these characters, in UTF-8."""
    return f'"{"".join(map(_octal, text.encode("utf-8", "surrogateescape")))}"'


def _octal(byte: int) -> str:
    """Three octal digits: a hexadecimal escape would swallow the digits behind it."""
    return chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in '"\\?' else f"\\{byte:03o}"

"""What a manifest states about the file beside it: the inputs, outputs and recurrent pairs of a plan or a model."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import read_regular, value_from_json
from prototrt.converter.files.companions.manifest import MANIFEST_FORMAT, WRITE_AGAIN
from prototrt.converter.files.signatures.indices import IndexRange
from prototrt.converter.files.signatures.signature import Signature, stream_axes_of
from prototrt.surgery.ir import (
    AtMost,
    DataSize,
    Dim,
    DType,
    Range,
    Recurrence,
    Size,
    Value,
    fixed,
    range_of,
    size_from_text,
)
from prototrt.surgery.ir.lengths import LengthsRule
from prototrt.surgery.ops import Gather

WRONG = (KeyError, TypeError, ValueError, AttributeError)
"""What is raised by reading facts of a manifest that are wrong or missing."""


def manifest_content(path: str) -> bytes:
    """The bytes of the file. Raises ``UnreadableFileError``."""
    try:
        return read_regular(path, "a manifest")
    except FileNotFoundError as error:
        raise UnreadableFileError(
            "there is no manifest",
            where=path,
            fix="put it beside the file that it describes, or convert the model again",
        ) from error
    except OSError as error:
        raise UnreadableFileError(
            f"cannot be read: {error.strerror or error}",
            where=path,
            fix=WRITE_AGAIN,
        ) from error


def manifest_from(content: bytes, path: str) -> Mapping[str, Any]:
    """The facts in the bytes of the file at ``path``. Raises ``UnreadableFileError``."""
    try:
        manifest = value_from_json(content)
    except ValueError as error:
        raise UnreadableFileError(
            "is not JSON",
            where=path,
            because=str(error),
            fix=WRITE_AGAIN,
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        version = manifest.get("format") if isinstance(manifest, dict) else None
        raise UnreadableFileError(
            f"is a manifest of format {version}, expected {MANIFEST_FORMAT}",
            where=path,
            fix="use the prototrt that wrote it, or convert the model again",
        )
    return manifest


def foreign_manifest_error(path: str, error: Exception) -> UnreadableFileError:
    """The message for one of ``WRONG``."""
    return UnreadableFileError(
        "is not a prototrt manifest",
        where=path,
        because=f"it is wrong or missing: {error}",
        fix=WRITE_AGAIN,
    )


def signature_of_manifest(manifest: Mapping[str, Any]) -> Signature:
    """Inputs, outputs and recurrent pairs. Raises one of ``WRONG``."""
    bindings = [*manifest["inputs"], *manifest["outputs"]]
    symbols = {symbol: Range(*span) for binding in bindings for symbol, span in binding["profile"].items()}
    values = {binding["name"]: _value(binding, symbols) for binding in bindings}
    for value in values.values():
        _check_counts(value, values)
    for binding in manifest["inputs"]:
        if binding.get("data_sizes"):
            raise ValueError(f"the input {binding['name']!r} has sizes that depend on the data")
    # Manifests of old versions have no axes: their engines have Caffe's layout.
    axes = {binding["name"]: _axes(binding) for binding in bindings if "axes" in binding}
    return Signature(
        tuple(values[binding["name"]] for binding in manifest["inputs"]),
        tuple(values[binding["name"]] for binding in manifest["outputs"]),
        tuple(
            Recurrence(values[pair["input"]], values[pair["output"]], bool(pair.get("exposed", False)))
            for pair in manifest["recurrences"]
        ),
        tuple(
            _indices(binding["name"], entry, symbols)
            for binding in manifest["inputs"]
            for entry in binding.get("indices", ())
        ),
        tuple(map(str, manifest.get("unread_inputs", ()))),
        stream_axes_of(axes),
    )


def _axes(binding: Mapping[str, Any]) -> Sequence[str | None]:
    axes, count = binding["axes"], len(binding["shape"])
    if not isinstance(axes, list) or len(axes) != count:
        raise ValueError(f"the axes of {binding['name']!r} are {axes!r}, expected {count} of them")
    return axes


def _indices(name: str, entry: Mapping[str, Any], symbols: Mapping[str, Range]) -> IndexRange:
    below, every, start = entry["below"], entry["every"], entry["start"]
    is_valid = isinstance(below, str) or (isinstance(below, int) and below >= 0)
    if not (is_valid and isinstance(every, int) and isinstance(start, int) and 0 <= start < every):
        raise ValueError(f"the indices of {name!r}: below is {below!r}, every {every!r}, start {start!r}")
    below = size_from_text(below, symbols) if isinstance(below, str) else below
    reader = LengthsRule(bool(entry.get("fill"))) if entry.get("lengths") else Gather()
    return IndexRange(name, below, every, start, reader)


def _check_counts(value: Value, names: Container[str]) -> None:
    for dim in value.shape:
        if isinstance(dim, AtMost) and dim.count not in names:
            raise ValueError(f"{value.name!r} is counted by {dim.count!r}, which is not an output")


def _value(binding: Mapping[str, Any], symbols: Mapping[str, Range]) -> Value:
    """Raises ``ValueError`` for a size that is no number, not made of symbols with a range, and not of the data."""
    counts, unknown = binding.get("counted_by", {}), binding.get("data_sizes", ())
    sizes: list[Dim] = [
        DataSize(dim) if dim in unknown else _size_of(binding["name"], dim, symbols)
        for dim in binding["shape"]
    ]
    shape = [
        AtMost(fixed(dim, "a size"), str(counts[str(axis)])) if str(axis) in counts else dim
        for axis, dim in enumerate(sizes)
    ]
    return Value(str(binding["name"]), DType(binding["dtype"]), tuple(shape))


def _size_of(name: str, dim: Any, symbols: Mapping[str, Range]) -> Size:
    if isinstance(dim, int) and dim >= 0:
        return dim
    try:
        size = size_from_text(str(dim), symbols)
    except ValueError as error:
        raise ValueError(f"the size {dim!r} of {name!r}: {error}") from None
    if range_of(size).max < 0:
        raise ValueError(f"the size {dim!r} of {name!r} is negative")
    return size

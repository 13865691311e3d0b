"""A plan and its manifest, read from their files and compared."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.errors import EngineError, UnreadableFileError
from prototrt.caffe_proto.files import open_regular, read_regular
from prototrt.caffe_proto.json_files import value_from_json
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.converter.manifest import MANIFEST_FORMAT
from prototrt.converter.sessions.indices import IndexRange
from prototrt.converter.sessions.signature import Signature
from prototrt.surgery.ir import AtMost, DType, Range, Recurrence, Value

BACKENDS = ("rtx", "enterprise")
SUFFIXES = (".plan", ".engine", ".trt")
_RTX = b"vtrt"
_MAGICS = (_RTX, b"ftrt", b"ptrt")
"""The first bytes of plans: of TensorRT for RTX, of TensorRT, and of old versions of TensorRT."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanFile:
    """A serialized engine with the facts of its manifest; without a manifest, ``signature`` is None."""

    file: str
    plan: bytes | memoryview
    backend: str
    version: str | None
    signature: Signature | None
    has_loops: bool | None
    sha256: str


def is_plan(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a plan, by its suffix or by how it begins."""
    if Path(path).suffix.lower() in SUFFIXES:
        return True
    try:
        with open_regular(path, "a plan") as stream:
            return stream.read(4) in _MAGICS
    except (OSError, UnreadableFileError):
        return False


def load_plan(path: str | os.PathLike[str], trust: bool = False) -> PlanFile:
    """Read a plan and ``PATH.json``; the plan must have the SHA-256 that the manifest states.

    A plan is a program: one without a manifest is refused unless ``trust``. Raises
    ``EngineError`` and ``UnreadableFileError``.
    """
    file = os.fspath(path)
    plan = _read(file, "a plan", "give a plan written by prototrt convert")
    if not Path(f"{file}.json").exists():
        if not trust:
            raise EngineError(
                f'has no manifest: there is no "{Path(file).name}.json" beside it',
                where=file,
                because="a plan is a program, and nothing says where this one is from",
                fix=Worded(
                    "put the manifest beside it; or, if you trust whoever made it, use {}",
                    Option("trust", True),
                ),
            )
        backend = "rtx" if plan[: len(_RTX)] == _RTX else "enterprise"
        return PlanFile(file, plan, backend, None, None, None, hashlib.sha256(plan).hexdigest())
    return plan_with_manifest(file, plan, _manifest(f"{file}.json"))


def plan_with_manifest(file: str, plan: bytes | memoryview, manifest: Mapping[str, Any]) -> PlanFile:
    """A plan and its manifest. Raises ``EngineError`` if it is about another plan."""
    where = f"{file}.json"
    found = hashlib.sha256(plan).hexdigest()
    try:
        stated = manifest["plan"]["sha256"]
        tensorrt = manifest["tensorrt"]
        read = PlanFile(
            file,
            plan,
            _backend(tensorrt["flavour"]),
            str(tensorrt["version"]),
            _signature(manifest),
            _has_loops(manifest.get("has_loops")),
            found,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFileError(
            "is not a prototrt manifest",
            where=where,
            because=f"it is wrong or missing: {error}",
            fix="write the manifest again with prototrt convert",
        ) from error
    if found != stated:
        raise EngineError(
            f"is not the plan that its manifest describes: its SHA-256 is {found}, expected {stated}",
            where=file,
            fix="convert the model again, or find the files that belong together",
        )
    return read


def _manifest(path: str) -> Mapping[str, Any]:
    text = _read(path, "a manifest", "write the manifest again with prototrt convert")
    try:
        manifest = value_from_json(text)
    except ValueError as error:
        raise UnreadableFileError(
            "is not JSON",
            where=path,
            because=str(error),
            fix="write the manifest again with prototrt convert",
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise UnreadableFileError(
            f"is a manifest of format {found}, expected {MANIFEST_FORMAT}",
            where=path,
            fix="use the prototrt that wrote it, or convert the model again",
        )
    return manifest


def _backend(stated: object) -> str:
    if stated not in BACKENDS:
        raise ValueError(f"the flavour {stated!r} of TensorRT, expected {' or '.join(BACKENDS)}")
    return str(stated)


def _has_loops(stated: object) -> bool | None:
    if stated is not None and not isinstance(stated, bool):
        raise ValueError(f"has_loops is {stated!r}, expected true or false")
    return stated


def _signature(manifest: Mapping[str, Any]) -> Signature:
    bindings = [*manifest["inputs"], *manifest["outputs"]]
    values = {binding["name"]: _value(binding) for binding in bindings}
    symbols = {symbol: Range(*span) for binding in bindings for symbol, span in binding["profile"].items()}
    for value in values.values():
        _refuse_sizes(value, symbols, values)
    return Signature(
        tuple(values[binding["name"]] for binding in manifest["inputs"]),
        tuple(values[binding["name"]] for binding in manifest["outputs"]),
        tuple(
            Recurrence(values[pair["input"]], values[pair["output"]], bool(pair.get("exposed", False)))
            for pair in manifest["recurrences"]
        ),
        symbols,
        tuple(
            _indices(binding["name"], stated, symbols)
            for binding in manifest["inputs"]
            for stated in binding.get("indices", ())
        ),
    )


def _indices(name: str, stated: Mapping[str, Any], symbols: Container[str]) -> IndexRange:
    """Raises ``ValueError`` if it is not a range."""
    below, every, start = stated["below"], stated["every"], stated["start"]
    is_known = below in symbols if isinstance(below, str) else isinstance(below, int) and below >= 0
    if not (is_known and isinstance(every, int) and isinstance(start, int) and 0 <= start < every):
        raise ValueError(f"the indices of {name!r}: below is {below!r}, every {every!r}, start {start!r}")
    return IndexRange(name, below, every, start)


def _refuse_sizes(value: Value, symbols: Mapping[str, Range], known: Container[str]) -> None:
    """Raise ``ValueError`` for a size that is neither a number nor a symbol with a range, or that lacks its count."""
    for dim in value.shape:
        if isinstance(dim, AtMost) and dim.count not in known:
            raise ValueError(f"{value.name!r} is counted by {dim.count!r}, which is not an output")
        is_size = isinstance(dim, int) and dim >= 0
        if not is_size and dim not in symbols:
            raise ValueError(
                f"the size {dim!r} of {value.name!r}, which is neither a number nor a symbol with a range"
            )


def _value(binding: Mapping[str, Any]) -> Value:
    counts = binding.get("counted_by", {})
    shape = [
        AtMost(dim, str(counts[str(axis)])) if str(axis) in counts else dim
        for axis, dim in enumerate(binding["shape"])
    ]
    return Value(str(binding["name"]), DType(binding["dtype"]), tuple(shape))


def _read(path: str, what: str, fix: str) -> bytes:
    try:
        return read_regular(path, what)
    except OSError as error:
        raise UnreadableFileError(
            f"cannot be read: {error.strerror or error}", where=path, fix=fix
        ) from error

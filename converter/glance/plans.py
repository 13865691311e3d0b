"""Engines, described by the manifest beside them, or by a few bytes of their header.

A header has the size of the plan at byte 16, and the four numbers of TensorRT's version at byte 24.
Source: plans of TensorRT for RTX 1.7.1.116. A header that differs from them is not described.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import read_regular, value_from_json
from prototrt.converter.glance.facts import Fact, FileFacts, FileKind
from prototrt.surgery.ir import Range
from prototrt.surgery.ir.shapes import ranges, sizes

_MAKERS = {b"vtrt": "TensorRT for RTX", b"ftrt": "TensorRT", b"ptrt": "an old version of TensorRT"}
_SIZE_AT, _VERSION_AT, _HEADER = 16, 24, 28


def plan(file: str, size: int, head: bytes) -> FileFacts:
    """The facts of an engine whose first bytes are ``head``. ``size`` is that of the file, in bytes.

    A manifest that is missing, or is about another plan, is a warning. Raises ``UnreadableFileError`` if the plan
    is cut short.
    """
    facts: dict[str, Fact] = {"made by": _MAKERS[head[:4]], **_of_header(file, size, head)}
    manifest = Path(f"{file}.json")
    if not manifest.is_file():
        note = (
            f"{file}: there is no manifest beside it, {manifest.name}: its inputs and outputs are not known"
        )
        return FileFacts(file, FileKind.PLAN, size, facts, warnings=[note])
    details = of_manifest_file(_read(manifest))
    plan_bytes = details.pop("bytes", size)
    warnings = (
        []
        if plan_bytes == size
        else [f"{manifest}: is about a plan of {plan_bytes} bytes, this one has {size}"]
    )
    return FileFacts(file, FileKind.PLAN, size, {**facts, **details}, warnings=warnings)


def with_checked_files(facts: FileFacts, absent: Sequence[str]) -> FileFacts:
    """The same, after the listed files were found to be right, but for those that are not here."""
    others = f"; not here: {', '.join(absent)}" if absent else ""
    return replace(
        facts, facts={**facts.facts, "checked": f"all files are as the manifest lists them{others}"}
    )


def _of_header(file: str, size: int, head: bytes) -> dict[str, Fact]:
    """The version of TensorRT, if the header has the known form. Raises ``UnreadableFileError``."""
    if len(head) < _HEADER:
        raise UnreadableFileError(
            f"the plan is cut short: the file has {size} bytes", where=file, fix="get the file again"
        )
    (plan_bytes,) = struct.unpack_from("<Q", head, _SIZE_AT)
    if plan_bytes == size:
        return {"version": ".".join(map(str, head[_VERSION_AT:_HEADER]))}
    if head[:4] == b"vtrt" and plan_bytes > size:
        raise UnreadableFileError(
            f"the plan is cut short: its header states {plan_bytes} bytes, the file has {size}",
            where=file,
            fix="get the file again, or convert the model again",
        )
    return {}


def _read(manifest: Path) -> bytes:
    """The content of a manifest; empty if it cannot be read, or is too large to be one."""
    try:
        return read_regular(manifest, "a manifest")
    except (OSError, UnreadableFileError):
        return b""


def of_manifest_file(content: bytes) -> dict[str, Fact]:
    """The facts that the file of a manifest states, and its digest."""
    try:
        facts = of_manifest(value_from_json(content))
    except ValueError:
        return {}
    return {**facts, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}


def of_manifest(manifest: Any) -> dict[str, Fact]:
    """The facts that a manifest states. Keys that are missing or have another type are left out."""
    if not isinstance(manifest, Mapping):
        return {}
    facts: dict[str, Fact] = {}
    if isinstance(manifest.get("network"), str):
        facts["net"] = manifest["network"]
    if isinstance(manifest.get("precision"), str):
        facts["precision"] = manifest["precision"]
    for role, source in _mapping(manifest.get("sources")).items():
        facts[str(role)] = str(_mapping(source).get("file"))
    for name in ("inputs", "outputs"):
        facts[name] = [_binding(each) for each in _list(manifest.get(name))]
    if varying := dict(_varying(manifest)):
        facts["sizes"] = ranges(varying)
    if pairs := [_mapping(each) for each in _list(manifest.get("recurrences"))]:
        facts["state"] = [f"{pair.get('output')} -> {pair.get('input')}" for pair in pairs]
    tensorrt = _mapping(manifest.get("tensorrt"))
    if tensorrt:
        facts["built by"] = f"TensorRT {tensorrt.get('version')} ({tensorrt.get('flavour')})"
    plan_bytes = _mapping(manifest.get("plan")).get("bytes")
    if isinstance(plan_bytes, int):
        facts["bytes"] = plan_bytes
    return facts


def _binding(content: Any) -> str:
    binding = _mapping(content)
    shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in _list(binding.get("shape")))
    return f"{binding.get('name')} {binding.get('dtype')} {sizes(shape)}"


def _varying(manifest: Mapping[Any, Any]) -> Iterator[tuple[str, Range]]:
    """The names of sizes that vary, and their ranges. Formulas of names are left out."""
    for each in _list(manifest.get("inputs")):
        for name, span in _mapping(_mapping(each).get("profile")).items():
            if re.fullmatch(r"[\w.]+", str(name)) and len(_list(span)) == 3:
                yield str(name), Range(*span)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

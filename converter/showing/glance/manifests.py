"""What manifests state: facts of an engine, an ONNX model or a PyTorch module, and the command that is next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import read_regular, value_from_json
from prototrt.converter.files.companions.manifest import PRODUCT, digest_of, manifest_of
from prototrt.converter.files.companions.manifest_reading import WRONG, signature_of_manifest
from prototrt.converter.options import BuildOptions
from prototrt.converter.showing.glance.facts import Fact, FileFacts, FileKind
from prototrt.converter.trtexec import trtexec_command
from prototrt.surgery.ir.shapes import ranges, sizes

_NET_AND_WEIGHTS = ("prototxt", "weights", "predict_net", "init_net")
_NEWEST = (10, 0)
"""The release of trtexec whose spelling is proposed: there has been no other since."""


def with_manifest(facts: FileFacts) -> FileFacts:
    """The facts of a product with those that the manifest beside it states.

    A manifest that is missing, where nothing else says what the file is, or is about another file, is a warning.
    """
    manifest = Path(manifest_of(facts.file))
    if not manifest.is_file():
        if facts.kind is not FileKind.PLAN:
            return facts
        note = f"{facts.file}: there is no manifest beside it, {manifest.name}: nothing says what the engine holds"
        return replace(facts, warnings=[note])
    content, where = _read(manifest), str(manifest)
    manifest_content, facts_of_manifest = _value(content), facts_of(content)
    if not facts_of_manifest:
        return replace(facts, warnings=[f"{where}: is not a manifest that can be read"])
    size = _size_of_product(manifest_content)
    warning = f"{where}: is about a file of {size} bytes, this one has {facts.size}"
    return replace(
        facts,
        facts={**facts_of_manifest, **facts.facts},
        command=_command(facts, manifest_content),
        warnings=[] if size in (None, facts.size) else [warning],
    )


def with_checked_files(facts: FileFacts, absent: Sequence[str]) -> FileFacts:
    """The same, after the listed files were found to be right, but for those that are not here."""
    others = f"; not here: {', '.join(absent)}" if absent else ""
    return replace(
        facts, facts={**facts.facts, "checked": f"all files are as the manifest lists them{others}"}
    )


def facts_of(content: bytes) -> dict[str, Fact]:
    """The facts that the file of a manifest states, and its digest; empty if it is no manifest."""
    value = _value(content)
    return {**dict(_facts(value)), "digest": digest_of(content)} if isinstance(value, Mapping) else {}


def sources_of(file: str) -> list[str]:
    """The net and its weights that were converted into a file, or that a manifest names; empty if nobody knows."""
    manifest = file if file.endswith(".json") else manifest_of(file)
    sources = _mapping(_fact_of(manifest, "sources"))
    names = [str(_mapping(sources[role]).get("file")) for role in _NET_AND_WEIGHTS if role in sources]
    beside = [Path(manifest).with_name(name) for name in names]
    return [str(path) if path.is_file() else name for path, name in zip(beside, names, strict=True)]


def warnings_of(file: str) -> list[str]:
    """What was told when a product was made; nothing if nobody knows."""
    return [str(warning) for warning in _list(_fact_of(manifest_of(file), "warnings"))]


def _fact_of(manifest: str, key: str) -> Any:
    return _mapping(_value(_read(Path(manifest)))).get(key)


def _command(facts: FileFacts, manifest: Mapping[Any, Any]) -> Sequence[str]:
    """The command that makes an engine of an ONNX model: the one of its target, or for this machine."""
    if facts.kind is not FileKind.ONNX:
        return ()
    files = {"--onnx": facts.file, "--saveEngine": f"{Path(facts.file).stem}.plan"}
    words = [str(word) for word in _list(manifest.get("trtexec"))]
    if not words:
        try:
            inputs, precision = signature_of_manifest(manifest).inputs, str(manifest["precision"])
            words = trtexec_command(inputs, precision, facts.file, BuildOptions(), _NEWEST)
        except (*WRONG, ConversionError):
            return ()
    if words[0] != "trtexec" or not all(word.startswith("--") for word in words[1:]):
        return ()  # a stranger's manifest names no other program
    names = (word.partition("=") for word in words[1:])
    return ["trtexec", *(f"{name}{equals}{files.get(name, value)}" for name, equals, value in names)]


def _size_of_product(manifest: Mapping[Any, Any]) -> int | None:
    """The bytes of the file that a manifest is about; None if it does not say, as manifests of models of 0.2."""
    listed = _mapping(_mapping(manifest.get("files")).get(PRODUCT)).get("bytes")
    size = _mapping(manifest.get("plan")).get("bytes", listed)
    return size if isinstance(size, int) else None


def _read(manifest: Path) -> bytes:
    """The content of a manifest; empty if it cannot be read, or is too large to be one."""
    try:
        return read_regular(manifest, "a manifest")
    except (OSError, UnreadableFileError):
        return b""


def _value(content: bytes) -> Any:
    try:
        return value_from_json(content)
    except ValueError:
        return None


def _facts(manifest: Mapping[Any, Any]) -> Iterator[tuple[str, Fact]]:
    """The facts that a manifest states. What is missing or has another type is left out."""
    for key, name in (("network", "net"), ("precision", "precision")):
        if isinstance(manifest.get(key), str):
            yield name, manifest[key]
    for role, source in _mapping(manifest.get("sources")).items():
        yield str(role), str(_mapping(source).get("file"))
    yield from _facts_of_bindings(manifest)
    if tensorrt := _mapping(manifest.get("tensorrt")):
        yield "built by", f"TensorRT {tensorrt.get('version')} ({tensorrt.get('flavour')})"
    if files := [str(_mapping(each).get("file")) for each in _mapping(manifest.get("files")).values()]:
        yield "files", files


def _facts_of_bindings(manifest: Mapping[Any, Any]) -> Iterator[tuple[str, Fact]]:
    try:
        signature = signature_of_manifest(manifest)
    except WRONG:
        yield (
            "inputs",
            "cannot be read: what the manifest says of inputs, outputs and state is incomplete or wrong",
        )
        return
    for name, values in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        yield name, [f"{value.name} {value.dtype.value} {sizes(value.shape)}" for value in values]
    if signature.symbols:
        yield "sizes", ranges(signature.symbols)
    if signature.recurrences:
        yield "state", [f"{pair.output.name} -> {pair.input.name}" for pair in signature.recurrences]


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

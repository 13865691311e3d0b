"""Which files of strangers may run: a pin is the digest of a manifest, and the manifest has that of each file.

What is hashed is what runs: a manifest and a plan are read once, and a model is copied while it is hashed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from prototrt.caffe_proto.common.errors import EngineError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.files import open_regular
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.files.companions.manifest import DIGEST, PRODUCT, WEIGHTS, digest_of, manifest_of
from prototrt.converter.files.companions.manifest_reading import (
    WRONG,
    foreign_manifest_error,
    manifest_content,
    manifest_from,
)

Trusted: TypeAlias = bool | str
"""Whether a plan may run: any, those with a manifest, or the one whose manifest has this digest."""

_TOGETHER = "use the files that one conversion has written together"
_BLOCK = 1 << 20  # bytes


def pin_of(trust: Trusted) -> str | None:
    """The digest, if the trust is one. Raises ``OptionsError`` for what is neither a digest nor True or False."""
    if isinstance(trust, bool):
        return None
    if isinstance(trust, str) and re.fullmatch(rf"{DIGEST}[0-9a-f]{{64}}", trust.lower()):
        return trust.lower()
    raise OptionsError(
        Worded("{} is {}, expected True, False, or the digest of a manifest", Option("trust"), repr(trust)),
        because="a digest is sha256: and 64 hexadecimal digits; keys are no longer taken",
        fix=Worded("{} shows the digest; docs/signing.md signs it with a key", Command("inspect", ["FILE"])),
    )


def trusted_manifest(file: str, pin: str | None) -> Mapping[str, Any]:
    """The facts of the manifest beside a file. Raises ``EngineError`` if it is not the pinned one."""
    path = manifest_of(file)
    content = manifest_content(path)
    if pin is not None and (digest := digest_of(content)) != pin:
        raise EngineError(
            "is not the manifest that is trusted",
            where=path,
            because=f"its digest is {digest}, expected {pin}",
            fix="use the files of that conversion, or pin this digest if you trust whoever made these",
        )
    return manifest_from(content, path)


@contextmanager
def trusted_copy(file: str, manifest: Mapping[str, Any]) -> Iterator[Path]:
    """A model, and its weights, as the manifest lists them: in a folder that only this user can change.

    Raises ``EngineError`` for a file that is missing or differs.
    """
    with tempfile.TemporaryDirectory(prefix="prototrt-") as folder:
        for role, name in listed_files(file, manifest).items():
            if role in (PRODUCT, WEIGHTS):
                with (Path(folder) / Path(name).name).open("xb") as target:
                    _copy(name, _record(file, manifest, role), target)
        yield Path(folder) / Path(file).name


def listed_files(file: str, manifest: Mapping[str, Any]) -> dict[str, str]:
    """By role, where the files of a conversion lie beside ``file``, which may have another name by now."""
    try:
        names = {str(role): str(record["file"]) for role, record in manifest["files"].items()}
    except WRONG as error:
        raise _lists_no_files(file) from error
    if PRODUCT not in names or any(Path(name).name != name for name in names.values()):
        raise _lists_no_files(file)
    return {role: str(Path(file).parent / name) for role, name in names.items()} | {PRODUCT: file}


def check_files(file: str, manifest: Mapping[str, Any]) -> list[str]:
    """The listed files that are not here, of those that are not needed to run it.

    Raises ``EngineError`` if another one is missing, or any differs.
    """
    absent = []
    for role, name in listed_files(file, manifest).items():
        if role not in (PRODUCT, WEIGHTS) and not Path(name).exists():
            absent.append(Path(name).name)
        else:
            _copy(name, _record(file, manifest, role), None)
    return absent


def _record(file: str, manifest: Mapping[str, Any], role: str) -> tuple[int, str]:
    record = manifest["files"][role]
    try:
        return int(record["bytes"]), str(record["sha256"])
    except WRONG as error:
        raise foreign_manifest_error(manifest_of(file), error) from error


def _copy(name: str, record: tuple[int, str], target: BinaryIO | None) -> None:
    """Read a file once, up to its listed size, and compare it. Raises ``EngineError``."""
    expected, sha256 = record
    try:
        with open_regular(name, "a file of a conversion") as stream:
            size, digest = os.fstat(stream.fileno()).st_size, hashlib.sha256()
            while size == expected and (block := stream.read(_BLOCK)):
                digest.update(block)
                if target is not None:
                    target.write(block)
    except OSError as error:
        problem = f"is listed in the manifest, and cannot be read: {error.strerror or error}"
        raise EngineError(problem, where=name, fix=_TOGETHER) from error
    if size != expected:
        raise _mismatch_error(name, f"it has {size} bytes, expected {expected}")
    if digest.hexdigest() != sha256:
        raise _mismatch_error(name, f"its SHA-256 is {digest.hexdigest()}, expected {sha256}")


def _mismatch_error(name: str, difference: str) -> EngineError:
    return EngineError(
        "is not the file that its manifest lists", where=name, because=difference, fix=_TOGETHER
    )


def _lists_no_files(file: str) -> UnreadableFileError:
    return UnreadableFileError(
        "lists no files of a conversion",
        where=manifest_of(file),
        because="prototrt writes the list since version 0.3",
        fix="convert the model again, and pin the digest of its new manifest",
    )

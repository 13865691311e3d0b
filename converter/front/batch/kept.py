"""The file of a kept conversion: what it is known by, notes, and the bytes of what was written."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any, BinaryIO

from prototrt.caffe_proto.common.files import LARGEST_TEXT, open_regular, sha256_of_stream, value_from_json
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.converter.files.writing.ownership import KEPT_MARK

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was kept: its bytes, by their number and SHA-256."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: str) -> KeptFile:
        with open_regular(path, "a file") as stream:
            return cls(os.fstat(stream.fileno()).st_size, sha256_of_stream(stream))

    def is_at(self, path: str) -> bool:
        """Whether the file at the path is this one."""
        try:
            return stat.S_ISREG(os.lstat(path).st_mode) and KeptFile.of(path) == self
        except OSError:
            return False

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """Write its bytes, which come next in a stream. Raises ``ValueError`` if they are others."""
        digest, rest = hashlib.sha256(), self.size
        while rest > 0 and (block := source.read(min(rest, _BLOCK))):
            digest.update(block)
            target.write(block)
            rest -= len(block)
        if digest.hexdigest() != self.sha256:
            raise ValueError("a file in it is damaged")


@dataclass(frozen=True, slots=True)
class Notes:
    """What a kept conversion consists of. ``files`` are by name, as in ``Entry.places``; their bytes follow in order.

    ``further_files``, by path, were read for it.
    """

    key: str
    files: Mapping[str, KeptFile]
    further_files: Mapping[str, str]
    warnings: tuple[str, ...]
    facts: Mapping[str, Any]

    def write(self, stream: BinaryIO) -> None:
        """Write them with their own SHA-256, to detect damage."""
        notes = asdict(self)
        stream.write(KEPT_MARK + json.dumps({"sha256": _digest(notes), "notes": notes}).encode() + b"\n")

    @classmethod
    def read(cls, stream: BinaryIO, key: str) -> Notes:
        """The notes of the conversion with that key. Raises ``ValueError``."""
        if stream.readline(len(KEPT_MARK)) != KEPT_MARK:
            raise ValueError("prototrt did not write it")
        content = value_from_json(stream.readline(LARGEST_TEXT))
        try:
            notes = content["notes"]
            if _digest(notes) != content["sha256"]:
                raise ValueError("its SHA-256 is another")
            if notes["key"] != key:
                raise ValueError("it belongs to another conversion")
            files = {
                name: KeptFile(int(each["size"]), each["sha256"]) for name, each in notes["files"].items()
            }
            return cls(key, files, notes["further_files"], tuple(notes["warnings"]), notes["facts"])
        except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
            raise ValueError("it does not say what was kept") from error


def _digest(notes: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).hexdigest()

"""What a cache notes of a conversion that it keeps, and believes only when it makes sense."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.files import open_regular, read_regular, sha256_of_stream
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.converter.files.writing.side_files import PRODUCT_SUFFIXES, WEIGHTS_SUFFIX
from prototrt.converter.files.writing.texts import check_text, json_value
from prototrt.converter.front.batch.keys import OUTPUTS

NAMES = {*PRODUCT_SUFFIXES, WEIGHTS_SUFFIX, *(f".{name}" for name in OUTPUTS)}
"""Of the files that a conversion may have, as in ``Entry.places``."""
_TEXTS = [str]
_LARGEST = 1 << 64  # of sizes, times and the numbers of inodes
_NUMBER = (int, float, type(None))
_FACTS = {
    "caffe_layers?": int,
    "nodes?": int,
    "bytes?": int,
    "further_files?": _TEXTS,
    "left_out?": [{"warning": str}],
    "verification?": ({"comparisons": [{"max_abs": _NUMBER}]}, type(None)),
}
"""What reports read of the facts of a conversion."""
_SHAPE = {
    "key": str,
    "files": {},
    "further_files": {},
    "warnings": _TEXTS,
    "facts": _FACTS,
}


@dataclass(frozen=True, slots=True)
class KeptFile:
    """What a file was when it was kept. ``place`` is its device and inode, which a copy does not share."""

    size: int
    mtime_ns: int
    sha256: str
    place: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> KeptFile:
        status = path.stat()
        with path.open("rb") as stream:
            return cls(status.st_size, status.st_mtime_ns, sha256_of_stream(stream), _place(status))

    @classmethod
    def read(cls, facts: Any) -> KeptFile:
        """Raises ``ValueError``."""
        if not fits(facts, {"size": int, "mtime_ns": int, "sha256": str, "place": [int]}):
            raise ValueError("a file in it is not described")
        return cls(facts["size"], facts["mtime_ns"], facts["sha256"], tuple(facts["place"]))

    def is_in(self, path: str | os.PathLike[str], verify: bool, moved: bool = True) -> bool:
        """Whether the file at ``path`` is this one.

        As for make and git, equal sizes and times are enough, unless ``verify``. Unless the file may have been
        ``moved``, it must also be in the same place on the disk. Otherwise it is read: an archive may set new
        times.
        """
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self.size:
                return False
            if status.st_mtime_ns == self.mtime_ns and not verify and (moved or _place(status) == self.place):
                return True
            with open_regular(path, "a file") as stream:
                return sha256_of_stream(stream) == self.sha256
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Notes:
    """What a kept conversion consists of. ``files`` are by name, as in ``Entry.places``.

    ``further_files``, by path, were read for it.
    """

    key: str
    files: Mapping[str, KeptFile]
    further_files: Mapping[str, str]
    warnings: tuple[str, ...]
    facts: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write them with their own SHA-256, to detect damage. Raises ``OSError``."""
        notes = asdict(self)
        text = json.dumps({"sha256": _digest(notes), "notes": notes})
        path.write_bytes(check_text(path, text, json_value))

    @classmethod
    def load(cls, path: Path, key: str) -> Notes:
        """The notes of the conversion with that key. Raises ``OSError`` and ``ValueError``."""
        content = json.loads(read_regular(path, "notes"), parse_constant=_refuse_constant)
        if not fits(content, {"sha256": str, "notes": _SHAPE}):
            raise ValueError("it does not say what was kept")
        notes = content["notes"]
        if _digest(notes) != content["sha256"]:
            raise ValueError("its SHA-256 is another")
        if notes["key"] != key:
            raise ValueError("it belongs to another conversion")
        files = {suffix: KeptFile.read(facts) for suffix, facts in notes["files"].items()}
        if "" not in files or not files.keys() <= NAMES:
            raise ValueError(f"it holds files that no conversion writes: {', '.join(files)}")
        if not fits(list(notes["further_files"].values()), _TEXTS):
            raise ValueError("a file that was read for it has no SHA-256")
        return cls(key, files, notes["further_files"], tuple(notes["warnings"]), notes["facts"])


def fits(value: Any, shape: Any) -> bool:
    """Whether something out of a JSON file has a shape.

    A shape is a type; a list of one shape; a mapping from keys to shapes, where keys with a question mark may be
    missing; or a tuple of shapes, which are alternatives.
    """
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_fits_at(value, name, each) for name, each in shape.items())
    is_huge = isinstance(value, int) and abs(value) > _LARGEST  # reports cannot write it as a float
    return isinstance(value, shape) and not isinstance(value, bool) and not is_huge


def _fits_at(mapping: Mapping[str, Any], name: str, shape: Any) -> bool:
    key = name.removesuffix("?")
    return fits(mapping[key], shape) if key in mapping else name != key


def _refuse_constant(name: str) -> None:
    """Raise ``ValueError`` for what Python writes and JSON does not have: a report would hand it on."""
    raise ValueError(f"{name} is no number of JSON")


def _digest(notes: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).hexdigest()


def _place(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino

"""Conversions, stored by their files, options and versions: equal ones give the same engine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_TEXT, open_regular, sha256_of_stream, value_from_json
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.ownership import KEPT_MARK, KEPT_SUFFIX, DerivedPath
from prototrt.converter.files.writing.publication import MARK, is_device, publication
from prototrt.converter.files.writing.side_files import SIDE_SUFFIXES, remove_leftover
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.keys import CONTENT, OUTPUTS, files_in, with_files

log = logging.getLogger(__name__)

FORMAT = 4
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


class FileHashes:
    """SHA-256 of files. Each file is read once, for any number of entries and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._hashes: dict[str, str] = {}

    def of(self, path: str) -> str:
        """In hexadecimal; raises ``OSError``."""
        with self._lock:
            lock = self._locks.setdefault(path, threading.Lock())
        with lock:
            if path not in self._hashes:
                with open_regular(path, "a file") as stream:
                    self._hashes[path] = sha256_of_stream(stream)
            return self._hashes[path]


class Cache:
    """A folder of finished conversions, each in a file of its own. Any number of processes may use it at once.

    What a file holds is hashed when it is used: one that is damaged counts as missing.
    """

    def __init__(self, folder: str, versions: Mapping[str, str]) -> None:
        self.folder = Path(folder)
        self._versions = dict(versions)
        self._hashes = FileHashes()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # an old cache may be there to be read alone
                (self.folder / MARK).touch(exist_ok=False)
        except OSError as error:
            raise ConversionError(
                f"cannot be used as cache: {error.strerror}",
                where=folder,
                fix=Worded("give another folder as {}", Option("cache")),
            ) from error

    def place_of(self, key: str) -> DerivedPath:
        """Where the conversion is kept."""
        return DerivedPath(self.folder / key[:2] / f"{key}{KEPT_SUFFIX}")

    def key(self, entry: Entry) -> str | None:
        """The name of this conversion; None where a file cannot be read, which converting will report, or where a
        device is written, which no file of a cache can replace."""
        if any(map(is_device, entry.outputs.values())):
            return None
        files = {"prototxt": entry.prototxt, "weights": entry.weights}
        for name in CONTENT:
            named = files_in(name, entry.options[name])
            files |= {f"{name} {place}" if place else name: file for place, file in enumerate(named)}
        try:
            hashes = {role: self._hashes.of(path) for role, path in files.items() if path is not None}
        except (OSError, UnreadableFileError):
            return None
        facts = {
            "format": FORMAT,
            "versions": self._versions,
            "files": hashes,
            # The manifest holds the names of the files.
            "names": [os.path.basename(path) for path in (entry.prototxt, entry.weights) if path],
            "target": os.path.basename(entry.target),
            # A header has its own name in it.
            "outputs": {name: os.path.basename(file) for name, file in entry.outputs.items()},
            "options": {
                name: with_files(name, value, lambda file: "") if name in CONTENT else value
                for name, value in entry.options.items()
                if name not in OUTPUTS
            },
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def fetch(self, key: str, entry: Entry, tell: Callable[[str], None] = log.warning) -> Outcome | None:
        """Put the files where the entry needs them; None if the cache lacks them.

        What is here and makes no sense is not here; ``tell`` hears of that.
        """
        began, place = time.perf_counter(), self.place_of(key)
        try:
            with open_regular(place, "a cached conversion") as stream:
                notes = Notes.read(stream, key)
                if not self._are_unchanged(notes.further_files):
                    return None
                self._put_in_place(notes, stream, entry)
            with suppress(OSError):  # a cache that may only be read
                os.utime(place)  # `prune` goes by when a conversion was last of use
        except FileNotFoundError:
            return None
        except (ConversionError, OSError, ValueError) as error:
            tell(f"the cached conversion {place} is not used: {reason_of(error)}")
            return None
        seconds = time.perf_counter() - began
        return Outcome(entry, Status.CACHED, 0, seconds, "", notes.warnings, notes.facts)

    def _are_unchanged(self, files: Mapping[str, str]) -> bool:
        """Whether files that were read for a conversion, such as mean images, are what they were."""
        try:
            return all(self._hashes.of(path) == digest for path, digest in files.items())
        except (OSError, ValueError, UnreadableFileError):
            return False

    def _put_in_place(self, notes: Notes, stream: BinaryIO, entry: Entry) -> None:
        """Raises ``ValueError`` for damaged files, and ``OSError`` and ``ConversionError`` for what fails."""
        places = entry.places
        if "" not in notes.files or not notes.files.keys() <= places.keys():
            raise ValueError("it holds other files than those that were asked for")
        with publication(entry.target) as files:
            for name, kept in notes.files.items():
                if kept.is_at(places[name]):
                    stream.seek(kept.size, os.SEEK_CUR)
                    continue
                with files.create(places[name]) as target:
                    kept.copy(stream, target)
        for suffix in SIDE_SUFFIXES:
            if suffix not in notes.files:  # of a conversion before this one
                remove_leftover(places[suffix])

    def store(self, key: str, outcome: Outcome) -> None:
        """Keep what a conversion has written. Raises ``OSError`` and ``ConversionError``."""
        place, made = self.place_of(key), outcome.entry.written_files()
        Path(place).parent.mkdir(exist_ok=True)
        files = {name: KeptFile.of(path) for name, path in made.items()}
        # Mean images and the like: which they are is known only now.
        further = {path: self._hashes.of(path) for path in outcome.facts.get("further_files", [])}
        with publication(place, durable=False) as parts, parts.create(place) as stream:
            Notes(key, files, further, outcome.warnings, outcome.facts).write(stream)
            for path in made.values():
                with open(path, "rb") as source:
                    shutil.copyfileobj(source, stream)


def reason_of(error: Exception) -> str:
    """What went wrong with a file of the cache, in a few words."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return error.problem if isinstance(error, ConversionError) else str(error)

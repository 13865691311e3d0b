"""Conversions by what they are made of: the same files, options and versions give the same engine."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from prototrt.caffe_proto.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.files import open_regular, sha256_of_stream
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.converter.batch.entry import Entry, Outcome, Status
from prototrt.converter.batch.keys import FILES, file_of
from prototrt.converter.batch.work import written_files
from prototrt.converter.publication import link_or_copy, publication

FORMAT = 2
_NOTES = "outcome.json"


class FileHashes:
    """SHA-256 of files, each read once however many entries and threads ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        """In hexadecimal; raises ``OSError``."""
        with self._lock:
            lock = self._locks.setdefault(path, threading.Lock())
        with lock:
            if path not in self._known:
                with open_regular(path, "a file") as stream:
                    self._known[path] = sha256_of_stream(stream)
            return self._known[path]


@dataclass(frozen=True)
class _Kept:
    """What a file was when it was kept.

    As for make and git, one whose size and time are the same is the same. Only another is read:
    a cache may have been moved by a program that sets the times anew.
    """

    size: int
    mtime_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> _Kept:
        found = path.stat()
        with path.open("rb") as stream:
            return cls(found.st_size, found.st_mtime_ns, sha256_of_stream(stream))

    def is_in(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file is there, and this one."""
        try:
            found = os.stat(path)
            if found.st_size != self.size or found.st_mtime_ns == self.mtime_ns:
                return found.st_size == self.size
            with open(path, "rb") as stream:
                return sha256_of_stream(stream) == self.sha256
        except OSError:
            return False


class Cache:
    """A folder of finished conversions. Any number of processes may use it at once.

    A conversion is a folder that is renamed into its place when it is complete; whoever
    comes second drops its own. Files are hard links to what was written, where the file system
    has them: a program that writes into an engine, rather than replacing it, changes both. What is
    found damaged, so or otherwise, or half pruned counts as missing.
    """

    def __init__(self, folder: str, versions: Mapping[str, str]) -> None:
        self.folder = Path(folder)
        self._versions = dict(versions)
        self._hashes = FileHashes()
        try:
            (self.folder / "new").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConversionError(
                f"cannot be used as cache: {error.strerror}",
                where=folder,
                fix=Worded("give another folder as {}", Option("cache")),
            ) from error

    def key(self, entry: Entry) -> str | None:
        """The name of this conversion; None where a file cannot be read, which converting will report."""
        files = {"prototxt": entry.prototxt, "weights": entry.weights}
        files |= {name: file_of(name, entry.options[name]) for name in FILES}
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
            "suffix": Path(entry.target).suffix,
            "options": {
                name: value
                for name, value in entry.options.items()
                if name not in FILES or file_of(name, value) is None
            },
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def fetch(self, key: str, entry: Entry) -> Outcome | None:
        """Put the files where the entry wants them; None if they are not here."""
        began = time.perf_counter()
        folder = self._place(key)
        try:
            notes = json.loads((folder / _NOTES).read_text())
            if any(self._hashes.of(path) != digest for path, digest in notes["further_files"].items()):
                return None
            os.utime(folder)  # `prune` goes by when an entry was last of use
            missing = {
                suffix: kept
                for suffix, facts in notes["files"].items()
                if not (kept := _Kept(**facts)).is_in(entry.target + suffix)
            }
            if missing:
                with publication(entry.target, durable=False) as files:
                    for suffix, kept in missing.items():
                        place = files.place(entry.target + suffix)
                        link_or_copy(_file(folder, suffix), place)
                        if not kept.is_in(place):
                            raise ValueError(f"{suffix} is damaged")
        except (ConversionError, OSError, ValueError, KeyError, TypeError):
            return None
        seconds = time.perf_counter() - began
        return Outcome(entry, Status.CACHED, 0, seconds, "", tuple(notes["warnings"]), notes["facts"])

    def store(self, key: str, outcome: Outcome) -> None:
        """Keep what a conversion has written."""
        with tempfile.TemporaryDirectory(dir=self.folder / "new") as made:
            complete = Path(made) / "entry"
            complete.mkdir()
            files = {}
            for path in written_files(outcome.entry.target):
                suffix = path.removeprefix(outcome.entry.target)
                kept = _file(complete, suffix)
                link_or_copy(path, kept)
                files[suffix] = asdict(_Kept.of(kept))
            # Mean images and the like: which they are is known only now.
            further = {path: self._hashes.of(path) for path in outcome.facts.get("further_files", [])}
            notes = {
                "files": files,
                "further_files": further,
                "warnings": outcome.warnings,
                "facts": outcome.facts,
            }
            (complete / _NOTES).write_text(json.dumps(notes))
            self._put(complete, self._place(key))

    def _put(self, complete: Path, place: Path) -> None:
        place.parent.mkdir(exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)  # it was looked for and not found intact
        try:
            complete.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # somebody else was faster
                raise

    def _place(self, key: str) -> Path:
        return self.folder / key[:2] / key


def _file(folder: Path, suffix: str) -> Path:
    return folder / f"made{suffix}"

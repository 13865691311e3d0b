"""Conversions, stored by their files, options and versions: equal ones give the same engine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import open_regular, sha256_of_stream
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.publication import is_device, link_or_copy, publication
from prototrt.converter.files.writing.side_files import SIDE_SUFFIXES, remove_leftover
from prototrt.converter.front.batch.cache_folder import (
    NOTES,
    file_in,
    make_cache,
    new_conversion,
    place_of,
    put,
)
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.kept import KeptFile, Notes
from prototrt.converter.front.batch.keys import CONTENT, OUTPUTS, files_in, with_files

log = logging.getLogger(__name__)

FORMAT = 3


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
    """A folder of finished conversions. Any number of processes may use it at once.

    A conversion is a folder that is renamed into its place when it is complete; the second process discards
    its own. If the file system has hard links, files are links to the written ones: a program that writes
    into an engine instead of replacing it changes both. Files that are damaged, or pruned in part, count as
    missing.

    ``verify`` decides which files are hashed before they are used: all; none whose size and time are right;
    or, by default, those that are not where they were written, as in a cache restored from an archive.
    """

    def __init__(self, folder: str, versions: Mapping[str, str], verify: bool | None = None) -> None:
        self.folder = Path(folder)
        self._verify = verify
        self._versions = dict(versions)
        self._hashes = FileHashes()
        try:
            make_cache(self.folder)
        except OSError as error:
            raise ConversionError(
                f"cannot be used as cache: {error.strerror}",
                where=folder,
                fix=Worded("give another folder as {}", Option("cache")),
            ) from error

    def key(self, entry: Entry) -> str | None:
        """The name of this conversion; None where a file cannot be read, which converting will report, or where a
        device is written, which no link can replace."""
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
        began = time.perf_counter()
        folder = place_of(self.folder, key)
        if not folder.exists():
            return None
        try:
            notes = Notes.load(folder / NOTES, key)
            if not self._are_unchanged(notes.further_files):
                return None
            os.utime(folder)  # `prune` goes by when an entry was last of use
            self._put_in_place(notes, folder, entry)
        except (ConversionError, OSError, ValueError, RecursionError) as error:
            if folder.exists():  # else it was pruned meanwhile
                tell(f"the cached conversion in {folder} is not used: {_reason(error)}")
            return None
        seconds = time.perf_counter() - began
        return Outcome(entry, Status.CACHED, 0, seconds, "", notes.warnings, notes.facts)

    def _are_unchanged(self, files: Mapping[str, str]) -> bool:
        """Whether files that were read for a conversion, such as mean images, are what they were."""
        try:
            return all(self._hashes.of(path) == digest for path, digest in files.items())
        except (OSError, ValueError, UnreadableFileError):
            return False

    def _put_in_place(self, notes: Notes, folder: Path, entry: Entry) -> None:
        """Raises ``ValueError`` for damaged files, and ``OSError`` and ``ConversionError`` for what fails."""
        always, places = self._verify is True, entry.places
        if not notes.files.keys() <= places.keys():
            raise ValueError("it holds files that nobody asked for")
        missing = {
            name: kept for name, kept in notes.files.items() if not kept.is_in(places[name], verify=always)
        }
        for name, kept in missing.items():
            if not kept.is_in(file_in(folder, name), verify=always, moved=self._verify is False):
                raise ValueError(f"{file_in(folder, name).name} is damaged")
        with publication(entry.target) as files:
            for name in missing:
                link_or_copy(file_in(folder, name), files.place(places[name]))
        for suffix in SIDE_SUFFIXES:
            if suffix not in notes.files:  # of a conversion before this one
                remove_leftover(places[suffix])

    def store(self, key: str, outcome: Outcome) -> None:
        """Keep what a conversion has written. Raises ``OSError``."""
        with new_conversion(self.folder) as made:
            files = {}
            for name, path in outcome.entry.written_files().items():
                link_or_copy(path, file_in(made, name))
                files[name] = KeptFile.of(file_in(made, name))
            # Mean images and the like: which they are is known only now.
            further = {path: self._hashes.of(path) for path in outcome.facts.get("further_files", [])}
            Notes(key, files, further, outcome.warnings, outcome.facts).save(made / NOTES)
            put(self.folder, made, key)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its notes are nested too deeply"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return error.problem if isinstance(error, ConversionError) else str(error)

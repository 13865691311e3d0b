"""What prototrt made in the folder of a cache, and by what it is known: nothing else in there is ever removed.

written-by-prototrt     says that the folder is a cache
new/<32 digits>/        a conversion that is being stored, or removed
<2 digits>/<key>/       a conversion that is kept; its key begins with the two digits

The marks are empty. A folder of a conversion holds one, the notes and the files of the conversion. Version 0.2 wrote
no marks: its conversions are known by their notes, which hold the key and their own SHA-256.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.converter.files.writing.publication import MARK
from prototrt.converter.front.batch.kept import NAMES, Notes

NOTES = "outcome.json"
_KEY, _UNFINISHED = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")


def file_in(conversion: Path, name: str) -> Path:
    """The file of a conversion that has this name among ``Entry.places``."""
    return conversion / f"made{name}"


_FILES = {MARK, NOTES, *(file_in(Path(), name).name for name in NAMES)}


def make_cache(root: Path) -> None:
    """Make the folder, or use one that is there. Raises ``OSError``."""
    (root / "new").mkdir(parents=True, exist_ok=True)
    _refuse_link(root / "new")
    with suppress(OSError):  # an old cache may be there to be read alone
        _mark(root)


def is_cache(root: Path) -> bool:
    """Whether the folder has the mark of a cache, or a conversion of version 0.2."""
    return _is_file(root / MARK) or any(conversions(root))


def conversions(root: Path) -> Iterator[Path]:
    """The folders of the conversions that are kept."""
    for folder in root.glob("[0-9a-f][0-9a-f]/*"):
        if _KEY.fullmatch(folder.name) and not folder.parent.is_symlink() and _is_ours(folder):
            yield folder


def unfinished(root: Path) -> Iterator[Path]:
    """The folders of conversions that are being stored or removed, or that a dead process left."""
    if not (root / "new").is_symlink():
        for folder in (root / "new").glob("*"):
            if _UNFINISHED.fullmatch(folder.name) and _is_ours(folder):
                yield folder


def place_of(root: Path, key: str) -> Path:
    return root / key[:2] / key


@contextmanager
def new_conversion(root: Path) -> Iterator[Path]:
    """A folder for a conversion, which is gone in the end unless it was put in its place. Raises ``OSError``."""
    folder = _aside(root)
    folder.mkdir()
    try:
        _mark(folder)
        yield folder
    finally:
        _empty(folder)


_TRIES = 5
"""Other processes may put and remove the same conversion while this one looks at the place."""


def put(root: Path, complete: Path, key: str) -> None:
    """Put a complete conversion in its place, where none is intact. Raises ``OSError``."""
    place = place_of(root, key)
    place.parent.mkdir(exist_ok=True)
    _refuse_link(place.parent)
    for _ in range(_TRIES):
        discard(root, place)
        try:
            complete.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if _is_ours(place):  # another process was faster
                return
        else:
            return
    raise OSError(errno.ENOTEMPTY, f'"{place}" holds what prototrt did not write')


def discard(root: Path, folder: Path) -> None:
    """Remove a conversion: first it goes out of the readers' way. Nothing happens if prototrt did not make it."""
    if not _is_ours(folder):
        return
    aside = _aside(root)
    with suppress(OSError):  # another process was faster
        _mark(folder)
        folder.rename(aside)
        _empty(aside)


def _aside(root: Path) -> Path:
    return root / "new" / uuid.uuid4().hex


def _is_ours(folder: Path) -> bool:
    """Whether prototrt made the folder, and nothing but its files, intact or damaged, has come into it since."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
        names = {*os.listdir(folder)}
        if not names:  # a process died before it made the mark, or when it had removed it
            return _UNFINISHED.fullmatch(folder.name) is not None
        if not names <= _FILES or any(_holds_more(folder / name) for name in names):
            return False
        if not _is_file(folder / MARK):
            Notes.load(folder / NOTES, folder.name)
        return True
    except (OSError, ValueError, RecursionError, UnreadableFileError):
        return False


def _holds_more(path: Path) -> bool:
    """Whether it is a folder with something in it."""
    return stat.S_ISDIR(path.lstat().st_mode) and any(path.iterdir())


def _empty(folder: Path) -> None:
    """Remove the files of a conversion, the mark last, and the folder."""
    with suppress(OSError):
        for name in sorted(_FILES, key=lambda name: name == MARK):
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        folder.rmdir()


def _mark(folder: Path) -> None:
    """Make the mark, unless something has its name. Raises ``OSError``."""
    with suppress(FileExistsError):
        (folder / MARK).touch(exist_ok=False)


def _is_file(path: Path) -> bool:
    """Whether it is a file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _refuse_link(folder: Path) -> None:
    """Raise ``OSError`` for a link in the place of a folder: what is removed must lie in the cache."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f'its folder "{folder.name}" is a link')

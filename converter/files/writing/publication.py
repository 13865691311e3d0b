"""Files that appear together: all of them new or all as they were, whenever the process dies or a rename fails.

They are written into a folder of their own beside their targets, ``.prototrt-*.part``, which the process holds
locked: when the process dies, the system drops the lock, and the next run into that folder tidies up.
See docs/decisions.md, 0023.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.files import black_box
from prototrt.converter.files.writing.ownership import STAGE, DerivedPath, is_foreign

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

_NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
_OLD, _NEW, _NOW, _LINK = "old", "new", "now", "link"
"""In the folder of a stage: files as they were, files as they will be, the link to those that count, and the link
that becomes a file's name next."""
MARK = "written-by-prototrt"
"""In the folder of a stage: an empty file, without which nothing in the folder is touched."""
LOCK = ".prototrt-lock"
"""In a folder: the file that a process locks while it makes a stage, or lets files appear; it is removed then."""
LOCK_TIMEOUT = "PROTOTRT_LOCK_TIMEOUT"
_SILENT = 1.0  # seconds
_NO_LINK_NO_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_NUMBER = 20
"""Digits of a process, as the lock holds them."""


@contextmanager
def publication(path: str | os.PathLike[str], durable: bool = True) -> Iterator[Publication]:
    """Make files that all appear if the block succeeds, and none of them if it fails.

    ``path`` is the file that gives the others their names. Unless ``durable``, nothing waits for the disk:
    a loss of power may lose the files. Raises ``ConversionError`` if the system refuses.
    """
    for name in (path, os.path.realpath(path)):
        tidy(Path(name).parent)  # before a link is followed that a dead process left
    files = Publication(path)
    try:
        yield files
        with errors_of(path):
            for stage in files.stages.values():
                stage.refuse_foreign()
            for stage in files.stages.values():
                stage.commit(durable)
    finally:
        for stage in files.stages.values():
            stage.close()


class Publication:
    """Files being written. Files in one folder appear at the same moment."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._on_device = _is_named_device(path)
        self.stages: dict[Path, _Stage] = {}
        self.made: dict[str, Path] = {}
        """By the name of each file that was created, where it is until it appears."""

    @contextmanager
    def create(self, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
        """A stream that becomes the file. A device is written directly, with nothing beside it."""
        with errors_of(path):
            named_device = _is_named_device(path)
            if named_device or self._on_device:
                with open(path if named_device else os.devnull, "wb") as stream:
                    yield stream
            else:
                # Unlike a file of tempfile's, it is readable for whom the umask allows.
                place = self.place(path)
                with place.open("xb") as stream:
                    yield stream
                self.made[os.fspath(path)] = place

    def place(self, path: str | os.PathLike[str]) -> Path:
        """Where to make the file, or a folder that is new, before the block ends. Raises ``OSError``.

        A link that the user names is followed. One at a ``DerivedPath`` is replaced.
        """
        target = Path(os.path.realpath(path))
        if isinstance(path, DerivedPath):
            target = Path(os.path.realpath(Path(path).parent)) / Path(path).name
        if target.parent not in self.stages:
            self.stages[target.parent] = _Stage(target.parent)
        stage = self.stages[target.parent]
        if isinstance(path, DerivedPath):
            stage.unnamed.append(target)
        return stage.new / target.name


def is_device(path: str | os.PathLike[str]) -> bool:
    """Whether it is there, and no file: ``/dev/null``, a pipe."""
    return os.path.exists(path) and not os.path.isfile(path)


def _is_named_device(path: str | os.PathLike[str]) -> bool:
    return is_device(path) and not isinstance(path, DerivedPath)


def link_or_copy(source: str | os.PathLike[str], target: Path) -> None:
    """Make ``target`` the very file that ``source`` is; a copy where the file system does not let it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)  # with its times, which identify it


def tidy(folder: str | os.PathLike[str]) -> None:
    """Finish or remove what processes that died were writing into a folder."""
    place = Path(os.path.realpath(folder))
    with suppress(OSError):
        for name in filter(STAGE.fullmatch, os.listdir(place)):
            with _lock_folder(place), suppress(OSError), _lock(place / name):
                if not _is_marked(place / name):
                    (place / name).rmdir()  # if it is empty: a process died before the mark
                elif _settle(place / name):
                    _remove(place / name)


def finish(folder: Path) -> None:
    """Tidy up in a new folder, in which nobody else writes."""
    tidy(folder)
    if _number_in(folder / LOCK) is not None:
        (folder / LOCK).unlink()


class _Stage:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = folder / f".prototrt-{os.urandom(8).hex()}.part"
        self._lock = ExitStack()
        self.new = self._place / _NEW
        self.unnamed: list[Path] = []
        black_box.note(black_box.FOLDER, str(folder))
        with _lock_if_possible(folder):  # nobody takes it for one of the dead before it is locked
            self._place.mkdir(
                0o711
            )  # who may only read the folder cannot open this one, and so cannot lock it
            try:
                (self._place / MARK).touch()
                self.new.mkdir()
                with suppress(_NoLocksError):
                    self._lock.enter_context(_lock(self._place))
            except OSError:
                shutil.rmtree(self._place, ignore_errors=True)
                raise

    def refuse_foreign(self) -> None:
        """Raise ``ConversionError`` if a user's file has taken a name that no user gave; a link there is replaced."""
        for target in self.unnamed:
            if not target.is_symlink() and is_foreign(target):
                raise ConversionError(
                    "would be replaced, and prototrt did not write it",
                    where=str(target),
                    fix="move that file, or give another output file",
                )

    def commit(self, durable: bool) -> None:
        """Let all files appear in one moment. Raises ``OSError`` if none appears."""
        names = os.listdir(self.new)
        if durable:
            for part in self.new.rglob("*"):
                _sync(part)
        with _lock_if_possible(self._folder):
            if len(names) > 1 and self._link_files(names):
                self._switch(names)
            else:
                for name in names:
                    os.replace(self.new / name, self._folder / name)
        if durable:
            _sync(self._folder)

    def _link_files(self, names: list[str]) -> bool:
        """Link the existing files, and mark them as valid; False if the file system has no links."""
        try:
            (self._place / _OLD).mkdir()
            for name in names:
                before, kept = self._folder / name, self._place / _OLD / name
                if before.is_symlink():  # it must lead there from another folder
                    kept.symlink_to(self._folder / os.readlink(before))
                elif before.exists():
                    link_or_copy(before, kept)
            os.symlink(_OLD, self._place / _NOW)
        except OSError as error:
            log.info("%s: no links can be made: %s", self._folder, error)
            return False
        return True

    def _switch(self, names: list[str]) -> None:
        """Each name becomes a link that leads to the old file, one link turns them all, and each becomes its file."""
        try:
            link = self._place / _LINK
            for name in names:
                os.symlink(f"{self._place.name}/{_NOW}/{name}", link)
                os.replace(link, self._folder / name)
            os.symlink(_NEW, link)
            os.replace(link, self._place / _NOW)
        finally:
            _settle(self._place)

    def close(self) -> None:
        """Remove what is left of files that did not appear."""
        with self._lock, suppress(OSError), _lock_if_possible(self._folder):
            if not _settle(self._place):
                log.warning("%s holds files until the next run into %s", self._place, self._folder)
                return
            _remove(self._place)


def _is_marked(place: Path) -> bool:
    """Whether a process of this user made the folder as a stage, and it holds no links to other folders."""
    parts = (place / _OLD, place / _NEW)
    own = sys.platform == "win32" or os.lstat(place).st_uid == os.geteuid()
    return own and (place / MARK).is_file() and not any(part.is_symlink() for part in parts)


def _remove(place: Path) -> None:
    """Remove a stage: first what makes it one to settle, then what is in it, and its mark last."""
    for link in (_NOW, _LINK):
        (place / link).unlink(missing_ok=True)
    for folder in (_OLD, _NEW):
        if (place / folder).exists():
            shutil.rmtree(place / folder)
    (place / MARK).unlink(missing_ok=True)
    place.rmdir()


def _settle(place: Path) -> bool:
    """Replace each link into a stage by the file that it leads to. Whether none is left."""
    now = place / _NOW
    if not now.is_symlink():
        return True
    which = os.readlink(now)
    names = {name for folder in (_OLD, _NEW) for name in os.listdir(place / folder)}
    settled = which in (_OLD, _NEW)
    for name in names if settled else ():
        target, source = place.parent / name, place / which / name
        try:
            if not target.is_symlink() or os.readlink(target) != f"{place.name}/{_NOW}/{name}":
                continue
            if os.path.lexists(source):  # also a link of the user's, which may lead nowhere
                os.replace(source, target)
            else:
                target.unlink()
        except OSError as error:
            log.info("%s is still a link: %s", target, error)
            settled = False
    return settled


@contextmanager
def errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an ``OSError`` into a ``ConversionError`` about this file."""
    try:
        yield
    except OSError as error:
        raise ConversionError(
            f"cannot be written: {error.strerror or error}",
            where=str(path),
            fix="give another output file, or make room for this one",
        ) from error


class BusyFolderError(ConversionError):
    """Another process has been writing into the folder for too long."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(
            f"{owner} has been writing into this folder for {lock_timeout():g} seconds",
            where=str(folder),
            fix=f"wait until it ends, or stop it; set the seconds to wait in {LOCK_TIMEOUT}",
        )


class ForeignLockError(ConversionError):
    """The name of the lock is taken by something that prototrt did not write."""

    def __init__(self, lock: Path) -> None:
        super().__init__(
            "prototrt did not write this, and locks the folder with a file of this name",
            where=str(lock),
            fix="move it away, or give an output file in another folder",
        )


class _NoLocksError(OSError):
    """The system, or the file system, has no locks."""


@contextmanager
def _lock(file: Path, mode: int = 0) -> Iterator[int]:
    """Lock a file or a folder, and open it; the system drops the lock when the process dies. Raises ``OSError``.

    ``mode`` makes a file that is not there.
    """
    if sys.platform == "win32":
        raise _NoLocksError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    flags = os.O_RDWR | os.O_CREAT if mode else os.O_RDONLY | os.O_DIRECTORY
    try:
        descriptor = os.open(file, flags | os.O_NOFOLLOW, mode)
    except OSError as error:
        if mode and error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # a link, a folder, a socket
            raise ForeignLockError(file) from error
        raise
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise _NoLocksError(*error.args) from error
            raise
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Wait until no other process lets files appear in the folder.

    Raises ``OSError``, and ``BusyFolderError`` if the other process takes too long.
    The lock is a file, and not the folder: whoever may read a folder can lock it, as ``flock FOLDER COMMAND`` does.
    """
    began, writers = time.monotonic(), stat.S_IMODE(os.stat(folder).st_mode) & 0o222
    lock, has_logged = folder / LOCK, False
    while True:
        try:
            with _lock(lock, writers | writers << 1) as descriptor:
                if not _is_at(descriptor, lock):  # its last owner has removed it
                    continue
                if _number_in(lock) is None:
                    raise ForeignLockError(lock)
                try:
                    with suppress(OSError):  # a full disk
                        os.pwrite(descriptor, b"%d" % os.getpid(), 0)
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return
        except _NoLocksError:
            if _number_in(lock) is not None:
                lock.unlink(missing_ok=True)
            raise
        except BlockingIOError:
            waited = time.monotonic() - began
            if waited > lock_timeout():
                raise BusyFolderError(folder, _owner(lock)) from None
            if waited > _SILENT and not has_logged:
                log.warning("waiting for %s, which writes into %s", _owner(lock), folder)
                has_logged = True
            time.sleep(0.01)


def lock_timeout() -> float:
    """How many seconds to wait for another process that writes into a folder."""
    try:
        return float(os.environ[LOCK_TIMEOUT])
    except (KeyError, ValueError):
        return 60.0


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _owner(lock: Path) -> str:
    """The process that holds the lock, by its number where it is known."""
    number = _number_in(lock)
    return f"process {number}" if number else "another process"


def _number_in(lock: Path) -> str | None:
    """What a process wrote into its lock: its number, or nothing yet. None if the file is not such a lock."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | _NO_LINK_NO_WAIT)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > _LONGEST_NUMBER:
            return None
        content = stream.read(_LONGEST_NUMBER)
    return content.decode() if not content or content.isdigit() else None


@contextmanager
def _lock_if_possible(folder: Path) -> Iterator[None]:
    """Without locks, files are written as well, but nothing removes the remains of processes that died."""
    with ExitStack() as stack:
        with suppress(_NoLocksError, PermissionError):
            stack.enter_context(_lock_folder(folder))
        yield


def _sync(path: Path) -> None:
    """Wait until it is on the disk. Some file systems cannot do this for folders."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)

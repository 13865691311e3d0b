"""The kernels that TensorRT for RTX compiles for the GPU at hand, kept from one process to the next."""

from __future__ import annotations

import logging
import os
import stat
from threading import Lock
from typing import Any, BinaryIO

from prototrt.caffe_proto.common.errors import EngineError, UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_CACHE, open_regular, refuse_size
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.files import atomic_write
from prototrt.converter.files.writing.ownership import DerivedPath

log = logging.getLogger(__name__)

_DIGITS = 16
_KERNELS = "kernels of TensorRT"


def cache_beside(plan: str | os.PathLike[str], sha256: str) -> DerivedPath:
    """The file that belongs to a plan: another plan under the same name has another one."""
    return DerivedPath(f"{os.fspath(plan)}.{sha256[:_DIGITS]}.cache")


class KernelCache:
    """A file with kernels.

    Without ``path`` they are kept for the contexts of one engine. The file only saves time: if it cannot be used,
    the log says why, and the kernels are compiled. Kernels are programs that no manifest lists: a file
    that ``is_private`` is refused with ``EngineError`` if another user could have written it.

    Sessions of one engine run in several threads: ``lock`` is held while TensorRT may compile and while kernels are
    written.
    """

    def __init__(self, path: str | os.PathLike[str] | None, *, is_private: bool = False) -> None:
        self._path = None if path is None else os.fspath(path)
        self._is_private = is_private
        self._cache: Any = None
        self._stored = b""
        self.lock = Lock()

    def attach(self, config: Any) -> None:
        """Let contexts made with this ``IRuntimeConfig`` take kernels from the file, and add to them."""
        if not hasattr(config, "create_runtime_cache"):
            return
        self._cache = config.create_runtime_cache()
        stored = b"" if self._path is None else self._read(self._path)
        if stored and self._cache.deserialize(stored):
            self._stored = stored
        elif stored:
            log.info(
                "%s was made for another GPU, driver or TensorRT: kernels are compiled again", self._path
            )
        config.set_runtime_cache(self._cache)

    def save(self) -> None:
        """Write the file if it lacks any kernels. Whatever fails is in the log: the call before it has succeeded."""
        if self._cache is None or self._path is None:
            return
        try:
            with self.lock:
                self._write(self._path)
        except Exception as error:
            log.info("kernels are not kept: %s", error)

    def _write(self, path: str) -> None:
        serialized = self._cache.serialize()
        if serialized is None:
            raise EngineError("TensorRT did not serialize them")
        kernels = bytes(memoryview(serialized))
        if not kernels or kernels == self._stored:
            return
        self._stored = kernels  # what cannot be written once is not tried after each call
        with atomic_write(path) as stream:
            if self._is_private and os.name == "posix":
                os.fchmod(stream.fileno(), 0o600)
            stream.write(kernels)

    def _read(self, path: str) -> bytes:
        try:
            with open_regular(path, _KERNELS) as stream:
                if self._is_private:
                    _refuse_others(stream, path)
                refuse_size(path, os.fstat(stream.fileno()).st_size, _KERNELS, LARGEST_CACHE)
                return stream.read()
        except FileNotFoundError:
            return b""
        except (OSError, UnreadableFileError) as error:
            why = error.strerror if isinstance(error, OSError) else error.problem
            log.info("%s cannot be read: kernels are compiled again: %s", path, why)
            return b""


def _refuse_others(stream: BinaryIO, file: str) -> None:
    """Raise ``EngineError`` for a file that another user may have written; Windows grants rights in another way."""
    if os.name != "posix":
        return
    status = os.fstat(stream.fileno())
    if status.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        who = "every user" if status.st_mode & stat.S_IWOTH else "its group"
        problem = f"{who} may change this file, expected {_KERNELS}"
    elif status.st_uid not in (0, os.geteuid()):
        problem = f"this file belongs to user {status.st_uid}, expected {_KERNELS}"
    else:
        return
    raise EngineError(
        problem,
        where=file,
        because="the engine is pinned, and TensorRT would also run these kernels, which no manifest lists",
        fix=Worded("remove it, and give {} in a folder of your own", Option("runtime_cache", file)),
    )

"""Key files as GLib itself reads them."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from typing import Any

import pytest

_KEEP_TRANSLATIONS = 2


@cache
def _library() -> Any:
    name = ctypes.util.find_library("glib-2.0")
    if name is None:
        return None
    glib = ctypes.CDLL(name)
    for function in ("g_key_file_new", "g_key_file_get_groups", "g_key_file_get_keys"):
        getattr(glib, function).restype = ctypes.c_void_p
    for function in ("g_key_file_get_value", "g_key_file_get_string"):
        getattr(glib, function).restype = ctypes.c_void_p
    return glib


class GKeyFile:
    """A key file that is read from bytes; ``is_read`` says whether GLib takes it."""

    def __init__(self, data: bytes) -> None:
        if _library() is None:
            pytest.skip("needs GLib")
        self._file = ctypes.c_void_p(_library().g_key_file_new())
        size = ctypes.c_size_t(len(data))
        self.is_read = bool(
            _library().g_key_file_load_from_data(self._file, data, size, _KEEP_TRANSLATIONS, None)
        )

    def groups(self) -> dict[str, dict[str, str]]:
        """All values, with their escapes."""
        return {
            group.decode(): {
                key.decode(): self._value("value", group, key) or "" for key in self._keys(group)
            }
            for group in _texts(_library().g_key_file_get_groups(self._file, None))
        }

    def string(self, group: str, key: str) -> str | None:
        """What a value means; None for an escape that GLib lacks."""
        return self._value("string", group.encode(), key.encode())

    def _keys(self, group: bytes) -> list[bytes]:
        return _texts(_library().g_key_file_get_keys(self._file, group, None, None))

    def _value(self, kind: str, group: bytes, key: bytes) -> str | None:
        place = getattr(_library(), f"g_key_file_get_{kind}")(self._file, group, key, None)
        return None if place is None else ctypes.string_at(place).decode()


def _texts(place: int) -> list[bytes]:
    texts: list[bytes] = []
    array = ctypes.cast(place, ctypes.POINTER(ctypes.c_char_p))
    while (text := array[len(texts)]) is not None:
        texts.append(text)
    return texts

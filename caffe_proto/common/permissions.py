"""What users other than the owner may do with an open file.

Windows grants rights in another way, and gives every file the same mode: nothing is said of it.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO


def who_may_change(stream: BinaryIO) -> str | None:
    """Who beside the owner may change the file, in words for a message; None if nobody may."""
    mode = _mode(stream)
    if mode & stat.S_IWOTH:
        return "every user"
    return "its group" if mode & stat.S_IWGRP else None


def foreign_owner(stream: BinaryIO) -> int | None:
    """The number of the file's owner, unless that is this user or root."""
    if os.name != "posix":
        return None
    owner = os.fstat(stream.fileno()).st_uid
    return None if owner in (0, os.geteuid()) else owner


def _mode(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_mode if os.name == "posix" else 0

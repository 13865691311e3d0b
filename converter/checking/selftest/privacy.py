"""What is left out of results that a user may send to others: paths, and the names of the user and the machine."""

from __future__ import annotations

import getpass
import re
import socket
from contextlib import suppress
from pathlib import PureWindowsPath

_PART = r"[^\s\\/:'\"]+"
_FOLDER = rf"{_PART}(?: {_PART})*[\\/]"
_PATH = re.compile(rf"(?<![\w.</])(?:(?:file://|~)?/{_FOLDER}|[A-Za-z]:\\|\\\\)(?:{_FOLDER})*(?:{_PART})?")
"""A path from the root, of a home folder or of a drive. Folders may have spaces in their names."""
_LEAST = 3
"""Letters of a name that is replaced: shorter ones are in half of all words."""
_OF_NOBODY = ("root", "user", "localhost", "ubuntu")


def anonymous(text: str) -> str:
    """The text with the last part alone of each path, and without the names of the user and the machine."""
    shown = _PATH.sub(lambda match: f"<path>/{PureWindowsPath(match[0]).name}", text)
    for name, word in (*((each, "<host>") for each in _hosts()), (_user(), "<user>")):
        if len(name) >= _LEAST and name.lower() not in _OF_NOBODY:
            shown = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, shown, flags=re.IGNORECASE)
    return shown


def _hosts() -> list[str]:
    name = socket.gethostname()
    return [name, name.partition(".")[0]]


def _user() -> str:
    with suppress(KeyError, OSError, ImportError):  # a process may run as nobody
        return getpass.getuser()
    return ""

"""What a process is doing, written where its parent can read it after a crash.

A library in native code can end the process without a word. A command that may meet that runs in a child
process, whose parent reads these notes.
"""

from __future__ import annotations

import mmap

_SIZE = 4096  # bytes of a note
TASK, FOLDER = 0, 1
"""What is done next, as in ``adding layer "fc" (InnerProduct)``; the folder of files that may stay unfinished."""

_notes: mmap.mmap | None = None


def share() -> None:
    """From now on, notes are seen by the processes that fork off, and theirs by this one."""
    global _notes  # one process has one black box
    _notes = mmap.mmap(-1, 2 * _SIZE)


def note(place: int, text: str) -> None:
    """Note the ``TASK`` or the ``FOLDER``. Does nothing without a parent process."""
    if _notes is not None:
        _notes[place * _SIZE : (place + 1) * _SIZE] = text.encode()[: _SIZE - 1].ljust(_SIZE, b"\0")


def read(place: int) -> str:
    """The last note, or an empty text."""
    if _notes is None:
        return ""
    return _notes[place * _SIZE : (place + 1) * _SIZE].rstrip(b"\0").decode(errors="replace")
